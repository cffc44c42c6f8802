/**
 * A gateway is killed again and again while clients redeem Payment credentials, and afterwards every credential is shown once
 * more: none of a POST may be good twice, none of a GET that was not answered may be lost. The short form runs in the suite; for
 * the long one say how many kills:
 *
 *   KILLS=100 TAP_TIMEOUT=9000 node test/faults/kill-campaign.test.ts
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
  /** It was sent, and the gateway died before its answer was whole. */
  underWay: boolean
}

async function show (gateway: GatewayProcess, one: Shown): Promise<number | null> {
  try {
    const answer = await gateway.send(one.method, path, { headers: { authorization: one.authorization } })
    if (answer.status === 200) one.delivered++
    return answer.status
  } catch {
    // The gateway died with it.
    one.underWay = true
    return null
  }
}

async function campaign (t: T, start: () => Promise<GatewayProcess>): Promise<void> {
  let gateway = await start()
  const sums = { shown: { GET: 0, POST: 0 }, doubled: { GET: 0, POST: 0 }, lost: { GET: 0, POST: 0 }, underWay: { GET: 0, POST: 0 } }
  for (let round = 0; round < kills; round++) {
    const bought: Shown[] = []
    for (let index = 0; index < credentials; index++) {
      const method = index % 2 === 0 ? 'GET' : 'POST'
      bought.push({ method, authorization: await buy(gateway, path, 'payment', { method }), delivered: 0, underWay: false })
    }
    const queue = [...bought]
    const running = gateway
    const work = Array.from({ length: clients }, async () => {
      for (let one = queue.shift(); one !== undefined; one = queue.shift()) await show(running, one)
    })
    setTimeout(() => {
      // What is not under way is shown to the next one.
      queue.length = 0
      running.kill('SIGKILL')
    }, Math.random() * 4 * credentials / clients)
    await running.ended
    await Promise.all(work)
    gateway = await start()
    for (const one of bought) {
      // A lease of the dead gateway is in the way until it has lapsed.
      const status = await eventually('the credential is judged', 30_000, async () => {
        const answer = await gateway.send(one.method, path, { headers: { authorization: one.authorization } })
        if (answer.status === 200) one.delivered++
        return answer.status === 402 && /another request/.test(answer.text) ? null : answer.status
      })
      sums.shown[one.method]++
      if (one.underWay) sums.underWay[one.method]++
      if (one.delivered > 1) sums.doubled[one.method]++
      if (one.delivered === 0) sums.lost[one.method]++
      if (status !== 200 && status !== 402) t.fail(`answered ${status}`)
    }
  }
  t.comment(JSON.stringify({ kills, ...sums }))
  t.equal(sums.doubled.POST, 0, 'no POST was good twice')
  t.equal(sums.lost.GET, 0, 'no GET was lost')
  t.ok(sums.doubled.GET <= kills * clients, `${sums.doubled.GET} GETs twice: at most what was under way at each kill`)
  t.ok(sums.lost.POST <= sums.underWay.POST, `${sums.lost.POST} POSTs spent without an answer, of ${sums.underWay.POST} under way`)
}

for (const kind of ['embedded', 'PostgreSQL'] as const) {
  const skip = kind === 'PostgreSQL' && (process.env['TEST_DATABASE_URL'] ?? '') === '' ? 'TEST_DATABASE_URL is not set' : false
  void t.test(`${kills} kills of a gateway: no POST is delivered twice and no GET lost (${kind})`, { skip, timeout: 60_000 + kills * 60_000 }, async t => {
    const upstream = await countingUpstream(t)
    const yaml = shopYaml(upstream.origin, { replace: [['mode: development', 'payment: { leaseTimeout: 3s, maxOutstanding: { address: 1000, place: 1000 } }\nmode: development']] })
    const data = temporaryFolder(t)
    const database = kind === 'embedded' ? null : await freshPostgres(t)
    await campaign(t, () => spawnGateway(t, { yaml, data, ...(database === null ? {} : { env: { DATABASE_URL: database } }) }))
  })
}
