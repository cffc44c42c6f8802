import t from 'tap'
import { Metrics } from '../../src/platform/metrics.ts'

await t.test('metrics are made once by name and rendered as text', async t => {
  const metrics = new Metrics()
  const requests = metrics.counter('requests_total', 'Requests', ['route'])
  t.equal(metrics.counter('requests_total', 'Requests', ['route']), requests, 'asking again, as after a reload, gives the same one')
  requests.inc({ route: 'a' }, 2)
  metrics.gauge('open', 'Open streams').set(3)
  metrics.histogram('request_seconds', 'Time', ['route'], [0.1, 1]).observe({ route: 'a' }, 0.5)
  const text = await metrics.render()
  t.match(text, /^requests_total\{route="a"\} 2$/m)
  t.match(text, /^open 3$/m)
  t.match(text, /^request_seconds_bucket\{le="1",route="a"\} 1$/m)
  t.notMatch(text, /process_cpu/)
  t.match(metrics.contentType, /^text\/plain/)
})

await t.test('a name cannot be two things, and registries do not meet', async t => {
  const metrics = new Metrics()
  metrics.counter('n', 'N', ['a'])
  t.throws(() => metrics.gauge('n', 'N', ['a']), TypeError)
  t.throws(() => metrics.counter('n', 'N', ['b']), TypeError)
  t.doesNotThrow(() => new Metrics().gauge('n', 'N'))
})

await t.test('the process is measured when asked for', async t => {
  const metrics = new Metrics()
  metrics.measureProcess()
  t.match(await metrics.render(), /process_cpu_seconds_total/)
})
