/**
 * A gateway is killed repeatedly while clients redeem Payment credentials, and afterwards every credential is
 * shown once more: none of a POST may be good twice, none of a GET that was not answered may be lost. The short form
 * runs in the suite; for the long one say how many kills:
 *
 *   KILLS=100 CREDENTIALS=400 CLIENTS=24 TAP_TIMEOUT=9000 node test/faults/kill-campaign.test.ts
 */
import t, { type Test as T } from 'tap'
import { countingUpstream, shopYaml } from '../security/shop.ts'
import { temporaryFolder } from '../support/database.ts'
import { buy } from '../support/gateway.ts'
import { eventually, freshPostgres, spawnGateway, type GatewayProcess } from '../support/gateway-process.ts'

const kills = Number(process.env['KILLS'] ?? 2)
const clients = Number(process.env['CLIENTS'] ?? 12)
/** Bought before each kill, half of them for a POST. */
const credentials = Number(process.env['CREDENTIALS'] ?? 60)
const path = '/paid/item'

interface Shown {
  readonly method: 'GET' | 'POST'
  readonly authorization: string
  /** Whole answers of 200 that came for it. */
  delivered: number
  /** It was shown to the gateway that is killed, before or while it died. */
  tried: boolean
  /** It was sent, and the gateway died before its answer was whole. */
  inFlight: boolean
}

async function show(gateway: GatewayProcess, one: Shown) {
  one.tried = true
  try {
    const answer = await gateway.send(one.method, path, { headers: { authorization: one.authorization } })
    if (answer.status === 200) one.delivered++
    return answer.status
  } catch {
    // The gateway died with it.
    one.inFlight = true
    return null
  }
}

/** Does `work` for each number below `count`, as many concurrently as there are clients. */
async function each(count: number, work: (index: number) => Promise<void>) {
  let next = 0
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (next < count) await work(next++)
    })
  )
}

async function campaign(t: T, start: () => Promise<GatewayProcess>) {
  let gateway = await start()
  const none = (): Record<Shown['method'], number> => ({ GET: 0, POST: 0 })
  const sums = { tried: none(), doubled: none(), lost: none(), inFlight: none() }
  for (let round = 0; round < kills; round++) {
    const bought: Shown[] = []
    await each(credentials, async index => {
      const method = index % 2 === 0 ? 'GET' : 'POST'
      const authorization = await buy(gateway, path, 'payment', { method })
      bought.push({ method, authorization, delivered: 0, tried: false, inFlight: false })
    })
    const running = gateway
    // At any moment between the first answer and the last; within the turns that follow one, by the random
    // milliseconds.
    const last = Math.floor(Math.random() * credentials)
    let answers = 0
    let isKilled = false
    const work = each(credentials, async index => {
      const one = bought[index]
      // What is not in flight at the kill is shown to the next one.
      if (isKilled || one === undefined) return
      await show(running, one)
      if (answers++ !== last) return
      setTimeout(() => {
        isKilled = true
        running.kill('SIGKILL')
      }, Math.random() * 4)
    })
    await running.ended
    await work
    gateway = await start()
    await each(credentials, async index => {
      const one = bought[index]
      if (one === undefined) return
      // A lease of the dead gateway is in the way until it has lapsed.
      const status = await eventually('the credential is judged', async () => {
        const answer = await gateway.send(one.method, path, { headers: { authorization: one.authorization } })
        if (answer.status === 200) one.delivered++
        return answer.status === 402 && /another request/.test(answer.text) ? null : answer.status
      })
      if (one.tried) sums.tried[one.method]++
      if (one.inFlight) sums.inFlight[one.method]++
      if (one.delivered > 1) sums.doubled[one.method]++
      if (one.delivered === 0) sums.lost[one.method]++
      if (status !== 200 && status !== 402) t.fail(`answered ${status}`)
    })
  }
  t.comment(JSON.stringify({ kills, ...sums }))
  t.equal(sums.doubled.POST, 0, 'no POST was accepted twice')
  t.equal(sums.lost.GET, 0, 'no GET was lost')
  t.ok(sums.doubled.GET <= kills * clients, `${sums.doubled.GET} GETs twice: at most what was in flight at each kill`)
  t.ok(
    sums.lost.POST <= sums.inFlight.POST,
    `${sums.lost.POST} POSTs spent without an answer, of ${sums.inFlight.POST} in flight`
  )
}

for (const kind of ['embedded', 'PostgreSQL'] as const) {
  const skip =
    kind === 'PostgreSQL' && (process.env['TEST_DATABASE_URL'] ?? '') === '' ? 'TEST_DATABASE_URL is not set' : false
  void t.test(
    `${kills} kills of a gateway: no POST is delivered twice and no GET lost (${kind})`,
    { skip, timeout: 60_000 + kills * 60_000 },
    async t => {
      const upstream = await countingUpstream(t)
      const yaml = shopYaml(upstream.origin, {
        replace: [
          ['mode: development', 'payment: { leaseTimeout: 1s, maxOutstanding: { address: 10000 } }\nmode: development'],
          // What is handed out was made ahead: a kill must not make one invoice two buyers'.
          ['  primary:   { kind: sandbox }', '  primary:   { kind: sandbox, invoicesAhead: 50 }']
        ]
      })
      const data = temporaryFolder(t)
      const database = kind === 'embedded' ? null : await freshPostgres(t)
      await campaign(t, () =>
        spawnGateway(t, {
          yaml,
          data,
          documented: false,
          ...(database === null ? {} : { env: { DATABASE_URL: database } })
        })
      )
    }
  )
}
