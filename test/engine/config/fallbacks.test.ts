import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Environment } from '../../../src/engine/config/interpolate.ts'
import { loadConfigText } from '../../../src/engine/config/load.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { temporaryFolder } from '../../support/database.ts'

const load = async (text: string, env: Environment) =>
  await loadConfigText('/srv/gateway.yaml', text, env, { providers: providerKinds })

const everything = {
  BOLTGATE_MODE: 'production',
  BOLTGATE_SECRET: 's'.repeat(40),
  BOLTGATE_ADMIN_KEY: 'a'.repeat(20),
  BOLTGATE_DATA: '/var/lib/boltgate',
  DATABASE_URL: 'postgres://u:p@db/boltgate',
  REDIS_URL: 'redis://state:6379',
  PUBLIC_URL: 'https://api.example.com',
  HOST: '0.0.0.0',
  PORT: '9000',
  MAIL_FROM: 'a@example.com',
  SMTP_URL: 'smtp://mail.example.com'
}

t.test('fallbacks: a silent file takes its settings from the environment, and one provider is enough', async t => {
  const config = await load('lightning: { primary: { kind: strike, key: k } }', everything)
  t.match(config, {
    mode: 'production',
    data: '/var/lib/boltgate',
    server: { listen: { host: '0.0.0.0', port: 9000 }, publicUrl: 'https://api.example.com' },
    secrets: { master: everything.BOLTGATE_SECRET, adminKey: everything.BOLTGATE_ADMIN_KEY },
    database: { url: everything.DATABASE_URL, connections: 10 },
    state: { url: everything.REDIS_URL },
    mail: { from: 'a@example.com', smtp: 'smtp://mail.example.com' }
  })
  t.same(config.lightning.alternate, [])
})

t.test('fallbacks: the file wins', async t => {
  const config = await load(
    `mode: development
data: ./here
server: { listen: 127.0.0.1:1234, publicUrl: http://localhost:1234 }
secrets: { master: ${'m'.repeat(32)}, adminKey: ${'k'.repeat(16)} }
database: { url: "pglite:" }
state: { url: "memory:" }
mail: { from: "", smtp: "" }
`,
    everything
  )
  t.match(config, {
    mode: 'development',
    data: '/srv/here',
    server: { listen: { port: 1234 }, publicUrl: 'http://localhost:1234' },
    secrets: { master: 'm'.repeat(32), adminKey: 'k'.repeat(16) },
    database: { url: 'pglite:' },
    state: { url: 'memory:' },
    mail: { from: '', smtp: '' }
  })
  t.match(config.lightning.alternate, [{ kind: 'sandbox' }], 'and development has both slots')
})

t.test('fallbacks: files of secrets, IPv6 hosts and half a listen address', async t => {
  const file = join(temporaryFolder(t), 'master')
  writeFileSync(file, `${'f'.repeat(32)}\n`)
  const config = await load('routes: []', { BOLTGATE_SECRET_FILE: file, HOST: '::' })
  t.equal(config.secrets.master, 'f'.repeat(32))
  t.same(config.server.listen, { host: '::', port: 8080 })
  t.same((await load('routes: []', { PORT: '81' })).server.listen, { host: '127.0.0.1', port: 81 })
  t.same((await load('routes: []', { DATABASE_URL: '' })).database.url, 'pglite:', 'empty is unset')
})

t.test('fallbacks: a bad variable is named and its value is not shown', async t => {
  await t.rejects(load('routes: []', { PORT: 'http' }), {
    message:
      /server\.listen: found what "\$\{HOST:-127\.0\.0\.1\}:\$\{PORT:-8080\}" gives; allowed: an address and a port/
  })
  await t.rejects(load('routes: []', { DATABASE_URL: 'mysql://secret' }), {
    message: /^[^\n]*database\.url: found a secret of 14 characters; allowed: pglite: or [^\n]*$/
  })
  await t.rejects(load('routes: []', { BOLTGATE_SECRET_FILE: '/nowhere/master' }), {
    message: /secrets\.master: the file \/nowhere\/master, which BOLTGATE_SECRET_FILE names, cannot be read/
  })
})

t.test('fallbacks: what production misses is reported where the file sets production', async t => {
  await t.rejects(load('# ours\nmode: production\n', {}), {
    message: new RegExp(
      [
        '^/srv/gateway.yaml:2:7: lightning.primary.kind: .*',
        '/srv/gateway.yaml:2:7: secrets.master: .*Set BOLTGATE_SECRET, or write secrets: .*',
        '/srv/gateway.yaml:2:7: database.url: .*Set DATABASE_URL.*',
        '/srv/gateway.yaml:2:7: server.publicUrl: .*Set PUBLIC_URL[^\\n]*$'
      ].join('\\n')
    )
  })
})
