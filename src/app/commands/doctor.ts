import { existsSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { TLSSocket } from 'node:tls'
import { formatProblem } from '../../engine/config/diagnose.ts'
import { takes } from '../../engine/config/presets.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { jsonOrUndefined } from '../../platform/system/json.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import { openDatabase, type Database } from '../../platform/database/database.ts'
import { migrations } from '../../platform/database/migrations/list.ts'
import { missingMigrations } from '../../platform/database/migrations.ts'
import { masterPath, readKeys } from '../../platform/keys/keyfile.ts'
import { Sealer } from '../../platform/keys/secrets.ts'
import { openState } from '../../platform/state/redis.ts'
import { systemClock } from '../../platform/system/clock.ts'
import { silentLog } from '../../platform/telemetry/log.ts'
import type { AdminHealth } from '../../web/admin/health.ts'
import { addressOf, adminKeyOf } from '../cli/admin-call.ts'
import { loadNamed } from '../cli/configuration.ts'
import { dryRun, noDatabase } from '../cli/dry-run.ts'
import { sampleOf, soldRoutes } from '../cli/for-sale.ts'
import { CONFIG_FLAG } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { FOREIGN, verifyMaster } from '../master-check.ts'
import { loadRings } from '../secrets.ts'
import { testProviders } from './test.ts'

export const doctor = defineCommand(
  {
    about: 'Checks the configuration and all that the gateway depends on',
    details: `Checks file, database, Redis, clocks, master secret, providers, disk, limits and the public address, and says what to
do about each problem. Run it where the gateway runs. A running gateway adds its own checks. Makes unpaid invoices to
measure the head of a 402, and to answer what directories ask. Exit code 1 if a check fails; warnings do not fail it.`,
    flags: CONFIG_FLAG,
    examples: ['boltgate doctor', 'boltgate doctor --config gateway.production.yaml']
  },
  async (given, _words, out) => {
    const loaded = await loadNamed(given.config)
    const { config, operations, warnings } = await dryRun(loaded)
    let isWell = true
    const tell = (lines: readonly Line[]): void => {
      for (const { name, says, state, wayOut } of lines) {
        if (state === 'bad') isWell = false
        out.print(`${MARKS[state]}  ${name.padEnd(13)}  ${says}${wayOut === null ? '' : `\n         → ${wayOut}`}`)
      }
    }
    tell([
      good('configuration', `${loaded.file} is valid.`),
      ...warnings.map(problem => line('warning', 'configuration', formatProblem(problem), 'Change the named line.'))
    ])
    const known = await ownChecks(config)
    tell(await storageLines(config, known))
    for (const { isValid, says } of await testProviders(config))
      tell([isValid ? good('provider', says) : line('bad', 'provider', says, 'Correct the key or start the node.')])
    tell(await gatewayLines(config, operations))
    return isWell ? 0 : 1
  }
)

interface Line {
  readonly name: string
  readonly state: 'good' | 'warning' | 'bad'
  readonly says: string
  /** What to do. */
  readonly wayOut: string | null
}

const PATIENCE_MS = 5_000
/** Read of a body; the gateway's checks have a tenth. */
const MOST_CHARS = 100_000
/** Routes that are called as a directory calls them. */
const MOST_PROBES = 20
const MARKS = { good: 'ok     ', warning: 'warning', bad: 'FAILED ' } as const
const PROXY_PAGE = 'docs/how-to/behind-a-proxy.md'

const line = (state: Line['state'], name: string, says: string, wayOut: string | null): Line => ({
  name,
  state,
  says,
  wayOut
})
const good = (name: string, says: string): Line => line('good', name, says, null)

/** The checks of the gateway itself; null where none with this configuration answers. */
async function ownChecks(config: GatewayConfig): Promise<AdminHealth['checks'] | null> {
  // Without an admin key none was started here.
  if (config.secrets.adminKey === '' && readKeys(config.data) === null) return null
  const headers = { 'x-api-key': adminKeyOf(config) }
  const found = await reach(new URL('/api/admin/health', addressOf(config)), { headers })
  const body = typeof found === 'string' || found.status !== 200 ? undefined : jsonOrUndefined(found.text)
  // As the gateway's schema has it; any other program has no such member.
  return (body as Partial<AdminHealth> | undefined)?.checks ?? null
}

async function storageLines(config: GatewayConfig, known: AdminHealth['checks'] | null): Promise<readonly Line[]> {
  const isEmbedded = config.database.url.startsWith('pglite:')
  const [clock, log] = [systemClock, silentLog]
  // The embedded one has a single owner, the gateway.
  const database: Database = isEmbedded
    ? { ...noDatabase, kind: 'pglite', health: async () => ({ status: 'unhealthy', ms: 0, error: null }) }
    : await openDatabase({ ...config.database, dataDir: config.data, log, clock })
  const state = await openState(config.state.url, { clock, log })
  try {
    const [{ platformFacts }, { judgePlatform }] = await Promise.all([
      import('../../web/admin/health.ts'),
      import('../../web/admin/problems.ts')
    ])
    const facts = await platformFacts({ clock, database, state }, config)
    const checks = known ?? judgePlatform(facts).filter(({ name }) => name !== 'database' || !isEmbedded)
    if (facts.database.status === 'unhealthy') return checks
    return [...checks, ...(await schemaLines(config, database))]
  } finally {
    await state.close()
    await database.close()
  }
}

/** What a start checks in PostgreSQL; changes nothing. */
async function schemaLines(config: GatewayConfig, database: Database): Promise<readonly Line[]> {
  const schema = await examined('schema', async () => {
    await database.verify()
    const [{ used } = { used: false }] = await database.sql<{ used: boolean }[]>`
      select to_regclass('schema_migrations') is not null as used`
    const missing = used ? (await missingMigrations(database.sql, migrations)).length : migrations.length
    if (missing === migrations.length)
      return good('schema', 'The database is unused; the first start makes its tables.')
    return good('schema', missing === 0 ? 'Up to date.' : `${missing} migrations run at the next start.`)
  })
  if (schema.state === 'bad' || schema.says.includes('unused')) return [schema]
  const master = await examined('master secret', async () => {
    // Loading them would make one.
    const file = masterPath(config.data)
    if (config.secrets.master === '' && !existsSync(file))
      return line('bad', 'master secret', `${file} is missing.`, 'Restore it, or set secrets.master (BOLTGATE_SECRET).')
    const { foreign } = await verifyMaster(database, new Sealer(loadRings(config).ring))
    const [says, wayOut = ''] = FOREIGN.split('. ')
    return foreign === 0
      ? good('master secret', 'The database was sealed with it.')
      : line('warning', 'master secret', `${says} (${foreign}).`, `${wayOut}.`)
  })
  return [schema, master]
}

/** Reports the error of a check as its result: message first, then what to do. */
async function examined(name: string, check: () => Promise<Line>): Promise<Line> {
  try {
    return await check()
  } catch (error) {
    const [says = '', ...more] = (error instanceof Error ? error.message : String(error)).split(/(?<=\.) /)
    return line('bad', name, says, more.join(' ') || 'See docs/reference/errors.md.')
  }
}

async function gatewayLines(config: GatewayConfig, operations: readonly AnyOperation[]): Promise<readonly Line[]> {
  const { publicUrl, tls, trustedProxies, addresses } = config.server
  const here = addressOf(config)
  const isReady = config.routes.some(route => takes(route, 'GET', '/ready') && route.upstream.kind === 'internal')
  const local = await reach(new URL('/ready', here))
  if (typeof local === 'string')
    return [line('warning', 'gateway', `${here} does not answer: ${local}.`, 'Start it, then run this again.')]
  if (publicUrl === '') return [good('gateway', `${here} answers.`)]
  const isProxied = publicUrl.startsWith('https:') && tls.length === 0
  const proxy =
    isProxied && trustedProxies.length === 0 && addresses.some(({ kind }) => kind !== 'unix')
      ? [
          line(
            'warning',
            'proxy',
            'Something in front ends TLS, but server.trustedProxies is empty: all clients share one address and its limits.',
            `Name the proxy's address there: ${PROXY_PAGE}.`
          )
        ]
      : []
  const found = await reach(new URL('/ready', publicUrl))
  const wayOut = `Point DNS and the proxy at ${here}, open the port, and renew the certificate: ${PROXY_PAGE}.`
  if (typeof found === 'string')
    return [...proxy, line('bad', 'public URL', `${publicUrl} cannot be reached: ${found}.`, wayOut)]
  if (isReady && !found.text.includes('"ready"'))
    return [
      ...proxy,
      line('bad', 'public URL', `${publicUrl}/ready answers ${found.status}, not this gateway.`, wayOut)
    ]
  const words = `${publicUrl} leads to the gateway.`
  // No page is loaded by other commands.
  const { expiry } = await import('../../web/admin/platform-checks.ts')
  const reached = found.until === null ? good('', words) : expiry(found.until, systemClock.now())
  const renew = reached.state === 'good' ? null : tls.length > 0 ? reached.wayOut : "Renew the proxy's certificate."
  return [
    ...proxy,
    line(reached.state, 'public URL', found.until === null ? words : `${words} ${reached.says}`, renew),
    ...(await headLines(config, operations, here)),
    ...(await directoryLines(config, operations, here))
  ]
}

/** Directories call each route without credential and with an empty body, and list as broken what answers no 402. */
async function directoryLines(config: GatewayConfig, operations: readonly AnyOperation[], here: string) {
  const sold = soldRoutes(config).slice(0, MOST_PROBES)
  if (sold.length === 0) return []
  const wrong: string[] = []
  for (const { route } of sold) {
    const { headers, host = new URL(config.server.publicUrl).host, method, path } = sampleOf(route, operations)
    const body = method === 'GET' ? undefined : '{}'
    const type = body === undefined ? {} : { 'content-type': 'application/json', 'content-length': body.length }
    // By the name of a crawler it gets an invoice that crawlers share.
    const options = { method, headers: { ...headers, ...type, host, 'user-agent': 'boltgate doctor, as 402index' } }
    const answer = await reach(new URL(path, here), options, body)
    if (typeof answer === 'string' || answer.status !== 402)
      wrong.push(`${method} ${path} ${typeof answer === 'string' ? answer : `answers ${answer.status}`}`)
  }
  return wrong.length === 0
    ? [good('directories', `${sold.length} routes answer a directory's probe with 402.`)]
    : [
        line(
          'warning',
          'directories',
          `A directory's probe gets no 402: ${wrong.join(', ')}.`,
          'Give a price by a field of the body an `else`, and start the upstream: docs/how-to/being-found.md.'
        )
      ]
}

/** Whether the largest 402 passes the proxies in front. */
async function headLines(config: GatewayConfig, operations: readonly AnyOperation[], here: string): Promise<Line[]> {
  const sold = soldRoutes(config).map(({ route }) => route)
  const route = sold.find(({ sessions }) => sessions !== undefined) ?? sold[0]
  if (route === undefined) return []
  const { publicUrl } = config.server
  const { headers, host = new URL(publicUrl).host, method, path } = sampleOf(route, operations)
  const options = { method, headers: { ...headers, host } }
  const what = `${method} ${path} of ${publicUrl}`
  const through = await reach(new URL(path, publicUrl), options)
  if (typeof through !== 'string' && through.status === 402)
    return [good('402 heads', `${what} passes with a head of ${through.head} bytes.`)]
  const answer = typeof through === 'string' ? through : `answers ${through.status}`
  const direct = await reach(new URL(path, here), options)
  if (typeof direct === 'string' || direct.status !== 402)
    return [good('402 heads', `Not measured: ${what} ${answer}, and the gateway asks for no payment either.`)]
  return [
    line(
      'bad',
      '402 heads',
      `${what} ${answer}, but the gateway a 402 with a head of ${direct.head} bytes.`,
      `Raise the proxy's buffers, for nginx proxy_buffer_size 16k: ${PROXY_PAGE}.`
    )
  ]
}

interface Reached {
  readonly status: number
  /** Bytes of the response's head. */
  readonly head: number
  readonly text: string
  /** End of validity of the server's certificate; null without TLS. */
  readonly until: Date | null
}

/** The response, or why there is none. */
async function reach(url: URL, options: http.RequestOptions = {}, body?: string): Promise<Reached | string> {
  const { promise, resolve } = Promise.withResolvers<Reached | string>()
  const { request } = url.protocol === 'https:' ? https : http
  request(url, { ...options, signal: AbortSignal.timeout(PATIENCE_MS) }, async response => {
    const { rawHeaders, socket, statusCode = 0 } = response
    const until = socket instanceof TLSSocket ? new Date(socket.getPeerCertificate().valid_to) : null
    // Two more characters for each name and each value, and the status line.
    const head = rawHeaders.reduce((sum, text) => sum + text.length + 2, 20)
    response.setEncoding('utf8')
    let text = ''
    try {
      for await (const piece of response) {
        text += String(piece)
        if (text.length > MOST_CHARS) break
      }
      resolve({ status: statusCode, head, text, until })
    } catch (error) {
      resolve(error instanceof Error ? error.message : String(error))
    }
  })
    .on('error', error => {
      resolve(error.message)
    })
    .end(body)
  return await promise
}
