import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test as T } from 'tap'
import { selfSigned } from '../../fakes/certificate.ts'
import { openAt, temporaryFolder } from '../../support/database.ts'
import { ownPostgres } from '../../support/own-servers.ts'
import { loadText } from '../../support/gateway.ts'
import { openDatabase } from '../../../src/platform/database/database.ts'
import { PostgresUrlError, readPostgresUrl } from '../../../src/platform/system/postgres-url.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'

const read = readPostgresUrl

t.test('postgres addresses: those of hosting platforms and drivers are read', async t => {
  t.match(read('postgres://u:p%40ss%2Fw%23rd@h/db'), {
    hosts: [{ host: 'h', port: 5432 }],
    user: 'u',
    password: 'p@ss/w#rd',
    database: 'db',
    tls: { mode: 'disable' },
    ignored: []
  })
  t.equal(read('postgres://u:p@ss@h/db').password, 'p@ss', 'the last @ ends the password')
  t.equal(read('postgres://u:a:b@h/db').password, 'a:b')
  // Neon
  t.match(read('postgresql://u:p@ep-x.neon.tech/db?sslmode=require&channel_binding=require'), {
    tls: { mode: 'require' },
    settings: {},
    ignored: [/^channel_binding/]
  })
  // Supabase and Prisma
  t.match(
    read('postgresql://u.ref:p@pooler:6543/postgres?pgbouncer=true&connection_limit=1&pool_timeout=9&schema=shop'),
    {
      user: 'u.ref',
      settings: { search_path: 'shop' },
      ignored: [/^pgbouncer .*database\.listenUrl/, /^connection_limit .*database\.connections/]
    }
  )
  t.equal(read('postgresql://h/db?sslmode=require&sslaccept=strict').tls.mode, 'verify-full')
  // RDS
  t.match(read('postgres://h/db?sslmode=verify-full&sslrootcert=/rds.pem').tls, {
    mode: 'verify-full',
    rootCert: '/rds.pem'
  })
  t.equal(read('postgres://h/db?sslmode=require&sslrootcert=/rds.pem').tls.mode, 'verify-ca')
  t.match(read('postgres://h/db?sslrootcert=system').tls, { mode: 'verify-full', rootCert: null })
  // JDBC
  t.match(read('jdbc:postgresql://h:6000/db?user=u&password=p%26q&ssl=true&currentSchema=s&ApplicationName=shop'), {
    hosts: [{ host: 'h', port: 6000 }],
    user: 'u',
    password: 'p&q',
    database: 'db',
    tls: { mode: 'verify-full' },
    settings: { search_path: 's', application_name: 'shop' },
    ignored: []
  })
  t.match(read('postgres:///db?host=/run/postgresql&user=u'), {
    socketFolder: '/run/postgresql',
    database: 'db',
    user: 'u'
  })
  t.match(read('postgres://[::1]:6000/db').hosts, [{ host: '::1', port: 6000 }])
  t.match(read('postgres://u:p@a:1,b:2,c/db?target_session_attrs=read-write'), {
    hosts: [
      { host: 'a', port: 1 },
      { host: 'b', port: 2 },
      { host: 'c', port: 5432 }
    ],
    target: 'read-write'
  })
  t.match(
    read(
      'postgres://h/db?connect_timeout=10&keepalives=0&options=-c%20work_mem%3D8MB&statement_timeout=3000&gssencmode=disable'
    ),
    {
      connectTimeout: 10_000,
      keepAlive: 0,
      settings: { options: '-c work_mem=8MB', statement_timeout: '3000' },
      ignored: []
    }
  )
  t.match(read('postgres://h/db?foo=1&datestyle=german').ignored, [/^foo /, /^datestyle /])
})

t.test('postgres addresses: what cannot be meant is refused without showing the password', async t => {
  for (const [url, message] of [
    ['postgres://u:hidden@h/db?sslmode=on', /sslmode=on; allowed: disable, allow/],
    ['postgres://u:hid#den@h/db', /percent-encode/],
    ['postgres://u:hid%den@h/db', /write % as %25/],
    ['postgres://u:hidden@h:x/db', /host1:5432,host2:5432/],
    ['postgres://u:hidden@a,b/db?target_session_attrs=standby', /allowed: any, primary, read-write/]
  ] as const) {
    t.throws(() => read(url), { name: 'PostgresUrlError', message }, url)
    try {
      read(url)
    } catch (error) {
      t.ok(error instanceof PostgresUrlError && !/hid/.test(error.message))
    }
    const yaml = `database: { url: ${JSON.stringify(url)} }`
    await t.rejects(loadText(yaml, {}), { message: /database\.url: .*\[BG_CONFIG_VALUE\]/ }, url)
  }
  const { config } = await loadText('database: { url: "postgres://u:p@h/db?sslmode=require&foo=1" }', {})
  t.match(config.warnings, [{ path: 'database.url', message: /foo .* no effect/ }])
})

/** What a session at this address says of itself; rejects when there is none. */
async function sessionAt(t: T, url: string) {
  const database = await openAt(t, url)
  const [found] = await database.sql`
    select current_setting('application_name') as name, current_setting('TimeZone') as zone, ssl
    from pg_stat_ssl where pid = pg_backend_pid()`
  return found
}

t.test('postgres addresses: every mode connects as libpq does to a server without TLS', async t => {
  const server = process.env['TEST_DATABASE_URL'] ?? ''
  if (server === '') return
  for (const [mode, connects] of [
    ['disable', true],
    ['allow', true],
    ['prefer', true],
    ['require', false],
    ['verify-full', false]
  ] as const) {
    const url = new URL(server)
    url.searchParams.set('sslmode', mode)
    url.searchParams.set('channel_binding', 'prefer')
    url.searchParams.set('application_name', 'mine')
    const session = sessionAt(t, url.href)
    if (connects) t.same(await session, { name: 'mine', zone: 'UTC', ssl: false }, mode)
    else await t.rejects(session, { message: /does not speak TLS/ }, mode)
  }
})

t.test('postgres addresses: every mode connects as libpq does to a server with TLS', async t => {
  const [own, other] = [selfSigned({ names: ['localhost'] }), selfSigned({ names: ['localhost'] })]
  const server = await ownPostgres(t, own)
  if (server === null) return
  const folder = temporaryFolder(t)
  const [root, outsider] = [join(folder, 'root.pem'), join(folder, 'stranger.pem')]
  writeFileSync(root, own.certificate)
  writeFileSync(outsider, other.certificate)
  const at = (host: string, parameters: Readonly<Record<string, string>>) => {
    const url = new URL(server.url)
    url.hostname = host
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
    return url.href
  }
  const [name, address] = ['localhost', '127.0.0.1']
  const untrusted = { code: /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN)$/ }
  for (const [host, parameters, refused] of [
    [address, { sslmode: 'disable' }, null],
    [address, { sslmode: 'prefer' }, null],
    [address, { sslmode: 'require' }, null],
    [address, { sslmode: 'no-verify' }, null],
    [address, { sslmode: 'require', sslrootcert: root }, null],
    [address, { sslmode: 'require', sslrootcert: outsider }, untrusted],
    [address, { sslmode: 'verify-ca', sslrootcert: root }, null],
    [address, { sslmode: 'verify-ca', sslrootcert: outsider }, untrusted],
    [address, { sslmode: 'verify-ca' }, untrusted],
    [name, { sslmode: 'verify-full', sslrootcert: root }, null],
    [name, { ssl: 'true', sslrootcert: root }, null],
    [name, { sslmode: 'require', sslaccept: 'strict', sslrootcert: root }, null],
    [name, { sslmode: 'verify-full', sslrootcert: outsider }, untrusted],
    [name, { sslmode: 'verify-full' }, untrusted],
    [name, { sslrootcert: 'system' }, untrusted],
    [address, { sslmode: 'verify-full', sslrootcert: root }, { code: 'ERR_TLS_CERT_ALTNAME_INVALID' }],
    [name, { sslmode: 'verify-full', sslrootcert: join(folder, 'none.pem') }, { code: 'ENOENT' }]
  ] as const) {
    const what = `${host} ${JSON.stringify(parameters)}`
    const session = sessionAt(t, at(host, parameters))
    if (refused === null)
      t.match(await session, { ssl: !('sslmode' in parameters && parameters.sslmode === 'disable') }, what)
    else await t.rejects(session, refused, what)
  }

  // A renewed authority takes the place of the file.
  const database = await openDatabase({
    url: at(name, { sslmode: 'verify-full', sslrootcert: outsider }),
    dataDir: tmpdir(),
    log: silentLog,
    clock: systemClock
  })
  t.teardown(() => database.close())
  await t.rejects(database.sql`select 1`, untrusted)
  writeFileSync(outsider, own.certificate)
  t.equal((await database.sql`select 1`).length, 1, 'the file is read with each connection')
})
