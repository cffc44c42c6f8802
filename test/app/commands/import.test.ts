import { createHash, createHmac, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import t, { type Test as T } from 'tap'
import { fromAperture, hostOf, pathsOf } from '../../../src/app/cli/aperture-file.ts'
import { ApertureKeys, apertureRows } from '../../../src/lightning/l402/aperture-tokens.ts'
import { encodeMacaroon } from '../../../src/lightning/l402/macaroon.ts'
import { openAnyDatabase, temporaryFolder } from '../../support/database.ts'
import { loadText, startGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { serve } from '../../support/serve.ts'
import { boltgate } from '../../support/cli.ts'

const SAMPLE = fileURLToPath(new URL('aperture-sample.yaml', import.meta.url))

/** Minted by Aperture's own mint package at 7ee3ed7 for service1, with capabilities, a constraint and a timeout. */
const VECTOR = {
  hash: '3ce35dd756963c3c6ce85113b9cd81dfdfd8317b3343c6839b80f68215dca7a1',
  rootKey: 'e95e0686a26f7dc63aa9c7af82439ecf74b3b739d17fa04c791a357f0d1b6b14',
  macaroon:
    'AgEEbHNhdAJCAABod0Psh9GWej0w0kl9CVpaUv3bSo7fzB8iqked67ePbHU0Ln3x+ZTPAHBCqE0cUrGHN6b2KNwKjwlqXRmwoog0AAITc2VydmljZXM9c2VydmljZTE6MAACInNlcnZpY2UxX2NhcGFiaWxpdGllcz1hZGQsc3VidHJhY3QAAhZ2YWxpZF91bnRpbD0xNjgyNDgzMTY5AAIfc2VydmljZTFfdmFsaWRfdW50aWw9MTgyNjU1NzYwMAAABiC2sxwp+oWmJpfq1OeGYc8gaq33zO2Oj6xX7W72jWMTVg==',
  preimage: '5eedeffa1db806f12f0c0754e448bf3096452af3df8c11c6911ee44d562c1f5f'
}
const PRICE_SERVER = 'http://127.0.0.1:9100/price'
const CREDENTIAL = `LSAT ${VECTOR.macaroon}:${VECTOR.preimage}`
/** Before its service1_valid_until=1826557600. */
const NOW = 1_800_000_000_000

/** A token as Aperture mints it, signed here and not by our code. */
function minted(...caveats: string[]) {
  const [rootKey, preimage] = [randomBytes(32), randomBytes(32)]
  const paymentHash = createHash('sha256').update(preimage).digest()
  const identifier = Buffer.concat([Buffer.alloc(2), paymentHash, randomBytes(32)])
  const sign = (key: Uint8Array | string, bytes: Uint8Array | string) =>
    createHmac('sha256', key).update(bytes).digest()
  const signature = caveats.reduce(sign, sign(sign('macaroons-key-generator', rootKey), identifier))
  const bytes = caveats.map(text => Buffer.from(text))
  const macaroon = encodeMacaroon({ location: 'lsat', identifier, caveats: bytes, signature }).toString('base64')
  return {
    paymentHash: paymentHash.toString('hex'),
    row: [createHash('sha256').update(identifier).digest('hex'), rootKey.toString('hex')] as const,
    credential: `L402 ${macaroon}:${preimage.toString('hex')}`
  }
}

t.test('import aperture: the sample configuration becomes a valid file that says what has no equal', async t => {
  const folder = t.testdir({ tls: {} })
  const file = join(folder, 'gateway.yaml')
  const keys = join(folder, 'keys.csv')
  writeFileSync(keys, `\\x${VECTOR.hash},\\x${VECTOR.rootKey}\n`)
  const { code, out } = await boltgate('import', 'aperture', SAMPLE, '--keys', keys, '-c', file)
  t.equal(code, 0)
  t.match(out, /Wrote 1 root keys to .*aperture\.keys/)
  t.equal(readFileSync(join(folder, 'data/aperture.keys'), 'utf8'), `${VECTOR.hash} ${VECTOR.rootKey}\n`)
  const yaml = readFileSync(file, 'utf8')
  // Every key of the sample is either read or named.
  for (const key of readFileSync(SAMPLE, 'utf8').matchAll(/^(\w+):/gm)) {
    const isRead =
      /^(listenaddr|servername|insecure|autocert|authenticator|services|dbbackend|sqlite|postgres|etcd|debuglevel|configfile)$/
    if (!isRead.test(key[1] ?? '')) t.match(yaml, `# Aperture: ${key[1]}:`)
  }
  // Its certificates and some addresses are placeholders.
  const { config } = await loadText(
    yaml.replaceAll(/ +tls: .*\n| +http2: .*\n/g, '').replaceAll('123.456.789', '10.0.0.9'),
    {
      LIGHTNING_KEY: 'lndconnect://127.0.0.1:8080?macaroon=AgEE'
    }
  )
  t.strictSame(
    config.routes
      .filter(({ upstream }) => upstream.kind === 'url')
      .map(({ match, service, price, invoices, chain }) => [
        match.host,
        match.path.join(' '),
        service,
        typeof price === 'object' && 'from' in price ? price.from : price,
        invoices !== false,
        chain
      ]),
    [
      ['service1.com', '/freebieservice /freebieservice/*', undefined, undefined, true, 'public'],
      ['service1.com', '/streamingservice /streamingservice/*', 'service1', PRICE_SERVER, false, 'paid'],
      [
        'service1.com',
        '/looprpc.SwapServer/LoopOutTerms /looprpc.SwapServer/LoopOutTerms/*',
        'service1',
        PRICE_SERVER,
        true,
        'service1-1'
      ],
      [
        'service1.com',
        '/looprpc.SwapServer/LoopOutQuote /looprpc.SwapServer/LoopOutQuote/*',
        'service1',
        PRICE_SERVER,
        true,
        'service1-2'
      ],
      ['service1.com', '/*', 'service1', PRICE_SERVER, true, 'paid'],
      ['service2.com', '/*', 'service2', 1, true, 'paid'],
      ['service3.com', '/*', 'service3', 1, true, 'paid']
    ]
  )
  t.match(config.policies['service1-1'], { limit: 100, window: 20_000, by: 'token' })
})

t.test('import aperture: an existing file stays, and keys come from SQLite and etcd', async t => {
  const dbfile = join(temporaryFolder(t), 'aperture.db')
  const database = new DatabaseSync(dbfile)
  // aperturedb/sqlc/migrations/000001_secrets.up.sql
  database.exec(
    'create table secrets (id integer primary key, hash blob unique not null, secret blob unique not null, created_at timestamp not null)'
  )
  const insert = database.prepare('insert into secrets (hash, secret, created_at) values (?, ?, 0)')
  insert.run(Buffer.from(VECTOR.hash, 'hex'), Buffer.from(VECTOR.rootKey, 'hex'))
  database.close()
  const folder = t.testdir({
    'gateway.yaml': 'data: ./other\n',
    'sqlite.yaml': `sqlite: { dbfile: ${JSON.stringify(dbfile)} }\nservices: []\n`,
    'etcd.yaml': 'etcd: { host: localhost }\nservices: []\n',
    'keys.json': JSON.stringify({
      kvs: [
        {
          key: Buffer.from(`lsat/proxy/secrets/${VECTOR.hash}`).toString('base64'),
          value: Buffer.from(VECTOR.rootKey, 'hex').toString('base64')
        }
      ]
    }),
    'wrong.csv': `${VECTOR.hash},${VECTOR.rootKey}\nhash,secret\n`
  })
  const at = (name: string) => join(folder, name)
  const kept = at('other/aperture.keys')
  const row = `${VECTOR.hash} ${VECTOR.rootKey}\n`

  const first = await boltgate('import', 'aperture', at('sqlite.yaml'), '-c', at('gateway.yaml'))
  t.match(first, { code: 0, out: /exists and stays as it is\.\nWrote 1 root keys/ })
  t.equal(readFileSync(kept, 'utf8'), row)
  writeFileSync(kept, '')
  const second = await boltgate(
    'import',
    'aperture',
    at('etcd.yaml'),
    '--keys',
    at('keys.json'),
    '-c',
    at('gateway.yaml')
  )
  t.equal(second.code, 0)
  t.equal(readFileSync(kept, 'utf8'), row)

  t.match(await boltgate('import', 'aperture', at('etcd.yaml'), '-c', at('gateway.yaml')), { code: 1, err: /in etcd/ })
  t.match(await boltgate('import', 'aperture', at('etcd.yaml'), '--keys', at('wrong.csv'), '-c', at('gateway.yaml')), {
    code: 2,
    err: /key 2 must be a hash and a key/
  })
  t.match(await boltgate('import', 'aperture', at('gateway.yaml')), { code: 2, err: /no services/ })
  t.match(await boltgate('import', 'nginx', at('gateway.yaml')), { code: 2, err: /use aperture/ })
})

t.test('import aperture: nothing that cost something becomes free', async t => {
  const service = (name: string, pathregexp: string, more: object = {}): object => ({
    name,
    hostregexp: '^api.example.com$',
    pathregexp,
    address: '10.0.0.1:80',
    ...more
  })
  const yamlOf = (...services: object[]): string =>
    fromAperture(JSON.stringify({ insecure: true, authenticator: { lndhost: 'lnd:10009' }, services }), 'a.yaml', '/')
      .yaml
  const env = { LIGHTNING_KEY: 'lndconnect://127.0.0.1:8080?macaroon=AgEE' }
  const open = { auth: 'off' }

  // Aperture asks the first service, however specific the second is.
  const hidden = yamlOf(service('paid', '^/v1/.*$', { price: 5 }), service('open', '^/v1/open/.*$', open))
  t.match(hidden, /an earlier service takes the requests for \^\/v1\/open/)
  const { config } = await loadText(hidden, env)
  t.same(
    config.routes.filter(({ upstream }) => upstream.kind === 'url').map(({ match, price }) => [match.path, price]),
    [[['/v1/*'], 5]]
  )
  // The catch-all would take what the unreadable one sold.
  for (const paid of [
    service('paid', '^/(v1|v2)/.*$', { price: 5 }),
    service('paid', '^/v1/.*$', { price: 5, hostregexp: '^(a|b).example.com$' })
  ])
    await t.rejects(loadText(yamlOf(paid, service('open', '', open)), env), /REGULAR EXPRESSION/)
})

t.test('import aperture: keys come from PostgreSQL', async t => {
  const server = process.env['TEST_DATABASE_URL'] ?? ''
  if (server === '') {
    t.pass('no PostgreSQL here', { skip: 'TEST_DATABASE_URL names no server' })
    return
  }
  const { sql } = await openAnyDatabase(t, { migrations: [] })
  const [{ name } = { name: '' }] = await sql<{ name: string }[]>`select current_database() as name`
  await sql`create table secrets (hash bytea, secret bytea)`
  await sql`insert into secrets values (decode(${VECTOR.hash}, 'hex'), decode(${VECTOR.rootKey}, 'hex'))`
  const { hostname, port, username, password } = new URL(server)
  const folder = t.testdir({
    'gateway.yaml': '{}\n',
    'aperture.yaml': JSON.stringify({
      dbbackend: 'postgres',
      postgres: { host: hostname, port: Number(port), user: username, password, dbname: name, requireSSL: false },
      services: []
    })
  })
  const [file, to] = [join(folder, 'aperture.yaml'), join(folder, 'gateway.yaml')]
  const { code, err } = await boltgate('import', 'aperture', file, '-c', to)
  t.equal(code, 0, err)
  t.equal(readFileSync(join(folder, 'data/aperture.keys'), 'utf8'), `${VECTOR.hash} ${VECTOR.rootKey}\n`)
})

t.test('import aperture: regular expressions become hosts and paths', async t => {
  for (const [regexp, host] of [
    ['', ''],
    ['^$', null],
    ['.*', ''],
    ['^.*$', ''],
    ['^service1.com$', 'service1.com'],
    ['^api\\.example\\.com:8083$', 'api.example.com'],
    ['^(a|b)\\.example\\.com$', null],
    ['.*\\.example\\.com', null]
  ] as const)
    t.equal(hostOf(regexp), host, regexp)
  for (const [regexp, paths] of [
    ['', ['/*']],
    ['^/.*$', ['/*']],
    ['^/', ['/*']],
    ['^/$', ['/']],
    ['^$', null],
    ['^/a/:b$', null],
    ['^/content/.*$', ['/content/*']],
    ['^/content$', ['/content']],
    ['^/users/\\d+/posts$', ['/users/:p1/posts']],
    ['^/a\\.b.*$', ['/a.b', '/a.b/*']],
    ['^/(a|b)/.*$', null],
    ['^/a?b$', null]
  ] as const)
    t.strictSame(pathsOf(regexp)?.paths ?? null, paths, regexp)
})

/** A gateway with root keys of Aperture in its data folder. */
async function shop(t: T, rows: ReadonlyArray<readonly [string, string]>) {
  const clock = new ManualClock(NOW)
  const upstream = await serve(
    t,
    createServer((_request, response) => response.end('served'))
  )
  const data = t.testdir({})
  writeFileSync(join(data, 'master.key'), `${'test'.repeat(16)}\n`, { mode: 0o600 })
  writeFileSync(join(data, 'aperture.keys'), apertureRows(rows), { mode: 0o600 })
  const url = `{ url: "http://127.0.0.1:${upstream}" }`
  return startGateway(t, {
    clock,
    data,
    yaml: `use: [ service, sandbox, operator-api ]
routes:
  - { match: { path: /one/* }, service: service1, price: 5 sats, chain: paid, upstream: ${url} }
  - { match: { path: /quiet }, service: service1, price: 5 sats, invoices: false, chain: paid, upstream: ${url} }
  - { match: { path: /dear }, service: service1, price: 7 sats, chain: paid, upstream: ${url} }
  - { match: { path: /other }, service: service2, price: 5 sats, chain: paid, upstream: ${url} }
`
  })
}

t.test('tokens of Aperture: what its own mint made keeps working, for its service and time', async t => {
  const over = minted('services=service1:0', 'service1_valid_until=1799999999')
  const forEver = minted('services=service1:0')
  const widened = minted('services=service1:0', 'services=service1:0,service2:0')
  const longer = minted('services=service1:0', 'service1_valid_until=1800000100', 'service1_valid_until=1800000200')
  const dynamic = minted('services=service2/other:0')
  const none = minted()
  const foreign = minted('services=service1:0')
  const all = [over, forEver, widened, longer, dynamic, none]
  const gateway = await shop(t, [[VECTOR.hash, VECTOR.rootKey], ...all.map(({ row }) => row)])
  const status = async (path: string, authorization: string) =>
    (await gateway.send('GET', path, { headers: { authorization } })).status

  t.equal(await status('/one/a', CREDENTIAL), 200)
  t.equal(await status('/one/b', CREDENTIAL), 200, 'again, on another path')
  t.equal(await status('/dear', CREDENTIAL), 200, 'whatever the price is now')
  t.equal(await status('/quiet', CREDENTIAL), 200)
  t.equal(await status('/other', CREDENTIAL), 401)
  t.equal(await status('/one/a', `${CREDENTIAL.slice(0, -1)}0`), 401, 'wrong preimage')
  t.equal(await status('/one/a', CREDENTIAL.replace('AgEEbHNhdA', 'AgEEbHNhdB')), 401)

  t.equal(await status('/one/a', forEver.credential), 200)
  t.equal(await status('/one/a', over.credential), 403)
  t.equal(await status('/one/a', widened.credential), 401)
  t.equal(await status('/other', widened.credential), 401)
  t.equal(await status('/one/a', longer.credential), 401)
  t.equal(await status('/other', dynamic.credential), 200, 'with a dynamic price the service has the path')
  t.equal(await status('/one/a', none.credential), 401)
  t.equal(await status('/one/a', foreign.credential), 401)
})

t.test('tokens of Aperture: the operator revokes one by its payment hash', async t => {
  const { credential, paymentHash, row } = minted('services=service1:0')
  const gateway = await shop(t, [row])
  const headers = { authorization: credential }
  t.equal((await gateway.send('GET', '/one/a', { headers })).status, 200)
  const path = `/api/admin/tokens/${paymentHash}`
  t.equal((await gateway.adminSend('DELETE', path)).status, 204)
  t.equal((await gateway.send('GET', '/one/a', { headers })).status, 401)
})

t.test('root keys are sorted and checked', async t => {
  const row = (start: string): readonly [string, string] => [start.padEnd(64, '0'), 'a'.repeat(64)]
  const text = apertureRows([row('f'), row('1'), row('8'), row('1')])
  t.equal(new ApertureKeys(text).size, 3)
  t.throws(() => new ApertureKeys(`${text}${text}`), /line 4 must come after/)
  t.throws(() => new ApertureKeys('no\n'), /each line/)
  t.throws(() => new ApertureKeys(text.replace('a', 'x')), /each line/)
  t.equal(new ApertureKeys('').size, 0)
})
