/**
 * A gateway is killed repeatedly while clients open, use, top up and close prepaid sessions through it. Each
 * deposit must count once, each refund go out once, and what was served and not billed stays under a 32nd part
 * of the deposits and what the requests in flight were sent. On PostgreSQL a second gateway goes on beside it; on the embedded database there is one, which is restarted.
 * The short form runs in the suite; for the long one say how many kills:
 *
 *   SESSION_KILLS=50 TEST_DATABASE_URL=postgres://… TAP_TIMEOUT=9000 node test/faults/session-kill-campaign.test.ts
 */
import { createServer } from 'node:http'
import t, { type Test as T } from 'tap'
import { SLICES } from '../../src/selling/balances/balance.ts'
import { readKeys } from '../../src/platform/keys/keyfile.ts'
import { startFakeCln } from '../fakes/cln.ts'
import { offerOf, paymentLines, returnInvoice, token } from '../selling/sessions/fixture.ts'
import { temporaryFolder } from '../support/database.ts'
import { defaultYaml } from '../support/gateway.ts'
import { eventually, freshPostgres, spawnGateway } from '../support/gateway-process.ts'
import { openGate } from './tcp-gate.ts'
import { serve } from '../support/serve.ts'

const kills = Number(process.env['SESSION_KILLS'] ?? 1)
/** Concurrent clients, each with a session of its own and so many concurrent requests of it. */
const CLIENTS = 6
const REQUESTS_AT_ONCE = 3
const DEPOSIT_SATS = 200
const UNIT_SATS = 2
/** Events of a stream, each of which is a unit. */
const EVENTS = 10
/** Milliseconds between two kills, at most. */
const BETWEEN = 1_500

/** What the upstream has served: units by the correlation id of the request. */
async function startSource(t: T) {
  const units = new Map<string, number>()
  const server = createServer((request, response) => {
    const id = String(request.headers['x-correlation-id'] ?? '')
    request.resume()
    const isStream = request.url?.endsWith('stream') === true
    units.set(id, (units.get(id) ?? 0) + (isStream ? EVENTS : 1))
    setTimeout(() => {
      if (!isStream) {
        response.end('sold')
        return
      }
      response.setHeader('content-type', 'text/event-stream')
      response.end(Array.from({ length: EVENTS }, (_, n) => `data: ${n}\n\n`).join(''))
    }, 20)
  })
  const port = await serve(t, server)
  // It listens on a port.
  return { url: `http://127.0.0.1:${port}`, units }
}

/** A session as the operator's list has it. */
interface Row {
  readonly id: string
  readonly depositedMsat: number
  readonly spentMsat: number
  readonly balanceMsat: number
  readonly closedAt: string | null
  readonly returnInvoice: string
  readonly refund: { readonly status: string | null; readonly satoshis: number }
}

/** What a close is answered. */
interface Told {
  readonly refundSats: number
  readonly refundStatus: 'succeeded' | 'failed' | 'skipped'
}

interface EntryRow {
  readonly request: string
  readonly msat: number
  readonly basis: string
}

t.test(
  `${kills} kills: each deposit counts once, each refund is sent once, and little is not billed`,
  { timeout: 240_000 + kills * 30_000 },
  async t => {
    const node = await startFakeCln()
    t.teardown(() => node.close())
    const paidTo = new Map<string, number[]>()
    const pay = node.wallet.pay.bind(node.wallet)
    node.wallet.pay = (invoice, amountSats) => {
      paidTo.set(invoice, [...(paidTo.get(invoice) ?? []), amountSats ?? 0])
      return pay(invoice, amountSats)
    }
    const gate = await openGate(t, { host: '127.0.0.1', port: Number(new URL(node.url).port) })
    const source = await startSource(t)
    const url = await freshPostgres(t)
    const yaml = defaultYaml({
      replace: [
        [
          'primary:   { kind: sandbox }',
          `primary:   { kind: cln, key: "${node.key().replace(new URL(node.url).host, `127.0.0.1:${gate.port}`)}" }`
        ],
        ['mode: development', 'payment: { leaseTimeout: 3s }\nmode: development'],
        [
          'routes:\n',
          `routes:
  - match: { path: /v1/* }
    chain: paid
    upstream: { url: "${source.url}" }
    price: ${UNIT_SATS} sats
    sessions: { deposit: ${DEPOSIT_SATS} sats, idle: 1h }
`
        ]
      ]
    })
    const data = temporaryFolder(t)
    const start = () =>
      spawnGateway(t, { yaml, data, documented: false, env: url === null ? {} : { DATABASE_URL: url } })
    let victim = await start()
    let isUp: Promise<unknown> = Promise.resolve()
    const steady = url === null ? null : await start()
    const over = new AbortController()

    /** At any of the gateways, once. */
    const once = (nth: number, authorization: string | null, path: string) =>
      (steady !== null && nth % 2 === 0 ? steady : victim).send('GET', path, {
        headers: authorization === null ? {} : { authorization }
      })
    /** Until it is answered with something else than a failure, as a client does that was not answered. */
    const untilAnswered = async (authorization: string | null, path: string) => {
      let last = 'no answer'
      for (let nth = Math.floor(Math.random() * 2), until = Date.now() + 60_000; Date.now() < until; nth++) {
        await isUp
        const answer = await once(nth, authorization, path).catch(() => null)
        if (answer !== null && answer.status < 500) return answer
        last = answer === null ? 'no answer' : `${answer.status} ${answer.text}`
        await new Promise(resolve => setTimeout(resolve, 50))
      }
      throw new Error(`a client retried for a minute without success: ${last}`)
    }
    const wrong: string[] = []
    const deposited = new Map<string, number>()
    const toldRefunds = new Map<string, number>()
    const closes = new Map<string, string>()
    let [served, lost, sessions, toldFailed] = [0, 0, 0, 0]
    /** Requests whose whole response reached a client. */
    const delivered = new Set<string>()

    /** Pays for a deposit: its challenge and the preimage. */
    const deposit = async () => {
      // While the node cannot make a deposit's invoice, a 402 offers no session.
      const { challenge, request } = await eventually('a 402 offers a session', async () => {
        const answer = await untilAnswered(null, '/v1/a')
        return paymentLines(answer).some(({ intent }) => intent === 'session') ? offerOf(answer) : null
      })
      const id = request['paymentHash'] ?? ''
      return { challenge, id, preimage: node.wallet.settle(id) }
    }
    const life = async () => {
      const { challenge, id, preimage } = await deposit()
      const proof = { sessionId: id, preimage }
      const open = token(challenge, {
        action: 'open',
        preimage,
        returnInvoice: returnInvoice()
      })
      const opened = await untilAnswered(open, '/v1/a')
      if (opened.status !== 200) wrong.push(`an open was answered ${opened.status} ${opened.text}`)
      sessions++
      deposited.set(id, DEPOSIT_SATS)
      const bearer = token(challenge, { action: 'bearer', ...proof })
      const use = async () => {
        for (let count = 0; count < 6; count++) {
          const path = Math.random() < 0.2 ? '/v1/stream' : '/v1/a'
          const answer = await once(Math.floor(Math.random() * 2), bearer, path).catch(() => null)
          if (answer === null) lost++
          else if (answer.status === 200) {
            served++
            delivered.add(String(answer.headers['x-correlation-id']))
          } else if (answer.status < 500) wrong.push(`a request was answered ${answer.status} ${answer.text}`)
          if (answer === null || answer.status >= 500) await isUp
        }
      }
      const topUp = async () => {
        const more = await deposit()
        const said = token(more.challenge, { action: 'topUp', sessionId: id, topUpPreimage: more.preimage })
        const answer = await untilAnswered(said, '/v1/a')
        if (answer.status !== 200) wrong.push(`a topUp was answered ${answer.status} ${answer.text}`)
        deposited.set(id, (deposited.get(id) ?? 0) + DEPOSIT_SATS)
      }
      await Promise.all([...Array.from({ length: REQUESTS_AT_ONCE }, use), ...(Math.random() < 0.5 ? [topUp()] : [])])
      const closed = await untilAnswered(token(challenge, { action: 'close', ...proof }), '/v1/a')
      if (closed.status !== 200) wrong.push(`a close was answered ${closed.status} ${closed.text}`)
      closes.set(id, token(challenge, { action: 'close', ...proof }))
      const told = closed.json() as Told
      if (told.refundStatus === 'succeeded') toldRefunds.set(id, told.refundSats)
      else toldFailed++
    }
    const client = async () => {
      do await life()
      while (!over.signal.aborted)
    }
    const clients = Promise.all(Array.from({ length: CLIENTS }, client))
    for (let round = 0; round < kills; round++) {
      await new Promise(resolve => setTimeout(resolve, 300 + Math.random() * BETWEEN))
      // Half of the time a refund has acted, and its answer never comes; else the node is unreachable for a while.
      if (round % 2 === 0) node.fail('lost after', /xpay/)
      else {
        gate.cut()
        await new Promise(resolve => setTimeout(resolve, 300 + Math.random() * BETWEEN))
      }
      const up = Promise.withResolvers<null>()
      isUp = up.promise
      const dying = victim
      dying.kill('SIGKILL')
      await dying.ended
      victim = await start()
      gate.open()
      up.resolve(null)
    }
    over.abort()
    await clients

    const admin = readKeys(data)?.adminKey.reveal() ?? ''
    const listed = async <R>(path: string) => {
      const rows: R[] = []
      for (let skip = 0; ; skip += 100) {
        const answer = await victim.send('GET', `${path}?skip=${skip}&take=100`, { headers: { 'x-api-key': admin } })
        if (answer.status !== 200) throw new Error(answer.text)
        const page = answer.json() as R[]
        rows.push(...page)
        if (page.length < 100) return rows
      }
    }
    // Also those whose gateway died with the request on its way: another looks them up after a minute.
    const paidBack = async () => {
      const all = await listed<Row>('/api/admin/sessions')
      const isEnded = (row: Row) => row.refund.status === 'confirmed' || row.refund.status === 'skipped'
      return all.every(isEnded) ? all : null
    }
    const rows = await eventually('all is paid back that was left', paidBack, 240_000)
    // A client whose close failed closes again, and gets what was sent.
    for (const [id, close] of closes) {
      if (toldRefunds.has(id)) continue
      const told = (await untilAnswered(close, '/v1/a')).json() as Told
      if (told.refundStatus === 'failed') wrong.push(`${id} has a failed refund`)
      else toldRefunds.set(id, told.refundSats)
    }
    t.same(wrong, [], 'no paying client was refused')
    t.equal(rows.length, sessions, 'each open made one session')
    let [unbilled, crashed, twice, above, sum] = [0, 0, 0, 0, 0]
    const billed = new Map<string, number>()
    for (const row of rows) {
      const { id, depositedMsat, spentMsat, balanceMsat, returnInvoice: to, refund } = row
      if (depositedMsat !== (deposited.get(id) ?? 0) * 1000)
        t.fail(`${id} has ${depositedMsat} of ${deposited.get(id)}`)
      const left = depositedMsat - spentMsat
      const isSent = refund.satoshis > 0
      const rest = isSent ? left % 1000 : left
      if (refund.satoshis !== Math.floor(left / 1000) || balanceMsat !== rest) t.fail(JSON.stringify(row))
      const sent = paidTo.get(to) ?? []
      if (sent.length !== (isSent ? 1 : 0) || (isSent && sent[0] !== refund.satoshis))
        t.fail(`${id} was paid back ${sent.join(' and ')} of ${refund.satoshis}`)
      const notified = toldRefunds.get(id)
      if (notified !== undefined && notified !== refund.satoshis) t.fail(`${id} got ${notified} of ${refund.satoshis}`)
      let entered = 0
      for (const { request, msat, basis } of await listed<EntryRow>(`/api/admin/balances/${id}/entries`)) {
        entered += msat
        if (basis === 'crash') crashed += msat
        else {
          if (billed.has(request)) twice++
          billed.set(request, msat)
          if (msat > (source.units.get(request) ?? 0) * UNIT_SATS * 1000) above++
        }
      }
      if (entered !== spentMsat) t.fail(`${id} has spent ${spentMsat}, and its entries say ${entered}`)
      sum += spentMsat
    }
    for (const [request, units] of source.units)
      unbilled += Math.max(0, units * UNIT_SATS * 1000 - (billed.get(request) ?? 0))
    let givenAway = 0
    for (const request of delivered)
      givenAway += Math.max(0, (source.units.get(request) ?? 0) * UNIT_SATS * 1000 - (billed.get(request) ?? 0))
    // Of each session its slice, with a top-up in it: what was delivered and not written. And what the upstream sent for
    // requests in flight, which no client got: a stream reserves as its events come, so the dead are not charged for it.
    const slice = (2 * DEPOSIT_SATS) / SLICES
    const bound = kills * CLIENTS * 1000 * (slice + REQUESTS_AT_ONCE * EVENTS * UNIT_SATS)
    t.comment(
      JSON.stringify({
        kills,
        sessions,
        toldFailed,
        served,
        lost,
        spent: sum,
        unbilled,
        crashed,
        bound,
        sent: paidTo.size
      })
    )
    t.equal(twice, 0, 'no request is billed twice')
    t.equal(above, 0, 'and none for more than it was served')
    t.ok(
      unbilled - crashed <= bound,
      `${unbilled} millisatoshis were served without an entry, ${crashed} charged for the dead`
    )
    const most = kills * CLIENTS * 1000 * Math.max(slice, REQUESTS_AT_ONCE * EVENTS * UNIT_SATS)
    t.ok(
      givenAway - crashed <= most,
      `${givenAway} millisatoshis were delivered without an entry, ${crashed} charged for the dead`
    )
    t.equal([...delivered].filter(request => !source.units.has(request)).length, 0, 'requests are known by one id')
    t.equal(node.wallet.sendings, paidTo.size, 'no refund was sent twice')
  }
)
