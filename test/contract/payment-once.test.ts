import { randomBytes } from 'node:crypto'
import { get } from 'node:http'
import t from 'tap'
import { buy, challengeOf, credentialOf, startGateway, type TestGateway } from '../support/gateway.ts'
import { JobTable } from '../../src/platform/jobs/table.ts'
import { openTestDatabase, temporaryFolder } from '../support/database.ts'
import { eventually } from '../support/gateway-process.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { countingUpstream, shopYaml } from '../security/shop.ts'

const authorization = (value: string) => ({ headers: { authorization: value } })
const DAY = 86_400_000

t.test('one payment is one purchase, after a restart, a rotation of keys and the purge too', async t => {
  const clock = new ManualClock()
  const upstream = await countingUpstream(t)
  const database = await openTestDatabase(t, { clock })
  const data = temporaryFolder(t)
  const [first, second] = [randomBytes(32).toString('hex'), randomBytes(32).toString('hex')]
  const start = (master: string, previous: string) =>
    startGateway(t, {
      clock,
      database,
      data,
      env: { BOLTGATE_SECRET: master },
      yaml: shopYaml(upstream.origin, {
        replace: [
          ['  master: "${BOLTGATE_SECRET:-}"', `  previous: [ ${previous} ]\n  master: "\${BOLTGATE_SECRET:-}"`]
        ]
      })
    })
  // Connections of its own: the clock is moved past every idle limit.
  const call = (gateway: TestGateway, credential: string) =>
    new Promise((resolve, reject) => {
      get(`${gateway.url}/paid/a`, { agent: false, headers: { authorization: credential } }, answer => {
        answer.resume().on('end', () => {
          resolve(answer.statusCode ?? 0)
        })
      }).on('error', reject)
    })

  const before = await start(first, '')
  const token = await buy(before, '/paid/a')
  const spent = await buy(before, '/paid/a', 'payment')
  const unused = await buy(before, '/paid/a', 'payment')
  const challenge = challengeOf(await before.send('GET', '/paid/a'), 'payment')
  const preimage = await before.pay(challenge.parameters.get('invoice') ?? '')
  const legacy = `Payment method="lightning", preimage="${preimage}"`
  const alsoModern = credentialOf(challenge, preimage)
  for (const credential of [token, spent, legacy]) t.equal(await call(before, credential), 200)
  await before.close()

  const after = await start(second, first)
  t.equal(await call(after, token), 200, 'a token lives on')
  t.equal(await call(after, legacy), 200, 'a legacy credential too')
  t.equal(await call(after, spent), 402, 'a spent payment stays spent')
  t.equal(await call(after, alsoModern), 402, "and another scheme's claim holds")
  t.equal(await call(after, unused), 200, 'an old key still verifies')
  t.equal(await call(after, unused), 402)

  const sold = upstream.hits.length
  clock.advance(3_601_000)
  t.equal(await call(after, token), 403, 'expired')
  t.equal(await call(after, legacy), 402, 'expired with its challenge')
  clock.leap(40 * DAY)
  await new JobTable(database).bringForward('challenges-purge')
  await eventually('the purge has run', async () => {
    const [row] = await database.sql<
      { left: number }[]
    >`select count(*)::int as left from challenges where scheme is not null`
    return row?.left === 0 ? true : null
  })
  for (const [credential, status] of [
    [token, 403],
    [spent, 402],
    [unused, 402],
    [legacy, 402],
    [alsoModern, 402]
  ] as const)
    t.equal(await call(after, credential), status, 'a purged row makes no credential valid again')
  t.equal(upstream.hits.length, sold)
  await after.close()

  const rotated = await start(second, '')
  t.equal(await call(rotated, token), 401, 'a key that was removed verifies nothing')
  t.equal(upstream.hits.length, sold)
})

t.test(
  'first uses at the same moment, by every scheme: one scheme wins, and a single-use credential is delivered once',
  async t => {
    const upstream = await countingUpstream(t)
    const gateway = await startGateway(t, { yaml: shopYaml(upstream.origin) })
    for (let round = 0; round < 4; round++) {
      const answer = await gateway.send('GET', '/paid/a')
      const [l402, payment] = [challengeOf(answer, 'l402'), challengeOf(answer, 'payment')]
      const preimage = await gateway.pay(l402.parameters.get('invoice') ?? '')
      const credentials = {
        l402: credentialOf(l402, preimage),
        modern: credentialOf(payment, preimage),
        legacy: `Payment method="lightning", preimage="${preimage}"`
      }
      const uses = [
        ...Object.entries(credentials),
        ...Object.entries(credentials).toReversed(),
        ...Object.entries(credentials)
      ]
      const before = upstream.hits.length
      const results = await Promise.all(
        uses.map(async ([scheme, value]) => ({
          scheme,
          status: (await gateway.send('GET', '/paid/a', authorization(value))).status
        }))
      )
      const winners = new Set(results.filter(result => result.status === 200).map(result => result.scheme))
      t.equal(winners.size, 1, [...winners].join())
      const delivered = results.filter(result => result.status === 200).length
      t.equal(delivered, winners.has('modern') ? 1 : 3)
      t.equal(upstream.hits.length - before, delivered)
    }
  }
)
