import { LATENCY_BOUNDS } from '../../../src/platform/telemetry/latency.ts'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { ManualClock } from '../../support/manual-clock.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'

await t.test('metrics are made once by name and rendered as text', async t => {
  const metrics = new Metrics()
  const requests = metrics.counter('requests_total', 'Requests', ['route'])
  t.equal(
    metrics.counter('requests_total', 'Requests', ['route']),
    requests,
    'asking again, as after a reload, gives the same one'
  )
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

await t.test('the process is measured on demand', async t => {
  const metrics = new Metrics()
  metrics.measureProcess()
  t.match(await metrics.render(), /process_cpu_seconds_total/)
})

await t.test('metrics of cells are rendered byte for byte as prom-client renders its own', async t => {
  const metrics = new Metrics()
  const registry = new Registry()
  const registers = [registry]
  const asked = metrics.counterCells('asked_total', 'PageRequest \\ "so"', ['route', 'status'])
  const open = metrics.gaugeCells('open', 'Open', ['route'])
  const took = metrics.latencyCells('took_seconds', 'Time', ['route'])
  const theirAsked = new Counter({
    name: 'asked_total',
    help: 'PageRequest \\ "so"',
    labelNames: ['route', 'status'],
    registers
  })
  const theirOpen = new Gauge({ name: 'open', help: 'Open', labelNames: ['route'], registers })
  const theirTook = new Histogram({
    name: 'took_seconds',
    help: 'Time',
    labelNames: ['route'],
    buckets: [...LATENCY_BOUNDS],
    registers
  })
  t.equal(await metrics.render(), await registry.metrics(), 'before anything was counted')
  for (const route of ['b', 'a', '"quoted\\\n"', 'never']) {
    const cell = took.cell({ route })
    t.equal(took.cell({ route }), cell, 'labels have one cell')
    if (route === 'never') continue
    for (const value of [0.0001, 0.001, 0.0010001, 0.1, 0.2, 0.3, 1, 7, 1e-7, -1]) {
      cell.observe(value)
      theirTook.observe({ route }, value)
    }
    for (const [status, by] of [
      ['2xx', 3],
      ['5xx', 1],
      ['2xx', 9]
    ] as const) {
      asked.cell({ route, status }).add(by)
      theirAsked.inc({ route, status }, by)
    }
    for (const by of [1, 1, -1, -1, -1]) {
      open.cell({ route }).add(by)
      theirOpen.inc({ route }, by)
    }
    t.equal(await metrics.render(), await registry.metrics(), `after ${route}`)
  }
  t.throws(() => {
    took.cell({ route: 'a' }).observe(NaN)
  }, TypeError)
  t.equal(await metrics.render(), await registry.metrics())
})

await t.test('a metric of cells is made once, and is no other', async t => {
  const metrics = new Metrics()
  const asked = metrics.counterCells('asked_total', 'PageRequest', ['route'])
  t.equal(
    metrics.counterCells('asked_total', 'PageRequest', ['route']),
    asked,
    'asking again, as after a reload, gives the same one'
  )
  t.throws(() => metrics.counterCells('asked_total', 'PageRequest', ['other']), TypeError)
  t.throws(() => metrics.counter('asked_total', 'PageRequest', ['route']), TypeError)
  t.throws(() => metrics.gaugeCells('asked_total', 'PageRequest', ['route']), TypeError)
})

t.test('metrics: a render waits half a second for a sample, and then shows the last values', async t => {
  const clock = new ManualClock()
  const metrics = new Metrics(clock)
  let read = async () => [{ labels: { kind: 'a' }, value: 1 }]
  let reads = 0
  metrics.sampled('boltgate_test_sampled', 'For this test.', ['kind'], () => {
    reads++
    return read()
  })
  t.match(await metrics.render(), /boltgate_test_sampled\{kind="a"\} 1/)
  const slow = Promise.withResolvers<Array<{ labels: { kind: string }; value: number }>>()
  read = () => slow.promise
  const [first, second] = [metrics.render(), metrics.render()]
  clock.advance(500)
  t.match(await first, /boltgate_test_sampled\{kind="a"\} 1/, 'the last values')
  t.match(await second, /boltgate_test_sampled\{kind="a"\} 1/)
  t.equal(reads, 2, 'one sample at a time')
  slow.resolve([{ labels: { kind: 'b' }, value: 2 }])
  await slow.promise
  read = async () => {
    throw new Error('it is down')
  }
  const late = await metrics.render()
  t.match(late, /boltgate_test_sampled\{kind="b"\} 2/, 'a late sample is shown by the next render')
  t.notMatch(late, /kind="a"/)
  t.match(await metrics.render(), /boltgate_test_sampled\{kind="b"\} 2/, 'a failed one leaves them')
})
