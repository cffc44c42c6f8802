import { request } from 'undici'
import t from 'tap'
import type { HeldStream } from '../../../src/selling/balances/metered-charge.ts'
import type { GrowthResult } from '../../../src/selling/balances/ledger.ts'
import type { SessionCounters } from '../../../src/selling/sessions/open.ts'
import { SessionNews } from '../../../src/selling/sessions/news.ts'
import type { PrepaidSession } from '../../../src/selling/sessions/store.ts'
import { SessionStream } from '../../../src/selling/sessions/stream.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { passing } from '../balances/fixture.ts'
import { replies, STREAM_TYPE, type Respond } from '../shop.ts'
import { openShop, type Shop } from './fixture.ts'
import { ManualClock } from '../../support/manual-clock.ts'

/** An event stream, whole. */
const streams = (text: string) => replies(text, STREAM_TYPE)

/** An event stream of so many events and a `[DONE]`, whose pieces end anywhere. */
function numbered(events: number, isEnded = true): Respond {
  return (_request, response) => {
    response.setHeader('content-type', 'text/event-stream')
    const text = Array.from({ length: events }, (_, n) => `data: {"n":${n}}\n\n`).join('') + 'data: [DONE]\n\n'
    for (let at = 0; at < text.length; at += 7) response.write(text.slice(at, at + 7))
    if (isEnded) response.end()
  }
}

interface Event {
  readonly event: string
  readonly data: string
}

/** The events of a response as they come. */
async function* eventsOf(shop: Shop, authorization: string): AsyncGenerator<Event> {
  const { body, statusCode } = await request(`${shop.gateway.url}/v1/stream`, { headers: { authorization } })
  if (statusCode !== 200) throw new Error(`${statusCode}: ${await body.text()}`)
  body.setEncoding('utf8')
  let rest = ''
  for await (const piece of body) {
    rest += String(piece)
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const lines = rest.slice(0, end).split('\n')
      rest = rest.slice(end + 2)
      const field = (name: string) =>
        lines.find(line => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? (name === 'event' ? 'message' : '')
      yield { event: field('event'), data: field('data') }
    }
  }
}

async function topUp(shop: Shop, sessionId: string) {
  const answer = await shop.get(await shop.topUp(sessionId))
  if (answer.status !== 200) throw new Error(answer.text)
}

t.test('each event of a stream is a unit, and the receipt comes before its end', async t => {
  const shop = await openShop(t, undefined, { answer: numbered(10) })
  const session = await shop.open()
  const text = session.answer.text
  t.match(text, /data: \{"n":9\}\n\nevent: payment-receipt\ndata: \{.*\}\n\ndata: \[DONE\]\n\n$/)
  const receipt = JSON.parse(/event: payment-receipt\ndata: (.*)\n/.exec(text)?.[1] ?? '{}') as unknown
  t.match(receipt, { method: 'lightning', reference: session.id, status: 'success', spent: 20, units: 10 })
  t.same(await shop.refund(session.close), [80, 'succeeded'])
})

t.test('an event costs its unit whatever its length, and however its lines end', async t => {
  const shop = await openShop(t)
  const session = await shop.deposit()
  let spent = 0
  for (const end of ['\n', '\r', '\r\n']) {
    const event = `data: ${'x'.repeat(20_000)}${end}: note${end}${end}`
    shop.upstream.answer = streams(`\ufeff${event.repeat(5)}data: [DONE]${end}${end}`)
    spent += 10
    const { text } = await shop.get(spent === 10 ? session.open : session.bearer)
    t.match(text, new RegExp(`event: payment-receipt\ndata: .*"units":5.*\n\ndata: \\[DONE\\]`), JSON.stringify(end))
  }
  t.same(await shop.refund(session.close), [100 - spent, 'succeeded'])
})

t.test("events of ours in a stream of chat chunks have the member that OpenAI's clients read", async t => {
  const text = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'.repeat(2) + 'data: [DONE]\r\n\r\n\r\n'
  const shop = await openShop(t, undefined, { answer: streams(text) })
  t.match(
    (await shop.open()).answer.text,
    /event: payment-receipt\ndata: \{"choices":\[\],"method":"lightning",.*\}\n\ndata: \[DONE\]\r\n\r\n\r\n$/
  )
})

t.test('a last event without a blank line: is ended before the receipt', async t => {
  const shop = await openShop(t)
  const session = await shop.deposit()
  for (const [time, end] of ['', '\n', '\r'].entries()) {
    shop.upstream.answer = streams(`data: {"n":1}\n\ndata: {"n":2}${end}`)
    const { text } = await shop.get(time === 0 ? session.open : session.bearer)
    t.match(text, /data: \{"n":2\}\r?\n\n+event: payment-receipt\ndata: .*"units":2/, JSON.stringify(end))
  }
})

t.test('a session of a metered model: pays for the usage, which its client is not sent', async t => {
  const answer: Respond = (_request, response) => {
    response.writeHead(200, STREAM_TYPE)
    response.write('data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
    response.write('data: {"choices":[],"usage":{"prompt_tokens":5,"compl')
    response.end('etion_tokens":7}}\n\ndata: [DONE]\n\n')
  }
  const meter = 'meter: { unit: token, bundle: 100 sats, prices: 1 sat, usage: openai, estimate: { else: 10 } }'
  const shop = await openShop(t, `sessions: { deposit: 100 sats }\n    ${meter}`, { answer })
  const { open } = await shop.deposit()
  const { text } = await shop.gateway.send('POST', '/v1/chat', {
    headers: { authorization: open, 'content-type': 'application/json' },
    body: { stream: true, messages: [] }
  })
  t.match(text, /^data: \{"choices":\[\{.*\n\nevent: payment-receipt\ndata: .*"spent":7,.*\n\ndata: \[DONE\]\n\n$/)
  t.notMatch(text, 'prompt_tokens')
})

t.test(
  'a stream that has used up its balance waits for a deposit and continues, with no event lost or repeated',
  async t => {
    const shop = await openShop(t, undefined, { answer: numbered(120) })
    const first = await shop.deposit()
    const seen: Event[] = []
    let pauses = 0
    for await (const event of eventsOf(shop, first.open)) {
      seen.push(event)
      if (event.event !== 'payment-need-topup') continue
      pauses++
      t.match(JSON.parse(event.data), { sessionId: first.id, balanceRequired: 2 })
      await topUp(shop, first.id)
    }
    t.ok(pauses >= 1)
    const numbers = seen.filter(({ event }) => event === 'message').map(({ data }) => data)
    t.same(numbers, [...Array.from({ length: 120 }, (_, n) => `{"n":${n}}`), '[DONE]'])
    t.match(JSON.parse(seen.find(({ event }) => event === 'payment-receipt')?.data ?? '{}'), { spent: 240, units: 120 })
  }
)

t.test('a deposit during the balance check: the stream continues, and its client gets no second request', async t => {
  const refused = Promise.withResolvers<GrowthResult>()
  const news = new SessionNews({ listen: () => Promise.reject(new Error()), notify: async () => {} }, silentLog)
  let hasDeposit = false
  // No more of them is asked for.
  const held = {
    isHidden: false,
    leftMsat: 0,
    lackingMsat: 2_000,
    admit: () => refused.promise,
    cover: () => (hasDeposit ? 'grown' : 'refused')
  } as unknown as HeldStream
  const session = { closedAt: null, depositedMsat: 2_000 } as PrepaidSession
  const counters = { paused: () => t.fail('it does not pause') } as unknown as SessionCounters
  const out: string[] = []
  const stream = new SessionStream(
    { id: 's', held, news, counters, clock: new ManualClock(), standing: async () => session },
    bytes => out.push(Buffer.from(bytes).toString())
  )
  const written = stream.write(Buffer.from('data: 1\n\n'))
  hasDeposit = true
  await news.tell('s')
  refused.resolve('refused')
  for (let turn = 0; turn < 10; turn++) await Promise.resolve()
  t.same(out, ['data: 1\n\n'])
  stream.close()
  await written
})

t.test('a stream that waits without success ends after a minute, and pays for what came', async t => {
  const clock = new ManualClock(Date.now())
  const shop = await openShop(t, 'price: 30 sats\n    sessions: { deposit: 100 sats }', {
    answer: numbered(10),
    clock
  })
  const session = await shop.deposit()
  const { database } = shop.gateway
  const streamed = await passing(t, clock, database, shop.get(session.open, '/v1/stream'), 500)
  const events = streamed.text.split('\n\n')
  t.match(events.slice(0, 3), ['data: {"n":0}', 'data: {"n":1}', 'data: {"n":2}'])
  t.match(events[3], /^event: payment-need-topup\ndata: .*"balanceSpent":90,"balanceRequired":30/)
  t.match(events[4], /^event: session-timeout\ndata: .*"balanceSpent":90,"balanceRequired":30/)
  t.same(await passing(t, clock, database, shop.refund(session.close), 500), [10, 'succeeded'])
})

t.test('a client that leaves while its stream waits pays for what it got', async t => {
  const shop = await openShop(t, 'price: 30 sats\n    sessions: { deposit: 100 sats }', {
    answer: numbered(10)
  })
  const { open, close } = await shop.deposit()
  for await (const { event } of eventsOf(shop, open)) if (event === 'payment-need-topup') break
  t.same(await shop.refund(close), [10, 'succeeded'])
})

t.test('a session that is closed while a stream waits ends the stream', async t => {
  const shop = await openShop(t, 'price: 30 sats\n    sessions: { deposit: 100 sats }', {
    answer: numbered(10, false)
  })
  const { open, close } = await shop.deposit()
  const names: string[] = []
  let closed: ReturnType<Shop['refund']> | null = null
  for await (const { event } of eventsOf(shop, open)) {
    names.push(event)
    if (event === 'payment-need-topup') closed = shop.refund(close)
  }
  t.same(names, ['message', 'message', 'message', 'payment-need-topup', 'payment-receipt'])
  t.same(await closed, [10, 'succeeded'])
})
