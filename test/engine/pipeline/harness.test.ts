import t from 'tap'
import hello from '../../../docs/examples/hello-header.ts'
import { definePlugin, Size, Type } from '../../../src/index.ts'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import { testServices } from '../../support/plugin-harness.ts'

t.test('the example of the docs does what the docs say', async t => {
  const services = testServices()
  const chain = await harness([{ plugin: hello, config: { greeting: 'hi', refuse: ['mallory'] } }], {
    services,
    answer: { body: 'ok' }
  })
  const greeted = await chain.run({ target: '/hello', headers: { 'X-Caller': 'ada' } })
  t.equal(greeted.status, 200)
  t.equal(greeted.text, 'ok')
  t.equal(greeted.headers.get('x-hello'), 'hi, ada')
  t.equal(greeted.upstream?.headers.get('x-greeted'), 'ada')
  const refused = await chain.run({ headers: { 'X-Caller': 'mallory' } })
  t.equal(refused.status, 403)
  t.strictSame(refused.json(), { error: 'There is no greeting for mallory.' })
  t.notOk(refused.headers.has('x-hello'))
  t.equal(refused.upstream, null)
  t.equal(services.lines.length, 0)
})

t.test('settings are read like those of the file', async t => {
  const seen: unknown[] = []
  const plugin = definePlugin({
    name: 'sized',
    config: Type.Object(
      { size: Size({ default: '1KiB' }), name: Type.String({ default: 'x' }) },
      { additionalProperties: false }
    ),
    setup(config) {
      seen.push(config)
      return {}
    }
  })
  await harness(plugin)
  await harness([{ plugin, config: { size: '2MiB', name: 'y' } }])
  t.same(seen, [
    { size: 1024, name: 'x' },
    { size: 2_097_152, name: 'y' }
  ])
  await t.rejects(harness([{ plugin, config: { size: '2 elephants' } }]), /settings of sized: .*size/)
  await t.rejects(harness([{ plugin, config: { siez: 1 } }]), /did you mean "?size/i)
})

t.test('a service that is used and was not given fails the set-up', async t => {
  await t.rejects(harness(hello), /hello-header uses the service "log"/)
})

t.test('an entry with a condition takes part only where it holds', async t => {
  const plugin = definePlugin({
    name: 'answers',
    config: Type.Object({}),
    setup: () => ({ request: () => ({ status: 418, headers: [], body: null }) })
  })
  const chain = await harness([{ plugin, when: { method: ['PUT'] } }])
  t.equal((await chain.run()).status, 200)
  t.equal((await chain.run({ method: 'PUT' })).status, 418)
})

t.test('a terminal plugin under test comes last', async t => {
  const plugin = definePlugin({
    name: 'teapot',
    terminal: true,
    config: Type.Object({}),
    setup: () => ({ handle: () => ({ status: 418, headers: [], body: 'short' }) })
  })
  const result = await (await harness(plugin)).run()
  t.same([result.status, result.text], [418, 'short'])
})

t.test('plugins are closed', async t => {
  let closed = 0
  const plugin = definePlugin({
    name: 'closes',
    config: Type.Object({}),
    setup: () => ({
      close() {
        closed++
      }
    })
  })
  await (await harness([plugin, plugin])).close()
  t.equal(closed, 2)
})
