import t from 'tap'
import { loadWithPlugins } from '../../src/cli/configuration.ts'
import type { ChainEntryConfig, GatewayConfig } from '../../src/config/schema.ts'
import { Router } from '../../src/gateway/router.ts'
import { rootFolder, startGateway } from '../support/gateway.ts'

/** How gateway.yaml leads to an operation: whose key, the policy that counts it, the gate, whether a repetition is replayed. */
interface Way {
  readonly key: string
  readonly policy: string | null
  readonly gate: string | null
  readonly idempotent: boolean
}

const way = (key: string, policy: string | null, gate: string | null = null, idempotent = false): Way => ({ key, policy, gate, idempotent })
const open = (policy: string | null): Way => way('none', policy)
const settings = (policy: 'read' | 'write'): Way => way('merchant', policy)
const gated = (policy: string, feature = 'account'): Way => way('merchant', policy, feature)
const admin = way('admin', 'admin')

/**
 * Limits, "Applies to", closed by decisions 30 and 31; gates by decision 36, idempotency by the contract's Limits. An operation
 * that is mounted and not listed fails the test.
 */
const ways: Readonly<Record<string, Way>> = {
  getHealth: open('global'), getOpenApi: open('global'), getLlmsText: open('global'), getIcon: open('global'), getRobots: open('global'),
  getWholeOpenApi: open('global'), getL402Manifest: open('global'),
  // Probes (decision 22); without a key they pass, with one it must be the admin's.
  getReady: way('admin if any', null), getMetrics: way('admin if any', null),
  paySandboxInvoice: way('admin if any', 'global'), setSandboxState: way('admin if any', 'global'),
  getPricing: open('read'), getTokenStatus: open('read'),
  getPing: open('global'), getDemoQuote: open('global'), getDemoCharge: open('global'), postDemoEcho: open('global'),

  createChallenge: gated('global', 'l402'), listChallenges: gated('global', 'l402'), getChallenge: gated('global', 'l402'),
  listEndpoints: gated('global', 'l402'), retireEndpoint: gated('global', 'l402'),
  // They serve payers who have paid (decision 36).
  verifyToken: way('merchant', 'global'), verifyCredential: way('merchant', 'global'),

  // No plan is asked: a leaked token is to be stopped by whoever finds it.
  revokeToken: settings('write'), revokeTokens: settings('write'), revokeProxyTokens: settings('write'),
  adminRevokeToken: admin, adminRevokeProxyTokens: admin, adminRevokeMerchantTokens: admin,

  listProxies: gated('read', 'l402'), getProxy: gated('read', 'l402'),
  createProxy: gated('write', 'l402'), updateProxy: gated('write', 'l402'), deleteProxy: gated('write', 'l402'), testProxy: gated('write', 'l402'),

  createPayment: way('merchant', 'payment-create', 'account', true), createRefund: way('merchant', 'payment-create', 'refunds', true),
  getPayment: gated('read'), getPaymentByOrder: gated('read'), syncPayment: gated('global'), getPaymentStatus: open('read'),
  getRefund: gated('read'), listRefunds: gated('read'), listRefundsOfInvoice: gated('read'), syncRefund: gated('global'),
  getPayPage: open('global'), followPayment: open('global'), getPayStatus: open('global'), payOnPayPage: open('global'), getPageStyle: open('read'), getPageScript: open('read'),

  // Decision 168: its policy and idempotency stand with payments.
  createCheckoutSession: way('merchant', 'payment-create', 'account', true),
  getBitcoinPricing: open('read'), createBitcoinSubscription: way('merchant if any', 'checkout-create'),
  requestMagicLink: open('magic-link'), submitSignInPage: open('magic-link'), getSession: open('read'),
  getSignInPage: open('global'), getSignInLink: open('global'), useSignInLink: open('global'), getAccountPage: open('global'), signOut: open('global'),

  getMerchant: settings('read'), getLicense: settings('read'), getSubscription: settings('read'), getApiKeyInfo: settings('read'), getQuickstart: settings('read'),
  setPrimaryKey: settings('read'), setAlternateKey: settings('read'), setWebhook: settings('read'),
  setPaymentProvider: settings('write'), validatePrimaryKey: settings('write'), validateAlternateKey: settings('write'), regenerateKey: settings('write'),
  listWebhookDeliveries: settings('read'), resendWebhookDelivery: settings('write'),

  receivePrimaryNotification: open('webhook'), receiveAlternateNotification: open('webhook'),
  getJobsDashboard: way('dashboard', 'admin'), retryJob: way('dashboard', 'admin'),

  getBillingPricing: open('read'), createBillingCheckout: way('merchant if any', 'checkout-create'), createCustomerPortal: settings('write'),
  receiveBillingNotification: open('webhook'),
  getCheckoutDonePage: open('global'), getCheckoutCanceledPage: open('global'),
  getSandboxBillingPage: open('global'), completeSandboxCheckout: open('global'), cancelSandboxSubscription: open('global'),
  failSandboxCard: open('global'), recoverSandboxCard: open('global'),

  getStoreCatalog: open('global'), getStoreManifest: open('global'), checkOut: open('global'), claimOrder: open('global'), getStoreOrder: open('global'),
  receiveStoreNotification: open('webhook'),
  getShopPage: open('global'), getClaimPage: open('global'), claimOnPage: open('global'),
  askForRefund: open('global'), askForRefundOnPage: open('global'),
  // Decision 36 names them.
  getStorefront: gated('read'), getStorefrontStats: gated('read'), listStorefrontOrders: gated('read'),
  createStorefront: gated('write'), updateStorefront: gated('write'),
  invalidateStorefrontCache: gated('write'), refreshStorefrontShopInfo: gated('write'),
  adminRetryStorefrontOrder: admin, adminListTroubledOrders: admin,
  adminListRefunds: admin, adminGetRefund: admin, adminSettleRefund: admin,

  adminListAmbiguousLeases: admin,
  adminListMerchants: admin, adminCreateMerchant: admin, adminGetMerchant: admin, adminUpdateMerchant: admin, adminRegenerateKey: admin,
  adminDeactivateMerchant: admin, adminReactivateMerchant: admin, adminListPendingSubscriptions: admin, adminGetPendingSubscription: admin,
  adminApprovePendingSubscription: admin, adminRejectPendingSubscription: admin
}

/** Operations that need no X-API-Key and that browsers of other sites have nothing to do with all the same. */
const SAME_SITE = new Set([
  'getShopPage', 'getClaimPage', 'claimOnPage', 'askForRefundOnPage', 'receiveStoreNotification',
  'requestMagicLink', 'submitSignInPage', 'getSession', 'getSignInPage', 'getSignInLink', 'useSignInLink', 'getAccountPage', 'signOut', 'getPayStatus', 'payOnPayPage',
  'getPayPage', 'followPayment', 'getPageStyle', 'getPageScript', 'receivePrimaryNotification', 'receiveAlternateNotification', 'getJobsDashboard', 'retryJob',
  'receiveBillingNotification', 'getCheckoutDonePage', 'getCheckoutCanceledPage', 'getSandboxBillingPage', 'completeSandboxCheckout', 'cancelSandboxSubscription', 'failSandboxCard', 'recoverSandboxCard'])

type Settings = Readonly<Record<string, unknown>>

function settingsOf (chain: readonly ChainEntryConfig[], plugin: string): Settings | null {
  const entries = chain.filter(entry => entry.plugin === plugin)
  if (entries.length > 1) throw new Error(`${plugin} stands twice; "each request is counted by exactly one policy" (decision 30)`)
  // A loaded entry's settings are an object.
  return entries[0] === undefined ? null : entries[0].config as Settings
}

function wayOf (chain: readonly ChainEntryConfig[]): Way {
  const auth = settingsOf(chain, 'auth')
  const gate = settingsOf(chain, 'subscription-gate')
  const policy = settingsOf(chain, 'throttle')?.['policy']
  return {
    key: chain.some(entry => entry.plugin === 'dashboard-auth') ? 'dashboard' : auth === null ? 'none' : `${String(auth['as'])}${auth['optional'] === true ? ' if any' : ''}`,
    policy: typeof policy === 'string' ? policy : null,
    gate: gate === null ? null : String(gate['feature'] ?? 'account'),
    idempotent: settingsOf(chain, 'idempotency') !== null
  }
}

/** Decision 35: what refuses earlier stands earlier. Of the priced chains only that nobody pays for a 429. */
const KEYED = ['body-limit', 'auth', 'throttle', 'subscription-gate', 'idempotency']

function chainsByRequest ({ routes, chains }: GatewayConfig): (method: string, path: string) => readonly ChainEntryConfig[] {
  const router = new Router<readonly ChainEntryConfig[]>()
  for (const { match, chain } of routes) {
    for (const path of match.path) router.add({ host: null, methods: match.method ?? [], path }, (chains[chain] ?? []).filter(entry => !entry.disabled))
  }
  return (method, path) => {
    const found = router.find('', method, path)
    if (found === null) throw new Error(`no route takes ${method} ${path}`)
    return found.value
  }
}

t.test('Limits | Policy | Applies to: who counts, gates and replays which operation, as gateway.yaml comes', async t => {
  const gateway = await startGateway(t)
  const { config } = await loadWithPlugins(`${rootFolder}/gateway.yaml`, {})
  const chainOf = chainsByRequest(config)
  const { paths } = (await gateway.send('GET', '/api/openapi.json')).json() as { paths: Record<string, Record<string, { operationId?: string, tags?: string[] }>> }
  const seen = new Set<string>()
  for (const [template, item] of Object.entries(paths)) {
    for (const [method, { operationId, tags = [] }] of Object.entries(item)) {
      if (operationId === undefined || tags.includes('Paid')) continue
      seen.add(operationId)
      const chain = chainOf(method.toUpperCase(), template.replaceAll(/\{[^}]+\}/g, 'x'))
      t.same(wayOf(chain), ways[operationId] ?? null, `${operationId}: ${method.toUpperCase()} ${template}`)
      const names = chain.map(entry => entry.plugin)
      const auth = settingsOf(chain, 'auth')
      if (auth !== null && auth['optional'] !== true) {
        t.same(names.filter(name => KEYED.includes(name)), KEYED.filter(name => names.includes(name)), `${operationId} refuses in the order of decision 35`)
        if (method !== 'get') t.ok(names.includes('body-limit'), `${operationId} takes no endless body`)
      }
      if (names.includes('challenge')) t.ok(names.indexOf('throttle') < names.indexOf('challenge'), `${operationId} is counted before an invoice is made`)
      // A merchant's key may be left out: then it is a stranger's browser that asks.
      const isOpen = auth === null || (auth['as'] === 'merchant' && auth['optional'] === true)
      t.equal(names.includes('cors'), isOpen && !SAME_SITE.has(operationId), `${operationId}: browsers of other sites may call what needs no key, and nothing else`)
    }
  }
  t.same([...seen].sort(), Object.keys(ways).sort(), 'every operation that is mounted is listed, and no other')
})

t.test('Limits | Policy | Limit | Window', async t => {
  const { config: { policies } } = await loadWithPlugins(`${rootFolder}/gateway.yaml`, {})
  const rows: ReadonlyArray<readonly [string, number, number, number | undefined]> = [
    ['global', 100, 60_000, undefined], ['read', 200, 60_000, undefined], ['payment-create', 10, 60_000, undefined], ['write', 20, 60_000, undefined],
    ['checkout-create', 5, 60_000, undefined], ['admin', 30, 60_000, undefined], ['webhook', 100, 60_000, 4], ['l402-proxy', 100, 60_000, undefined],
    ['magic-link', 3, 900_000, undefined]
  ]
  for (const [name, limit, window, sliding] of rows) t.match(policies[name], { limit, window, ...(sliding === undefined ? {} : { sliding }) }, name)
  for (const [name, , , sliding] of rows) if (sliding === undefined) t.equal(policies[name]?.sliding, undefined, `${name} is a fixed window`)
})
