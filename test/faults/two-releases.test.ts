/**
 * The release before serves while this one migrates its database, and beside it afterwards. Clients pay and redeem at
 * both without a pause: nothing paid is lost, and nothing is good twice. The former release comes from the repository;
 * `RELEASE` names another one.
 *
 *   TEST_DATABASE_URL=postgres://… RELEASE=v0.1.0 node test/faults/two-releases.test.ts
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import t, { type Test as T } from 'tap'
import { migrations } from '../../src/platform/database/migrations/list.ts'
import { countingUpstream, shopYaml } from '../security/shop.ts'
import { temporaryFolder } from '../support/database.ts'
import { buy, rootFolder } from '../support/gateway.ts'
import { eventually, freshPostgres, spawnGateway, unshed, type GatewayProcess } from '../support/gateway-process.ts'

/** The last commit before eight of today's migrations. */
const RELEASE = process.env['RELEASE'] ?? '1462b8c38f599394abd5974ed52698c3d5ccbc4b'
const PATH = '/paid/item'
const POLLS = '/balance/item'
const BUNDLE = 50

/** The command line of a former release, with the dependencies of this one; null without its history. */
function release(t: T) {
  const git = (...args: string[]) => spawnSync('git', args, { cwd: rootFolder, maxBuffer: 200_000_000 })
  if (git('cat-file', '-e', `${RELEASE}^{commit}`).status !== 0) return null
  const folder = join(temporaryFolder(t), 'release')
  mkdirSync(folder)
  const { stdout } = git('archive', RELEASE, 'src', 'plugins', 'package.json', 'gateway.yaml')
  execFileSync('tar', ['-x', '-C', folder], { input: stdout })
  symlinkSync(join(rootFolder, 'node_modules'), join(folder, 'node_modules'))
  return join(folder, 'src/app/cli/boltgate.mjs')
}

interface Single {
  readonly method: 'GET' | 'POST'
  readonly authorization: string
  delivered: number
}

t.test(
  'two releases on one database: nothing paid is lost, nothing is accepted twice',
  { timeout: 600_000 },
  async t => {
    const url = await freshPostgres(t)
    const program = url === null ? null : release(t)
    if (url === null || program === null) {
      t.pass('not here', { skip: url === null ? 'TEST_DATABASE_URL names no server' : `no commit ${RELEASE}` })
      return
    }
    const sql = postgres(url, { max: 1, onnotice: () => {} })
    t.teardown(() => sql.end())
    const upstream = await countingUpstream(t)
    const yaml = (maxOutstanding: string) =>
      shopYaml(upstream.origin, {
        replace: [
          ['mode: development', `payment: { maxOutstanding: { ${maxOutstanding} } }\nmode: development`],
          [
            'routes:\n',
            `routes:
  - match: { path: ${POLLS} }
    chain: paid
    upstream: { url: "${upstream.origin}" }
    meter: { unit: request, bundle: ${BUNDLE} sats, usage: requests, prices: 1 sat }
`
          ]
        ]
      })
    // The former release has a cap for a place too, which this one derives.
    const [theirs, ours] = [yaml('address: 10000, place: 10000'), yaml('address: 10000')]
    const data = temporaryFolder(t)
    const start = async (more: { program?: string } = {}) =>
      unshed(
        await spawnGateway(t, {
          yaml: more.program === undefined ? ours : theirs,
          data,
          documented: false,
          env: { DATABASE_URL: url },
          ...more
        })
      )
    const applied = async () => Number((await sql`select count(*) as count from schema_migrations`)[0]?.['count'])

    const before = await start({ program })
    const former = await applied()
    t.ok(former < migrations.length, `${migrations.length - former} migrations are between the two`)
    const serving = [before]
    let turn = 0
    /** Requests in flight by gateway: like a balancer, the test takes one out before it is stopped. */
    const busy = new Map<GatewayProcess, number>()
    const at = async <R>(use: (gateway: GatewayProcess) => Promise<R>) => {
      const gateway = serving[turn++ % serving.length] ?? before
      busy.set(gateway, (busy.get(gateway) ?? 0) + 1)
      try {
        return await use(gateway)
      } finally {
        busy.set(gateway, (busy.get(gateway) ?? 0) - 1)
      }
    }

    const tokens: string[] = []
    const singles: Single[] = []
    const wrong: string[] = []
    const statuses = new Map<number, number>()
    const show = async (method: string, path: string, authorization: string) => {
      const { status, text } = await at(gateway => gateway.send(method, path, { headers: { authorization } }))
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (status !== 200 && status !== 402) wrong.push(`${method} ${path} ${status} ${text.slice(0, 200)}`)
      return status
    }
    const over = new AbortController()
    let onBought = () => {}
    const client = async (nth: number) => {
      while (!over.signal.aborted) {
        tokens.push(await at(gateway => buy(gateway, PATH)))
        const method = nth % 2 === 0 ? 'GET' : 'POST'
        const authorization = await at(gateway => buy(gateway, PATH, 'payment', { method }))
        const one: Single = { method, authorization, delivered: 0 }
        singles.push(one)
        onBought()
        // Every token stays good at both, and of a single-use credential one of two concurrent showings is.
        const token = tokens[Math.floor(Math.random() * tokens.length)] ?? ''
        const [again, ...shown] = await Promise.all([
          show('GET', PATH, token),
          show(method, PATH, one.authorization),
          show(method, PATH, one.authorization)
        ])
        if (again !== 200) wrong.push(`a paid token was answered ${again}`)
        one.delivered += shown.filter(status => status === 200).length
      }
    }
    const balance = await buy(before, POLLS)
    let polled = 0
    /** Until a gateway has no more of it; the other one may hold a part. */
    const poll = async () => {
      while ((await show('GET', POLLS, balance)) === 200) polled++
    }
    const clients = Promise.all([0, 1, 2, 3].map(client))
    const until = async (count: number) => {
      const expected = singles.length + count
      const bought = new Promise<void>(resolve => {
        onBought = () => {
          if (singles.length >= expected) resolve()
        }
      })
      await Promise.race([bought, clients])
    }
    await until(12)
    const after = await start()
    t.equal(await applied(), migrations.length, 'migrated while the former one serves')
    const during = singles.length
    serving.push(after)
    await Promise.all([until(24), poll(), poll()])
    serving.shift()
    await eventually('nothing is sent to the former one', async () => (busy.get(before) ?? 0) === 0)
    before.kill('SIGTERM')
    t.equal((await before.ended).code, 0)
    await until(12)
    over.abort()
    await clients

    t.same(wrong, [])
    t.comment(
      JSON.stringify({
        migrations: migrations.length - former,
        bought: tokens.length + singles.length,
        during,
        ...Object.fromEntries(statuses)
      })
    )
    t.ok(
      singles.every(({ delivered }) => delivered <= 1),
      'no single-use credential was accepted twice'
    )
    // Two showings meet: the second is refused, and the first is served.
    t.equal(singles.filter(({ delivered }) => delivered === 0).length, 0, 'none was lost')
    for (const token of tokens) t.equal(await show('GET', PATH, token), 200)
    while ((await show('GET', POLLS, balance)) === 200) polled++
    t.equal(polled, BUNDLE, 'a balance used through both pays for what was bought')
    const [sold] = await sql`select count(*) as count from challenges where paid_at is not null`
    t.equal(Number(sold?.['count']), tokens.length + singles.length + 1, 'each payment is recorded once')

    const refused = spawnSync(process.execPath, [program, 'start', '--config', before.file], {
      env: { PATH: process.env['PATH'], HOST: '127.0.0.1', PORT: '0', BOLTGATE_DATA: data, DATABASE_URL: url },
      encoding: 'utf8',
      timeout: 120_000
    })
    t.equal(refused.status, 1)
    t.match(refused.stdout + refused.stderr, /which this version does not know: it was used by a newer version/)
  }
)
