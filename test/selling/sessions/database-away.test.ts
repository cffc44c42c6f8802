/**
 * The database goes down while streams are open: new requests fail closed, open streams go on within their
 * slice and then end without an unpaid unit, and nothing is overdrawn or lost when it is back.
 */
import { createServer, type ServerResponse } from 'node:http'
import { request } from 'undici'
import t, { type Test as T } from 'tap'
import { flaky } from '../../faults/flaky-database.ts'
import { openAnyDatabase } from '../../support/database.ts'
import { paidFor } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { openShop, sessionYaml, startUpstream } from './fixture.ts'
import { serve } from '../../support/serve.ts'

const EVENT = 'data: {"n":1}\n\n'

/** An upstream that writes an event on demand. */
async function steppedUpstream(t: T) {
  const open = new Set<ServerResponse>()
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.flushHeaders()
    open.add(response)
    response.on('close', () => open.delete(response))
  })
  const port = await serve(t, server)
  return {
    // It listens on a port.
    url: `http://127.0.0.1:${port}`,
    open,
    write: (text: string) => {
      for (const response of open) response.write(text)
    }
  }
}

/** A stream that is read as it comes. */
async function streaming(url: string, authorization: string) {
  const { statusCode, body } = await request(url, { headers: { authorization } })
  const got = { status: statusCode, text: '', isOver: false, isWhole: false }
  body.setEncoding('utf8')
  body.on('data', (piece: string) => (got.text += piece))
  body.on('end', () => (got.isWhole = true))
  body.on('error', () => undefined)
  body.on('close', () => (got.isOver = true))
  return got
}

const events = (text: string) => text.split(EVENT).length - 1

t.test('a session: streams continue within their slice, and end there', async t => {
  const database = flaky(await openAnyDatabase(t))
  const upstream = await steppedUpstream(t)
  const plain = await startUpstream(t)
  const shop = await openShop(t, undefined, {
    database,
    upstream: plain,
    yaml: sessionYaml(upstream.url, 'price: 1 sat\n    sessions: { deposit: 320 sats, idle: 5m }')
  })
  const deposited = await shop.deposit()
  const got = await streaming(`${shop.gateway.url}/v1/stream`, deposited.open)
  t.equal(got.status, 200)
  upstream.write(EVENT.repeat(2))
  await eventually('two events have come', async () => (events(got.text) === 2 ? true : null))
  database.away = true
  // The slice is a 32nd part of the deposit: ten events.
  upstream.write(EVENT.repeat(3))
  await eventually('it goes on within its slice', async () => (events(got.text) === 5 ? true : null))
  const other = await shop.get((await unknownSession()).bearer)
  t.equal(other.status, 503, 'what this gateway has no slice of fails closed')
  t.equal((await shop.get()).status, 503, 'and no client is asked for money')
  upstream.write(EVENT.repeat(40))
  await eventually('it ends where nothing more is covered', async () => (got.isOver ? true : null))
  t.equal(got.isWhole, false, 'and it is not mistaken for the whole')
  t.ok(events(got.text) >= 5 && events(got.text) <= 11, `${events(got.text)} events were covered by the slice`)
  database.away = false
  const sold = events(got.text) * 1000
  const row = await eventually('what was sold is billed', async () => {
    const found = await shop.store.find(deposited.id)
    return found?.spentMsat === sold ? found : null
  })
  t.match(row, { depositedMsat: 320_000, closedAt: null })
  t.match((await shop.get(deposited.close)).json(), { refundSats: 320 - sold / 1000, refundStatus: 'succeeded' })

  async function unknownSession() {
    database.away = false
    const made = await shop.deposit()
    database.away = true
    return made
  }
})

t.test('a bundle: a stream continues within its slice, and is cut there', async t => {
  const database = flaky(await openAnyDatabase(t))
  const upstream = await steppedUpstream(t)
  const plain = await startUpstream(t)
  const meter = 'meter: { bundle: 320 sats, prices: 1 sat, usage: events, estimate: { else: 2 } }'
  const shop = await openShop(t, undefined, { database, upstream: plain, yaml: sessionYaml(upstream.url, meter) })
  const key = await paidFor(shop.gateway, await shop.get())
  const got = await streaming(`${shop.gateway.url}/v1/a`, key)
  t.equal(got.status, 200)
  upstream.write(EVENT.repeat(2))
  await eventually('two events have come', async () => (events(got.text) === 2 ? true : null))
  database.away = true
  upstream.write(EVENT.repeat(60))
  await eventually('it ends', async () => (got.isOver ? true : null))
  t.equal(got.isWhole, false, 'and it is not mistaken for the whole')
  database.away = false
  const [balance] = await eventually('what flowed is billed', async () => {
    const all = await shop.balances.list({ skip: 0, take: 1 })
    return (all[0]?.spentMsat ?? 0) > 0 ? all : null
  })
  t.ok((balance?.spentMsat ?? 0) <= 62_000 && (balance?.spentMsat ?? 0) >= 2_000, `${balance?.spentMsat}`)
  t.equal((await shop.get(undefined, '/health')).status, 200)
})
