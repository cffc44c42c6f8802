import t from 'tap'
import bodyLimit from '../../plugins/body-limit.ts'
import { harness } from '../../src/engine/pipeline/harness.ts'
import type { RouteConfig } from '../../src/engine/config/schema.ts'

const reads = { readsBody: true } as const

t.test('a Content-Length above the limit is refused before a byte of the body is read', async t => {
  const chain = await harness([{ plugin: bodyLimit, config: { limit: 10 } }], { answer: reads })
  const result = await chain.run({ method: 'POST', body: 'x'.repeat(11) })
  t.equal(result.status, 413)
  t.strictSame(result.json(), {
    error: 'Payload too large',
    message: 'The request body is larger than the limit of 10 bytes.'
  })
  t.equal(result.headers.get('connection'), 'close')
  t.equal(result.upstream, null)
  t.equal(result.outcome.bytesIn, 0)
})

t.test('a body of exactly the limit passes, with and without Content-Length', async t => {
  const chain = await harness([{ plugin: bodyLimit, config: { limit: 10 } }], { answer: reads })
  for (const chunked of [false, true]) {
    const result = await chain.run({ method: 'POST', body: 'x'.repeat(10), chunked })
    t.equal(result.status, 200)
    t.equal(result.outcome.bytesIn, 10)
  }
})

t.test('a chunked body over the limit becomes 413 while it streams', async t => {
  const chain = await harness([{ plugin: bodyLimit, config: { limit: '1KiB' } }], { answer: reads })
  const result = await chain.run({ method: 'POST', body: 'x'.repeat(1025), chunked: true })
  t.equal(result.status, 413)
  t.same(result.faults, [])
})

t.test("a route's own limit takes the place of the chain's", async t => {
  // Of the route only this setting is read here.
  const config = { bodyLimit: 20 } as unknown as RouteConfig
  const chain = await harness([{ plugin: bodyLimit, config: { limit: 10 } }], { route: { config }, answer: reads })
  t.equal((await chain.run({ method: 'POST', body: 'x'.repeat(20) })).status, 200)
  t.equal((await chain.run({ method: 'POST', body: 'x'.repeat(21) })).status, 413)
})

t.test('of two limits in a chain the smaller holds', async t => {
  const chain = await harness(
    [
      { plugin: bodyLimit, config: { limit: 5 } },
      { plugin: bodyLimit, config: { limit: 50 } }
    ],
    { answer: reads }
  )
  t.equal((await chain.run({ method: 'POST', body: '123456', chunked: true })).status, 413)
})
