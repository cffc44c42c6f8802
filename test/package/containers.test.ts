import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { join } from 'node:path'
import t from 'tap'
import { request } from 'undici'
import { parse } from 'yaml'
import { loadWithPlugins } from '../../src/app/cli/configuration.ts'
import { temporaryFolder } from '../support/database.ts'
import { rootFolder } from '../support/gateway.ts'
import { serve } from '../support/serve.ts'

interface Service {
  readonly profiles: readonly string[]
  readonly image?: string
  readonly environment?: Readonly<Record<string, string>>
  readonly secrets?: readonly string[]
  readonly ports?: readonly string[]
  readonly mem_limit?: string
  readonly cpus?: number
  readonly pids_limit?: number
  readonly read_only?: boolean
  readonly volumes?: readonly string[]
  readonly command?: readonly string[]
  readonly entrypoint?: readonly string[]
}

const read = (name: string) => readFileSync(join(rootFolder, name), 'utf8')
const compose = parse(read('compose.yaml'), { merge: true }) as {
  readonly services: Readonly<Record<string, Service>>
  readonly secrets: Readonly<Record<string, { readonly file: string }>>
}
const dockerfile = read('Dockerfile')
const services = Object.entries(compose.services)

t.test('`docker compose up` starts a trial, says so, and listens on this machine alone', async t => {
  t.match(read('.env'), /^COMPOSE_PROFILES=trial$/m)
  const trial = services.filter(([, { profiles }]) => profiles.includes('trial'))
  t.same(
    trial.map(([name]) => name),
    ['trial']
  )
  t.match(compose.services['trial'], { environment: { BOLTGATE_MODE: 'development' }, ports: ['127.0.0.1:8080:8080'] })
  t.ok(
    services.every(([, { profiles }]) => profiles.length === 1),
    'nothing starts in both'
  )
})

t.test('the image runs in production mode by default, without root', async t => {
  t.match(dockerfile, /^ENV .*BOLTGATE_MODE=production/m)
  t.match(dockerfile, "sed -i '/^mode: development/d' gateway.yaml")
  t.match(read('gateway.yaml'), /^mode: development/m, 'the line that is taken out')
  t.match(dockerfile, /^USER 10001:10001$/m)
  const { environment } = compose.services['gateway'] ?? {}
  t.notOk(environment?.['BOLTGATE_MODE'])
})

t.test('every service is bounded and every base is named by its full version', async t => {
  for (const [name, service] of services) {
    t.ok(service.mem_limit, `${name}: memory`)
    t.ok(service.cpus, `${name}: processors`)
    t.ok(service.pids_limit, `${name}: processes`)
  }
  const bases = [...dockerfile.matchAll(/^ARG NODE_IMAGE=(.+)$/gm)].map(([, base]) => base)
  const images = services.flatMap(([, { image }]) => (image === undefined ? [] : [/:-(.+)\}$/.exec(image)?.[1]]))
  for (const image of [...bases, ...images])
    t.match(image, /^[a-z]+:\d+\.\d+(\.\d+)?-bookworm(-slim)?$|^(prom|grafana)\/[a-z]+:v?\d+\.\d+\.\d+$/)
  t.equal(bases.length, 1)
  t.equal(images.length, 4)
  t.same(
    [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, from]) => from),
    ['${NODE_IMAGE}', '${BASE_IMAGE}'],
    'the second has no versions but digests'
  )
})

t.test('secrets are files: none is in an environment, an argument or this repository', async t => {
  for (const [name, { environment = {}, secrets = [] }] of services) {
    for (const [variable, value] of Object.entries(environment)) {
      if (!/SECRET|KEY|PASSWORD|DATABASE_URL|REDIS_URL/.test(variable)) continue
      t.match(variable, /_FILE$/, `${name}: ${variable}`)
      t.ok(
        secrets.some(secret => value === `/run/secrets/${secret}`),
        `${name}: ${variable} is one that it is given`
      )
    }
    for (const secret of secrets) t.equal(compose.secrets[secret]?.file, `secrets/${secret}`)
  }
  t.match(read('.gitignore'), /^secrets\/$/m)
  t.notMatch(read('.env'), /^\w*(SECRET|KEY|PASSWORD)/m)
})

t.test('Redis asks for a password and keeps its data', async t => {
  const { command = [], volumes } = compose.services['state'] ?? {}
  const script = command.join(' ')
  t.match(script, 'requirepass')
  t.match(script, '--appendonly yes')
  t.notMatch(script, /--requirepass/, 'an argument is seen by `ps`')
  t.same(volumes, ['state:/data'])
})

t.test('the trial: what arrives at the published port reaches the gateway from its own machine', async t => {
  const script = compose.services['trial']?.entrypoint?.at(-2) ?? ''
  const forwarder = script
    .slice(0, script.indexOf('process.argv'))
    .replace('.unref()', ".on('listening', function () { console.log(this.address().port) })")
  // Answers with the address that it was called from.
  const gateway = createServer(client => {
    client.once('data', () => {
      const address = client.remoteAddress ?? ''
      client.end(`HTTP/1.1 200 OK\r\nContent-Length: ${address.length}\r\nConnection: close\r\n\r\n${address}`)
    })
  })
  const port = await serve(t, gateway)
  const child = spawn(process.execPath, ['--input-type=module', '-e', forwarder], {
    env: { PORT: String(port), PUBLISHED: '0' },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [published] = (await once(child.stdout, 'data')) as [Buffer] // of a pipe
  const answer = await request(`http://127.0.0.1:${published.toString().trim()}/`)
  t.equal(await answer.body.text(), '127.0.0.1')
})

t.test('the trial: its entry point starts the gateway beside the forwarder', async t => {
  const [, ...args] = compose.services['trial']?.entrypoint ?? []
  const child = spawn(
    process.execPath,
    args.map(arg => arg.replace('/app/', `${rootFolder}/`)),
    {
      env: { PORT: '0', PUBLISHED: '0', BOLTGATE_DATA: temporaryFolder(t), BOLTGATE_MODE: 'development' },
      cwd: rootFolder,
      stdio: ['ignore', 'pipe', 'inherit']
    }
  )
  t.teardown(() => child.kill('SIGKILL'))
  for await (const line of createInterface({ input: child.stdout })) if (line.includes('"msg":"ready"')) break
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
})

t.test('the example file of production is valid with the variables that compose.yaml passes', async t => {
  const { environment = {}, volumes = [], secrets = [] } = compose.services['gateway'] ?? {}
  t.ok(volumes.includes('./gateway.production.yaml:/etc/boltgate/gateway.yaml:ro'))
  t.ok(secrets.includes('lightning-key'))
  const given = Object.keys(environment).map(name => name.replace(/_FILE$/, ''))
  const values: Readonly<Record<string, string>> = {
    PUBLIC_URL: 'https://api.example.com',
    DATABASE_URL: 'postgres://u:p@database/boltgate',
    REDIS_URL: 'redis://:p@state:6379'
  }
  const { config } = await loadWithPlugins(join(rootFolder, 'gateway.production.yaml'), {
    ...Object.fromEntries(given.map(name => [name, values[name] ?? 'x'.repeat(40)])),
    HOST: '0.0.0.0'
  })
  t.equal(config.mode, 'production')
  t.equal(config.server.listen.host, '0.0.0.0', 'or the published port would be dead')
})
