import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Agent, request, type Dispatcher } from 'undici'
import type { Test as T } from 'tap'
import { portOf } from '../../src/engine/config/listen-address.ts'
import { withPlugins, type Loaded } from '../../src/app/cli/configuration.ts'
import { compose } from '../../src/app/compose.ts'
import { loadConfigText, type LoadOptions } from '../../src/engine/config/load.ts'
import type { GatewayConfig } from '../../src/engine/config/schema.ts'
import { prepare } from '../../src/app/first-start.ts'
import { openApiDocument } from '../../src/engine/openapi/openapi.ts'
import { operationPrices, pricedRoutes } from '../../src/engine/openapi/paid.ts'
import type { AnyOperation } from '../../src/engine/operations/operation.ts'
import { Router } from '../../src/engine/pipeline/router.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import type { Database } from '../../src/platform/database/database.ts'
import { readKeys } from '../../src/platform/keys/keyfile.ts'
import type { ProviderKind } from '../../src/lightning/kinds/kind.ts'
import { silentLog, type Log } from '../../src/platform/telemetry/log.ts'
import { loadSecrets } from '../../src/app/secrets.ts'
import { readChallengeLine, type ChallengeLine } from '../../src/app/commands/mint.ts'
import { openAnyDatabase, temporaryFolder } from './database.ts'
import { OpenApiCheck, type Answered } from './openapi-check.ts'

/** The repository's own folder; plugin paths in a test's YAML start from it. */
export const rootFolder = fileURLToPath(new URL('../..', import.meta.url))

/** The default deployment with every policy out of the way, so that a test is not throttled by chance. */
export function defaultYaml(
  more: { readonly policies?: string; readonly replace?: ReadonlyArray<readonly [string, string]> } = {}
): string {
  let text = readFileSync(`${rootFolder}/gateway.yaml`, 'utf8')
  const policies =
    more.policies ??
    ['global', 'read', 'write', 'payment-create', 'admin', 'webhook', 'checkout-create', 'l402-proxy']
      .map(name => `  ${name}: { limit: 100000, window: 1m${name === 'l402-proxy' ? ', by: address' : ''} }`)
      .join('\n')
  for (const [from, to] of [['policies: {}', `policies:\n${policies}`] as const, ...(more.replace ?? [])]) {
    if (!text.includes(from)) throw new Error(`gateway.yaml has no longer: ${from}`)
    text = text.replace(from, () => to)
  }
  return text
}

/** How a gateway under test is made. */
export interface TestGatewayOptions {
  /** Each request has a connection of its own: where the clock passes the 75 s for which an idle one is kept. */
  readonly closesConnections?: boolean
  /** Its gateway.yaml; the default deployment with raised policies unless said. */
  readonly yaml?: string
  readonly env?: Readonly<Record<string, string>>
  readonly clock?: Clock
  readonly database?: Database
  /** Its data folder; a new one unless said. */
  readonly data?: string
  readonly log?: Log
  /** The kinds of provider that it knows; those of the list unless said. */
  readonly providerKinds?: readonly ProviderKind[]
  /**
   * False where the test's own plugins change what operations answer; then the answers are not held against the
   * document.
   */
  readonly documented?: false
  /** What a client does between the moment in which the gateway listens and that in which it is ready. */
  readonly listening?: (address: string, apiKey: string) => Promise<void>
}

/** An answer with its body read. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  json(): unknown
}

/** Sends one request; `path` may be a whole address, an object becomes JSON. */
export type Send = (
  method: string,
  path: string,
  options?: {
    readonly headers?: Readonly<Record<string, string | string[]>>
    readonly body?: string | Uint8Array | object | null
  }
) => Promise<Answer>

/** Looks at every answer of a gateway; throws when one is not as its OpenAPI document says. */
export type Look = (answered: Answered) => void | Promise<void>

/** Sends to the gateway at `address` over the connections of `agent`; `look` sees what comes back from there. */
export function sender(address: string, agent: Agent, look: Look = () => {}): Send {
  return async (method, path, { headers = {}, body = null } = {}) => {
    const isObject = body !== null && typeof body === 'object' && !(body instanceof Uint8Array)
    const answer = await request(path.startsWith('http') ? path : address + path, {
      method: method as Dispatcher.HttpMethod /* tests send odd ones on purpose */,
      dispatcher: agent,
      headers: isObject ? { 'content-type': 'application/json', ...headers } : { ...headers },
      body: isObject ? JSON.stringify(body) : (body as string | Uint8Array | null)
    })
    const text = await answer.body.text()
    const own = path.startsWith(address) ? path.slice(address.length) : path
    if (own.startsWith('/'))
      await look({
        method,
        path: own,
        status: answer.statusCode,
        headers: answer.headers,
        text,
        ...(isObject ? { sent: body } : {})
      })
    return { status: answer.statusCode, headers: answer.headers, text, json: () => JSON.parse(text) as unknown }
  }
}

/** A gateway in this process, on a port of its own, over the embedded database. */
export interface TestGateway {
  readonly url: string
  readonly database: Database
  readonly data: string
  readonly adminKey: string
  readonly merchant: { readonly id: number; readonly apiKey: string }
  /** Everything that it answers itself. */
  readonly operations: readonly AnyOperation[]
  /** Sends a request; `path` may be a whole address. */
  send(
    method: string,
    path: string,
    options?: {
      readonly headers?: Readonly<Record<string, string | string[]>>
      readonly body?: string | Uint8Array | object | null
    }
  ): Promise<Answer>
  /** The same with the first merchant's key. */
  merchantSend(method: string, path: string, body?: object): Promise<Answer>
  /** The same with the operator's key. */
  adminSend(method: string, path: string, body?: object): Promise<Answer>
  /** Pays an invoice at the sandbox and answers the preimage. */
  pay(invoice: string): Promise<string>
  reload(yaml: string): Promise<void>
  close(): Promise<void>
}

/** Reads a configuration as the command line would, with all plugins. Rejects with what is wrong in it. */
export function loadText(yaml: string, env: Readonly<Record<string, string>>, more: LoadOptions = {}): Promise<Loaded> {
  return withPlugins(options => loadConfigText('gateway.yaml', yaml, env, { ...options, folder: rootFolder, ...more }))
}

/** File that `npm run examples` collects exchanges in. */
const EXAMPLES = process.env['BOLTGATE_EXAMPLES']

const checks = new Map<string, OpenApiCheck>()

/** The check by a document: most gateways of a process have the same one, and reading its schemas takes a while. */
function checkOf(document: Record<string, unknown>): OpenApiCheck {
  const key = JSON.stringify(document)
  const check = checks.get(key) ?? new OpenApiCheck(document)
  checks.set(key, check)
  return check
}

/**
 * Holds answers against the document of a gateway with these operations, as its configuration of the moment mounts
 * them.
 */
function lookAt(operations: readonly AnyOperation[], config: GatewayConfig): Look {
  const check = checkOf(
    openApiDocument(operations, {
      title: 'test',
      description: 'test',
      publicUrl: 'http://localhost',
      pricedRoutes: pricedRoutes(config),
      priceOf: operationPrices(config)
    })
  )
  const routes = new Router<boolean>()
  for (const { match, upstream } of config.routes) {
    for (const path of match.path)
      routes.add(
        { ...match, host: match.host ?? null, methods: match.method ?? [], path },
        upstream.kind === 'internal'
      )
  }
  return answered => {
    const path = answered.path.split('?', 1)[0] ?? answered.path
    check.check(answered, routes.find('', answered.method, path)?.value ?? true)
    if (EXAMPLES !== undefined) appendFileSync(EXAMPLES, `${JSON.stringify(check.example(answered))}\n`)
  }
}

/**
 * A file that says nothing of the server is given a free port: files run beside each other, and 8080 is one. At its end,
 * so that its lines stay where they are.
 */
function onFreePort(yaml: string): string {
  return /^server:/m.test(yaml) ? yaml : `${yaml.replace(/\n?$/, '\n')}server: { listen: "127.0.0.1:0" }\n`
}

/** Starts a gateway and stops it when the test ends. */
export async function startGateway(t: T, options: TestGatewayOptions = {}): Promise<TestGateway> {
  const data = options.data ?? temporaryFolder(t)
  // Gateways of one database have one secret.
  if (options.data === undefined) writeFileSync(join(data, 'master.key'), `${'test'.repeat(16)}\n`, { mode: 0o600 })
  const clock = options.clock ?? systemClock
  const log = options.log ?? silentLog
  const env = { HOST: '127.0.0.1', PORT: '0', BOLTGATE_DATA: data, ...options.env }
  const kinds = options.providerKinds
  const { config, plugins } = await loadText(
    onFreePort(options.yaml ?? defaultYaml()),
    env,
    kinds === undefined ? {} : { providers: kinds }
  )
  const database = options.database ?? (await openAnyDatabase(t, { clock }))
  const secrets = loadSecrets(config)
  await prepare({ config, database, secrets, clock, log, firstMerchant: true })
  let url = config.server.publicUrl
  const app = await compose(config, {
    clock,
    log,
    database,
    secrets,
    plugins,
    publicUrl: () => url,
    ...(kinds === undefined ? {} : { providerKinds: kinds })
  })
  const port = portOf(await app.listen())
  const address = `http://127.0.0.1:${port}`
  if (url === '') url = address
  await options.listening?.(address, readKeys(data)?.merchant?.apiKey.reveal() ?? '')
  await app.follow()
  const agent = new Agent({
    keepAliveTimeout: 1000,
    connections: 256,
    ...(options.closesConnections === true ? { pipelining: 0 } : {})
  })
  let closed: Promise<void> | null = null
  const close = (): Promise<void> =>
    (closed ??= (async () => {
      await agent.destroy()
      const late = Promise.withResolvers<never>()
      // tap has no time for what tests close, and a clock of the test's own may be paused.
      const timer = setTimeout(() => {
        late.reject(new Error(`the gateway did not close within 60 s, with ${app.active} requests in flight`))
      }, 60_000)
      await Promise.race([app.close(), late.promise]).finally(() => {
        clearTimeout(timer)
      })
    })())
  t.teardown(close)
  const keys = readKeys(data)
  let look = lookAt(app.operations, app.config)
  const send = sender(address, agent, options.documented === false ? undefined : answered => look(answered))
  const apiKey = keys?.merchant?.apiKey.reveal() ?? ''
  const adminKey = keys?.adminKey.reveal() ?? config.secrets.adminKey
  const sendWith =
    (key: string): TestGateway['merchantSend'] =>
    (method, path, body) =>
      send(method, path, { headers: { 'x-api-key': key }, ...(body === undefined ? {} : { body }) })
  return {
    url: address,
    database,
    data,
    adminKey,
    merchant: { id: keys?.merchant?.id ?? 0, apiKey },
    operations: app.operations,
    send,
    merchantSend: sendWith(apiKey),
    adminSend: sendWith(adminKey),
    pay: async invoice => {
      const answer = await send('POST', '/sandbox/pay', { body: { invoice } })
      if (answer.status !== 200) throw new Error(`the sandbox did not pay: ${answer.status} ${answer.text}`)
      return (answer.json() as { preimage: string }).preimage
    },
    reload: async yaml => {
      try {
        const next = await loadText(onFreePort(yaml), env)
        await app.reload(next.config, next.plugins)
      } catch (error) {
        app.refuse(error instanceof Error ? error.message : String(error))
        throw error
      }
      look = lookAt(app.operations, app.config)
    },
    close
  }
}

/** The challenge of one scheme in a 402's WWW-Authenticate lines. Throws when it is not there. */
export function challengeOf(answer: Answer, scheme: 'l402' | 'payment'): ChallengeLine {
  const lines = answer.headers['www-authenticate'] ?? []
  for (const line of Array.isArray(lines) ? lines : [lines]) {
    const challenge = readChallengeLine(line)
    if (challenge?.scheme === scheme) return challenge
  }
  throw new Error(`no ${scheme} challenge in a ${answer.status}: ${JSON.stringify(lines)}`)
}

/** Value of Authorization for a paid challenge of either scheme. */
export function credentialOf(challenge: ChallengeLine, preimage: string): string {
  const { parameters } = challenge
  if (challenge.scheme === 'l402') return `L402 ${parameters.get('macaroon') ?? ''}:${preimage}`
  const echoed = Object.fromEntries(
    ['id', 'realm', 'method', 'intent', 'request', 'expires', 'digest'].flatMap(name => {
      const value = parameters.get(name)
      return value === undefined ? [] : [[name, value]]
    })
  )
  return `Payment ${Buffer.from(JSON.stringify({ challenge: echoed, payload: { preimage } })).toString('base64url')}`
}

/** A GET with a credential. */
export function use(
  gateway: Pick<TestGateway, 'send'>,
  path: string,
  authorization: string,
  more: Readonly<Record<string, string>> = {}
): Promise<Answer> {
  return gateway.send('GET', path, { headers: { authorization, ...more } })
}

/** Asks, pays, and answers the credential: what every paying test begins with. */
export async function buy(
  gateway: Pick<TestGateway, 'send' | 'pay'>,
  path: string,
  scheme: 'l402' | 'payment' = 'l402',
  options: { readonly method?: string; readonly body?: object | string } = {}
): Promise<string> {
  const answer = await gateway.send(
    options.method ?? 'GET',
    path,
    options.body === undefined ? {} : { body: options.body }
  )
  if (answer.status !== 402) throw new Error(`expected a 402 for ${path}, got ${answer.status}: ${answer.text}`)
  return await paidFor(gateway, answer, scheme)
}

/** Pays the invoice of a 402. Returns the credential. */
export async function paidFor(
  gateway: Pick<TestGateway, 'pay'>,
  answer: Answer,
  scheme: 'l402' | 'payment' = 'l402'
): Promise<string> {
  const challenge = challengeOf(answer, scheme)
  return credentialOf(challenge, await gateway.pay(challenge.parameters.get('invoice') ?? ''))
}
