import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import t, { type Test as T } from 'tap'
import { checkMaster } from '../../../src/app/master-check.ts'
import { migrate } from '../../../src/platform/database/migrations.ts'
import { migrations } from '../../../src/platform/database/migrations/list.ts'
import { KeyRing, Sealer, Secret } from '../../../src/platform/keys/secrets.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { selfSigned } from '../../fakes/certificate.ts'
import { openAt, temporaryFolder } from '../../support/database.ts'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { freshPostgres } from '../../support/gateway-process.ts'
import { ownRedis } from '../../support/own-servers.ts'
import { boltgate } from '../../support/cli.ts'

async function doctor(t: T, yaml: string) {
  const file = join(temporaryFolder(t), 'gateway.yaml')
  writeFileSync(file, yaml)
  const { code, out, err } = await boltgate('doctor', '-c', file)
  return { code, out: `${out}\n${err}` }
}

t.test('doctor: before the first start, with what is wrong and what to do', async t => {
  const data = temporaryFolder(t)
  const idle = await doctor(t, `data: ${data}\nserver: { listen: "127.0.0.1:1" }\nroutes: []\n`)
  t.equal(idle.code, 0, idle.out)
  t.match(idle.out, /^ok +configuration +.*gateway\.yaml is valid/m)
  t.match(idle.out, /^ok +provider +primary sandbox: /m)
  t.match(idle.out, /^ok +disk +/m)
  t.match(idle.out, /^warning +gateway +http:\/\/127\.0\.0\.1:1 .*\n +→ Start /m)
  t.notMatch(idle.out, /database/, 'the embedded database is made by the first start')
  const unpaid = await doctor(
    t,
    `data: ${data}\nlightning: { primary: { kind: phoenixd, key: "phoenixd://127.0.0.1:1?password=a" } }\nroutes: []\n`
  )
  t.match(unpaid, { code: 1, out: /^FAILED +provider +primary phoenixd: .*not tested[^\n]*\n +→ /m })
  t.match(await doctor(t, 'nonsense: 1\n'), { code: 1, out: /BG_CONFIG_UNKNOWN_KEY/ })
})

t.test('doctor: a running gateway reports its own checks, and the proxy in front is tested', async t => {
  const sessions = ['    price: 10 sats\n', '    price: 10 sats\n    sessions: { deposit: 500 sats }\n'] as const
  const gateway = await startGateway(t, { yaml: defaultYaml({ replace: [sessions] }) })
  let largest = 3000
  let isOther = false
  let isCut = false
  // As nginx with a buffer that is too small: invoices of real nodes are longer than the sandbox's.
  const pass: http.RequestListener = (asked, answer) => {
    const { headers, method, url } = asked
    const inner = http.request(new URL(url ?? '', gateway.url), { method, headers }, told => {
      const status = isOther ? 404 : told.rawHeaders.join('..').length > largest ? 502 : null
      if (isCut) answer.writeHead(200, { 'content-length': 9 }).write('x', () => answer.destroy())
      else if (status === null) told.pipe(answer.writeHead(told.statusCode ?? 0, told.rawHeaders))
      else answer.writeHead(status).end()
    })
    asked.pipe(inner)
  }
  const plain = http.createServer(pass).listen(0, '127.0.0.1')
  const day = 86_400_000
  const own = selfSigned({ names: ['localhost'], from: Date.now() - day, until: Date.now() + 9 * day })
  const secure = https.createServer({ key: own.key, cert: own.certificate }, pass).listen(0, '127.0.0.1')
  await Promise.all([once(plain, 'listening'), once(secure, 'listening')])
  t.teardown(() => [plain, secure].map(server => server.close()))
  const portOf = (server: http.Server) => {
    const address = server.address()
    return typeof address === 'object' && address !== null ? address.port : 0
  }
  const yaml = (publicUrl: string, more = '') =>
    defaultYaml({
      replace: [
        sessions,
        ['"${HOST:-127.0.0.1}:${PORT:-8080}"', `"${new URL(gateway.url).host}"`],
        ['"${PUBLIC_URL:-}"', `"${publicUrl}"\n  ${more}`],
        ['"${BOLTGATE_DATA:-./data}"', `"${gateway.data}"`]
      ]
    })
  const url = `http://127.0.0.1:${portOf(plain)}`
  const cut = await doctor(t, yaml(url))
  t.match(cut.out, /^ok +jobs +/m, 'what only the gateway knows')
  t.match(cut.out, /^ok +public URL +/m)
  t.match(cut.out, /^FAILED +402 heads +.*\/demo\/.* 502, .*\n +→ .*proxy_buffer_size 16k/m)
  t.equal(cut.code, 1)
  largest = 16_384
  const well = await doctor(t, yaml(url))
  t.match(well, { code: 0, out: /^ok +402 heads +.*\/demo\/.* \d{4} bytes/m })
  t.match(well.out, /^ok +directories +\d routes answer/m)
  t.match(
    (await doctor(t, yaml(url).replace('path: /demo/*', 'path: /nowhere/*'))).out,
    /^warning +directories +.*GET \/nowhere\/ answers 404\.\n +→ /m
  )
  isOther = true
  t.match((await doctor(t, yaml(url))).out, /^FAILED +public URL +.* 404.*\n +→ /m)
  isCut = true
  t.match((await doctor(t, yaml(url))).out, /^FAILED +public URL +.*aborted.*\n +→ /m)
  isOther = isCut = false
  t.match((await doctor(t, yaml('http://127.0.0.1:1'))).out, /^FAILED +public URL +.*ECONNREFUSED.*\n +→ /m)
  const secured = `https://localhost:${portOf(secure)}`
  t.match((await doctor(t, yaml(secured))).out, /^FAILED +public URL +.*self.signed.*\n +→ /m)
  https.globalAgent.options.ca = own.certificate
  t.teardown(() => {
    delete https.globalAgent.options.ca
  })
  const soon = await doctor(t, yaml(secured))
  t.match(soon.out, /^warning +public URL +.*expires on 20.*\n +→ /m)
  t.match(soon.out, /^warning +proxy +.*trustedProxies.*\n +→ /m)
  t.notMatch((await doctor(t, yaml(secured, 'trustedProxies: [127.0.0.1]'))).out, /^warning +proxy/m)
  const local = yaml(secured).replace(/listen: .*/, 'listen: unix:./http.sock')
  t.match((await doctor(t, local)).out, /^(?:(?!warning +proxy).*\n)*warning +public URL/, 'a Unix socket')
})

t.test('doctor: PostgreSQL, its schema, and the master secret that it was sealed with', async t => {
  const url = await freshPostgres(t)
  if (url === null) return
  const yaml = (letter: string) => `
data: ${temporaryFolder(t)}
database: { url: "${url}" }
secrets: { master: ${letter.repeat(40)} }
server: { listen: "127.0.0.1:1" }
routes: []
`
  const fresh = await doctor(t, yaml('a'))
  t.match(fresh, { code: 0, out: /^ok +schema +.*unused/m })
  const database = await openAt(t, url)
  await migrate(database, migrations.slice(0, -1), { clock: systemClock, log: silentLog })
  t.match((await doctor(t, yaml('a'))).out, /^ok +schema +1 migration/m)
  await migrate(database, migrations, { clock: systemClock, log: silentLog })
  await checkMaster(database, new Sealer(new KeyRing(new Secret('a'.repeat(40)), [])), silentLog)
  const good = await doctor(t, yaml('a'))
  t.match(good, { code: 0, out: /^ok +master secret +/m })
  t.match(good.out, /^ok +database +PostgreSQL 1\d.* responds/m)
  t.match(good.out, /^ok +clock +/m)
  const other = await doctor(t, yaml('b'))
  t.match(other, { code: 1, out: /^FAILED +master secret +.*another master secret.*\n +→ .*secrets\.previous/m })
  const lost = await doctor(t, yaml('a').replace(/^secrets.*$/m, ''))
  t.match(lost, { code: 1, out: /^FAILED +master secret +.*master\.key is missing/m })
  await database.sql`insert into schema_migrations (name, checksum, applied_at) values ('9999-later', 'x', ${new Date()})`
  t.match(await doctor(t, yaml('a')), { code: 1, out: /^FAILED +schema +.*newer version/m })
  await database.sql`delete from schema_migrations where name = '9999-later'`
  const away = await doctor(t, yaml('a').replace(url, 'postgres://postgres@127.0.0.1:1/x'))
  t.match(away, { code: 1, out: /^FAILED +database +.*\n +→ Start PostgreSQL/m })
})

t.test('doctor: a Redis that evicts what it should keep', async t => {
  const server = await ownRedis(t)
  if (server === null) return t.pass('no Redis here')
  const redis = new Redis(server.url)
  t.teardown(() => redis.quit())
  const yaml = `data: ${temporaryFolder(t)}
state: { url: "${server.url}" }
server: { listen: "127.0.0.1:1" }
routes: []
`
  t.match((await doctor(t, yaml)).out, /^ok +state +Redis responds/m)
  await redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
  t.match(await doctor(t, yaml), {
    code: 0,
    out: /^warning +state +.*allkeys-lru.*\n +→ Set maxmemory-policy to noeviction/m
  })
})
