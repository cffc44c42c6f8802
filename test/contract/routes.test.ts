import t from 'tap'
import { loadWithPlugins } from '../../src/app/cli/configuration.ts'
import type { ChainEntryConfig, GatewayConfig } from '../../src/engine/config/schema.ts'
import { dryRun } from '../../src/app/cli/dry-run.ts'
import type { AnyOperation } from '../../src/engine/operations/operation.ts'
import { Router } from '../../src/engine/pipeline/router.ts'
import { rootFolder, startGateway } from '../support/gateway.ts'

/**
 * How a file leads to an operation: whose key, the policy that counts it, the gate, whether a repetition is replayed.
 */
interface Way {
  readonly key: string
  readonly policy: string | null
  readonly gate: string | null
  readonly idempotent: boolean
}

const way = (key: string, policy: string | null, gate: string | null = null, idempotent = false) => ({
  key,
  policy,
  gate,
  idempotent
})

/** One line of the rules: the first whose method and path an operation has says how it is counted and gated. */
type Rule = readonly [method: RegExp, path: RegExp, way: Partial<Way>]

/**
 * Limits, "Applies to", closed by decisions 30 and 31; gates by decision 36, idempotency by the contract's Limits. The
 * key is not theirs: it follows from an operation's access, below.
 */
const RULES: readonly Rule[] = [
  // Probes (decision 22).
  [/GET/, /^\/(ready|metrics)$/, { policy: null }],
  // Pages with forms, whose addresses are secrets, and their assets.
  [/GET/, /^\/assets\//, { policy: 'read' }],
  [/POST/, /^(\/api\/auth\/magic-link|\/sign-in|\/sign-up)$/, { policy: 'magic-link' }],
  [/POST/, /^\/api\/auth\/passkeys\/sign-in/, { policy: 'passkey' }],
  [/GET/, /^\/api\/auth\/(sessions?|passkeys)$/, { policy: 'read' }],
  [/POST|PUT|DELETE/, /^\/api\/auth\//, { policy: 'write' }],
  [/./, /^\/api\/webhooks\//, { policy: 'webhook' }],
  [/./, /^(\/api\/admin\/|\/jobs)/, { policy: 'admin' }],
  [/./, /^\/(console|operator)(\/|$)/, { policy: 'console' }],
  // Payments and refunds; a pay page asks for the state without a key.
  [/POST/, /^\/api\/payments$/, { policy: 'payment-create', gate: 'account', idempotent: true }],
  // Decision 168: its policy and idempotency are listed with payments.
  [/POST/, /^\/api\/checkout\/sessions$/, { policy: 'payment-create', gate: 'account', idempotent: true }],
  [/POST/, /^\/api\/refunds$/, { policy: 'payment-create', gate: 'refunds', idempotent: true }],
  [/GET/, /^\/api\/payments\/:invoiceId\/status$/, { policy: 'read' }],
  // A merchant reads what was paid also when it has no plan any more.
  [/GET/, /^\/api\/payments$/, { policy: 'read' }],
  [/GET/, /^\/api\/(payments|refunds)/, { policy: 'read', gate: 'account' }],
  [/POST/, /^\/api\/(payments|refunds)\/.*\/(sync|cancel)$/, { policy: 'global', gate: 'account' }],
  [/POST/, /^\/api\/(billing\/create-checkout-session|bitcoin\/create-subscription)$/, { policy: 'checkout-create' }],
  [/GET/, /^\/api\/((l402|billing|bitcoin)\/pricing|l402\/status)$/, { policy: 'read' }],
  // No plan is asked: a leaked token must be revocable by its finder.
  [/DELETE/, /^\/api\/(merchant|proxy\/:proxyId)\/tokens/, { policy: 'write' }],
  [/GET/, /^\/api\/proxy/, { policy: 'read', gate: 'l402' }],
  [/./, /^\/api\/proxy/, { policy: 'write', gate: 'l402' }],
  [/GET/, /^\/api\/merchant\/storefront/, { policy: 'read', gate: 'account' }],
  [/./, /^\/api\/merchant\/storefront/, { policy: 'write', gate: 'account' }],
  [/PUT/, /^\/api\/merchant\/(primary-key|alternate-key|webhook-url)$/, { policy: 'read' }],
  [/GET/, /^\/api\/merchant\//, { policy: 'read' }],
  [/./, /^\/api\/(merchant\/|billing\/customer-portal)/, { policy: 'write' }],
  // They serve payers who have paid (decision 36).
  [/POST/, /^\/api\/l402\/challenges\/verify/, { policy: 'global' }],
  [/./, /^\/api\/l402\/(challenges|endpoints)/, { policy: 'global', gate: 'l402' }],
  [/./, /./, { policy: 'global' }]
]

/**
 * Addresses whose key may be left out, but one that is sent must be good; and the dashboard's, which a browser logs in
 * to.
 */
const KEYS: ReadonlyArray<readonly [path: RegExp, key: string]> = [
  [/^\/(ready|metrics)$/, 'admin if any'],
  [/^\/sandbox\/(pay|state)$/, 'any if any'],
  [/^\/api\/(billing\/create-checkout-session|bitcoin\/create-subscription)$/, 'merchant if any'],
  [/^\/jobs/, 'dashboard']
]

function expected({ method, path, access }: AnyOperation) {
  const rule = RULES.find(([methods, paths]) => methods.test(method) && paths.test(path))?.[2]
  const key =
    KEYS.find(([paths]) => paths.test(path))?.[1] ?? (access === 'merchant' || access === 'admin' ? access : 'none')
  return { ...way(key, null), ...rule }
}

/** Paths that need no X-API-Key and that browsers of other sites may still not call. */
const SAME_SITE =
  /^\/(storefront|pay|assets|billing|sign-in|sign-up|jobs|console|operator|api\/auth|api\/webhooks)(\/|$)/

type Settings = Readonly<Record<string, unknown>>

function settingsOf(chain: readonly ChainEntryConfig[], plugin: string) {
  const entries = chain.filter(entry => entry.plugin === plugin)
  if (entries.length > 1)
    throw new Error(`${plugin} is listed twice; "each request is counted by exactly one policy" (decision 30)`)
  // A loaded entry's settings are an object.
  return entries[0] === undefined ? null : (entries[0].config as Settings)
}

function wayOf(chain: readonly ChainEntryConfig[]) {
  const auth = settingsOf(chain, 'auth')
  const gate = settingsOf(chain, 'subscription-gate')
  const policy = settingsOf(chain, 'throttle')?.['policy']
  return {
    key: chain.some(entry => entry.plugin === 'dashboard-auth')
      ? 'dashboard'
      : auth === null
        ? 'none'
        : `${String(auth['as'])}${auth['optional'] === true ? ' if any' : ''}`,
    policy: typeof policy === 'string' ? policy : null,
    gate: gate === null ? null : String(gate['feature'] ?? 'account'),
    idempotent: settingsOf(chain, 'idempotency') !== null
  }
}

/** Decision 35: what refuses earlier is listed earlier. For priced chains it holds only that a 429 is never paid for. */
const KEYED = ['body-limit', 'auth', 'throttle', 'subscription-gate', 'idempotency']

function chainsByRequest({
  routes,
  chains
}: GatewayConfig): (method: string, path: string) => readonly ChainEntryConfig[] {
  const router = new Router<readonly ChainEntryConfig[]>()
  for (const { match, chain } of routes) {
    for (const path of match.path)
      router.add(
        { host: null, methods: match.method ?? [], path },
        (chains[chain] ?? []).filter(entry => !entry.disabled)
      )
  }
  return (method, path) => {
    const found = router.find('', method, path)
    if (found === null) throw new Error(`no route takes ${method} ${path}`)
    return found.value
  }
}

const AS_IT_COMES = `${rootFolder}/gateway.yaml`
const ALL_SPELT_OUT = `${rootFolder}/test/engine/config/spelled-out.yaml`

for (const [name, file] of [
  ['as gateway.yaml comes', AS_IT_COMES],
  ['in a file from before that spells all of it out', ALL_SPELT_OUT]
] as const) {
  t.test(`Limits | Policy | Applies to: who counts, gates and replays which operation, ${name}`, async t => {
    const { config, operations } = await dryRun(await loadWithPlugins(file, {}))
    const chainOf = chainsByRequest(config)
    for (const operation of operations) {
      const { id, method, path, access } = operation
      const chain = chainOf(method, path.replaceAll(/:[A-Za-z]+/g, 'x'))
      t.same(wayOf(chain), expected(operation), `${id}: ${method} ${path}`)
      const names = chain.map(entry => entry.plugin)
      const auth = settingsOf(chain, 'auth')
      if (auth !== null && auth['optional'] !== true) {
        t.same(
          names.filter(name => KEYED.includes(name)),
          KEYED.filter(name => names.includes(name)),
          `${id} refuses in the order of decision 35`
        )
        if (method !== 'GET') t.ok(names.includes('body-limit'), `${id} takes no endless body`)
      }
      t.equal(names.includes('challenge'), access === 'credential', `${id} requires payment where it is sold`)
      if (names.includes('challenge'))
        t.ok(names.indexOf('throttle') < names.indexOf('challenge'), `${id} is counted before an invoice is made`)
      // A merchant's key may be left out: then an anonymous browser calls.
      const isOpen = auth === null || (auth['as'] === 'merchant' && auth['optional'] === true)
      t.equal(
        names.includes('cors'),
        isOpen && !SAME_SITE.test(path),
        `${id}: browsers of other sites may call what needs no key, and nothing else`
      )
    }
  })
}

t.test('the document lists every operation that is mounted, and no other', async t => {
  const gateway = await startGateway(t)
  const { paths } = (await gateway.send('GET', '/api/openapi.json')).json() as {
    paths: Record<string, Record<string, { operationId?: string; tags?: string[] }>>
  }
  const listed = Object.values(paths).flatMap(item =>
    Object.values(item).flatMap(({ operationId, tags = [] }) =>
      operationId === undefined || tags.includes('Paid') ? [] : [operationId]
    )
  )
  t.same(listed.sort(), gateway.operations.map(({ id }) => id).sort())
  t.ok(listed.length > 110, `${listed.length} operations`)
})

t.test('Limits | Policy | Limit | Window', async t => {
  const {
    config: { policies }
  } = await loadWithPlugins(`${rootFolder}/gateway.yaml`, {})
  const rows: ReadonlyArray<readonly [string, number, number, number | undefined]> = [
    ['global', 100, 60_000, undefined],
    ['read', 200, 60_000, undefined],
    ['payment-create', 10, 60_000, undefined],
    ['write', 20, 60_000, undefined],
    ['checkout-create', 5, 60_000, undefined],
    ['admin', 30, 60_000, undefined],
    ['webhook', 100, 60_000, 4],
    ['l402-proxy', 100, 60_000, undefined],
    ['magic-link', 3, 900_000, undefined]
  ]
  for (const [name, limit, window, sliding] of rows)
    t.match(policies[name], { limit, window, ...(sliding === undefined ? {} : { sliding }) }, name)
  for (const [name, , , sliding] of rows)
    if (sliding === undefined) t.equal(policies[name]?.sliding, undefined, `${name} is a fixed window`)
})
