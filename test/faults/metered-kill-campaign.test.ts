/**
 * One of two gateways on one PostgreSQL is killed repeatedly while clients use balances through both. Nothing may
 * be billed twice, and what was served and not billed stays under a 32nd part of the deposits or what was
 * reserved, whichever is more. The short form runs in the suite; for the long one say how many kills:
 *
 *   METERED_KILLS=50 TEST_DATABASE_URL=postgres://… TAP_TIMEOUT=9000 node test/faults/metered-kill-campaign.test.ts
 */
import t from 'tap'
import { EACH_ENTRY } from '../../src/selling/balances/statements.ts'
import { SLICES } from '../../src/selling/balances/balance.ts'
import postgres from 'postgres'
import { startModelServer } from '../fakes/model.ts'
import { temporaryFolder } from '../support/database.ts'
import { challengeOf, credentialOf, defaultYaml } from '../support/gateway.ts'
import { eventually, freshPostgres, spawnGateway, type GatewayProcess } from '../support/gateway-process.ts'

const kills = Number(process.env['METERED_KILLS'] ?? 1)
const AT_ONCE = 24
const CHAT = '/v1/chat/completions'
const BUNDLE_SATS = 1_000
/** Bundles that the clients share. */
const BUNDLES = 4
/** Requests between two kills. */
const BETWEEN = 160
/** Of one request: 100 tokens that may come out, and what its body is reckoned to be. */
const MOST_RESERVED = 8 * 100 + 2 * 100

const skip = (process.env['TEST_DATABASE_URL'] ?? '') === '' ? 'TEST_DATABASE_URL is not set' : false

t.test(
  `${kills} kills: nothing is billed twice, and little is not billed`,
  { skip, timeout: 120_000 + kills * 30_000 },
  async t => {
    const model = await startModelServer(t)
    model.pause = 120
    const url = await freshPostgres(t)
    if (url === null) throw new Error('it was there')
    const yaml = defaultYaml({
      replace: [
        ['mode: development', 'payment: { leaseTimeout: 3s }\nmode: development'],
        [
          'routes:\n',
          `routes:
  - match: { path: ${CHAT}, method: POST }
    chain: paid
    upstream: { url: "${model.url}" }
    meter:
      unit: token
      bundle: ${BUNDLE_SATS} sats
      prices: { input: 2 msat, output: 8 msat }
      usage: openai
      estimate: { json: max_tokens, else: 100 }
`
        ]
      ]
    })
    const data = temporaryFolder(t)
    const start = () => spawnGateway(t, { yaml, data, documented: false, env: { DATABASE_URL: url } })
    const steady = await start()
    let victim = await start()
    const ask = (gateway: GatewayProcess, authorization: string | null, content: string) =>
      gateway.send('POST', CHAT, {
        headers: authorization === null ? {} : { authorization },
        body: { model: 'small', messages: [{ role: 'user', content }], max_tokens: 100 }
      })
    const keys: string[] = []
    for (let one = 0; one < BUNDLES; one++) {
      const challenge = challengeOf(await ask(steady, null, 'x'), 'l402')
      keys.push(credentialOf(challenge, await steady.pay(challenge.parameters.get('invoice') ?? '')))
    }
    let [served, refused] = [0, 0]
    for (let round = 0; round < kills; round++) {
      let requests = 0
      const dying = victim
      const killAt = Math.floor(Math.random() * BETWEEN * 0.8)
      const work = async () => {
        for (let nth = requests++; nth < BETWEEN; nth = requests++) {
          if (nth === killAt)
            setTimeout(() => {
              dying.kill('SIGKILL')
            }, Math.random() * 150)
          try {
            const answer = await ask(
              nth % 2 === 0 ? steady : dying,
              keys[nth % BUNDLES] ?? '',
              'x'.repeat(1 + (nth % 50))
            )
            if (answer.status === 200) served++
            else refused++
          } catch {
            // The gateway died with it.
            refused++
          }
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, work))
      await dying.ended
      victim = await start()
    }
    const sql = postgres(url, { max: 1, onnotice: () => {} })
    t.teardown(() => sql.end())
    const settled = async () => {
      const [row] = await sql<{ held: number }[]>`select count(*)::int as held from balance_slices`
      return row?.held === 0
    }
    await eventually('the slices of the dead are settled and those of the living written', settled, 120_000)
    const entries = await sql<{ request: string; msat: number; basis: string }[]>`
    select request, msat::int as msat, basis from ${sql.unsafe(EACH_ENTRY)}`
    const billed = new Map<string, number>()
    let [twice, crashed] = [0, 0]
    for (const { request, msat, basis } of entries) {
      if (basis === 'crash') {
        crashed += msat
        continue
      }
      if (billed.has(request)) twice++
      billed.set(request, msat)
    }
    let [unbilled, wrong] = [0, 0]
    for (const { request, prompt, completion } of model.calls) {
      const cost = 2 * prompt + 8 * completion
      const msat = billed.get(request)
      if (msat === undefined) unbilled += cost
      else if (msat !== cost && msat > MOST_RESERVED) wrong++
    }
    const bound = kills * BUNDLES * ((BUNDLE_SATS * 1_000) / SLICES + AT_ONCE * MOST_RESERVED)
    t.comment(JSON.stringify({ kills, calls: model.calls.length, served, refused, unbilled, crashed, bound }))
    t.equal(twice, 0, 'no request is billed twice')
    t.equal(wrong, 0, 'and none beyond what it used or reserved')
    t.ok(
      unbilled - crashed <= bound,
      `${unbilled} millisatoshis were served without an entry of their own, ${crashed} charged for the dead`
    )
    const sums = await sql<{ deposited: number; spent: number; entered: number }[]>`
    select deposited_msat::int as deposited, spent_msat::int as spent,
      (select coalesce(sum(msat), 0)::int from ${sql.unsafe(EACH_ENTRY)} where balance_id = balances.id) as entered
    from balances`
    for (const { deposited, spent, entered } of sums) {
      t.equal(spent, entered, 'a balance has spent what its entries say')
      t.ok(spent <= deposited, 'and is not below zero')
    }
  }
)
