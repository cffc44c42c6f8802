/**
 * The database goes down while streams are open: new requests fail closed, open streams go on within their
 * slice and then end without an unpaid unit, and nothing is overdrawn or lost when it is back.
 */
import type { ServerResponse } from 'node:http'
import { request } from 'undici'
import t, { type Test as T } from 'tap'
import { flaky } from '../../faults/flaky-database.ts'
import { openAnyDatabase } from '../../support/database.ts'
import { paidFor } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { STREAM_TYPE } from '../shop.ts'
import { openShop } from './fixture.ts'

const EVENT = 'data: {"n":1}\n\n'

/** A shop whose upstream writes events on demand, over a database that can go down. */
async function steppedShop(t: T, route: string) {
  const database = flaky(await openAnyDatabase(t))
  const open = new Set<ServerResponse>()
  const shop = await openShop(t, route, {
    database,
    answer: (_request, response) => {
      response.writeHead(200, STREAM_TYPE).flushHeaders()
      open.add(response)
      response.on('close', () => open.delete(response))
    }
  })
  return {
    ...shop,
    database,
    write: (count: number) => {
      for (const response of open) response.write(EVENT.repeat(count))
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
  const shop = await steppedShop(t, 'price: 1 sat\n    sessions: { deposit: 320 sats, idle: 5m }')
  const { database } = shop
  const deposited = await shop.deposit()
  const got = await streaming(`${shop.gateway.url}/v1/stream`, deposited.open)
  t.equal(got.status, 200)
  shop.write(2)
  await eventually('two events have come', async () => (events(got.text) === 2 ? true : null))
  database.away = true
  // The slice is a 32nd part of the deposit: ten events.
  shop.write(3)
  await eventually('it goes on within its slice', async () => (events(got.text) === 5 ? true : null))
  database.away = false
  const unknown = await shop.deposit()
  database.away = true
  t.equal(await shop.problem(unknown.bearer), 503, 'what this gateway has no slice of fails closed')
  t.equal((await shop.get()).status, 503, 'and no client is asked for money')
  shop.write(40)
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
  t.same(await shop.refund(deposited.close), [320 - sold / 1000, 'succeeded'])
})

t.test('a bundle: a stream continues within its slice, and is cut there', async t => {
  const meter = 'meter: { bundle: 320 sats, prices: 1 sat, usage: events, estimate: { else: 2 } }'
  const shop = await steppedShop(t, meter)
  const { database } = shop
  const key = await paidFor(shop.gateway, await shop.get())
  const got = await streaming(`${shop.gateway.url}/v1/a`, key)
  t.equal(got.status, 200)
  shop.write(2)
  await eventually('two events have come', async () => (events(got.text) === 2 ? true : null))
  database.away = true
  shop.write(60)
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
