import { hash, randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { SqlAdminStore } from '../../src/web/admin/store.ts'
import { readChallengeLine } from '../../src/app/commands/mint.ts'
import { Merchants } from '../../src/accounts/merchants/service.ts'
import { MerchantStore } from '../../src/accounts/merchants/store.ts'
import {
  type Access,
  type AnyOperation,
  isRoleEnough,
  neededRole,
  ROLES,
  type Role
} from '../../src/engine/operations/operation.ts'
import { systemClock } from '../../src/platform/system/clock.ts'
import type { Database } from '../../src/platform/database/database.ts'
import { KeyRing, Sealer, Secret } from '../../src/platform/keys/secrets.ts'
import { flaky } from '../faults/flaky-database.ts'
import { openAnyDatabase } from '../support/database.ts'
import { credentialOf, defaultYaml, startGateway, type Answer, type TestGateway } from '../support/gateway.ts'

/**
 * Who asks; in this order, so that what the right one changes is changed last. `owner` is the merchant whose things are
 * asked for.
 */
const CALLERS = ['none', 'wrong', 'inactive', 'other', 'owner', 'admin'] as const
type Caller = (typeof CALLERS)[number]
type Verdicts = Readonly<Record<Caller, number>>

/** A merchant's operation: another merchant is answered `other`; the admin key is nothing here (decision 29). */
const merchant = (right: number, other: number = right) => ({
  none: 401,
  wrong: 401,
  inactive: 401,
  other,
  admin: 401,
  owner: right
})
/** The admin's: no merchant's key is anything here. */
const admin = (right: number) => ({
  none: 401,
  wrong: 401,
  inactive: 401,
  other: 401,
  owner: 401,
  admin: right
})
/** No key is read. */
const anyone = (status: number) => ({
  none: status,
  wrong: status,
  inactive: status,
  other: status,
  owner: status,
  admin: status
})
/** Remote clients: the admin; a merchant's key is looked at, since a test account's may. */
const sandboxPayer = (right: number) => ({ ...merchant(403, 403), none: 403, admin: right })
/** A key may be left out, but one that is sent must be the admin's. */
const adminOrNone = (right: number, none: number) => ({
  none,
  wrong: 401,
  inactive: 401,
  other: 401,
  owner: 401,
  admin: right
})

/**
 * Whom each class of operations refuses with 401, whatever else it asks for; a verdict that lets one of them in is a
 * hole.
 */
const REFUSED: Readonly<Record<Access, readonly Caller[]>> = {
  merchant: ['none', 'wrong', 'inactive', 'admin'],
  admin: ['none', 'wrong', 'inactive', 'other', 'owner'],
  public: [],
  credential: []
}

interface Account {
  readonly id: number
  readonly apiKey: string
  readonly email: string
}

interface Setting {
  readonly gateway: TestGateway
  readonly owner: Account
  readonly other: Account
  /** Asks as the owner, from an address that no failure is counted for. */
  asOwner(method: string, path: string, body?: object): Promise<Record<string, unknown>>
  payment(paid?: boolean): Promise<Readonly<Record<'invoiceId' | 'orderId' | 'payUrl', string>>>
  proxy(): Promise<string>
  challenge(): Promise<Readonly<Record<'invoice' | 'macaroon' | 'paymentHash' | 'resource' | 'mppChallenge', string>>>
  refund(): Promise<Readonly<Record<'invoiceId' | 'refundId', string>>>
  pending(): Promise<number>
  /** Id of a further API key of the owner's. */
  key(): Promise<string>
  /** Slug of the owner's new store. */
  store(): Promise<string>
  /** Id of a new order in a new store of the owner's. */
  storeOrder(): Promise<string>
  /** Id of a person who is invited to the owner's account. */
  member(): Promise<number>
  /** Id of a webhook that was written for the owner. */
  delivery(): Promise<string>
  /** Id of a further webhook endpoint of the owner's. */
  endpoint(): Promise<string>
}

/** What is asked for. */
interface PageRequest extends Pick<Asked, 'body' | 'cookie' | 'mine'> {
  readonly path: string
  /** What the browser says of where the request was made. */
  readonly site?: string
}

/**
 * What is sent to an operation, and the verdict on it, where its declaration does not tell. Left out are its parameters
 * (`PARAMETERS`), and the verdict on an operation for merchants or the admin: its first response for whom it is for, 404
 * for another merchant where the path names what is the owner's, 401 for all others. What is public needs a row with
 * its verdict, so that nothing is public by mistake.
 */
interface Row extends Asked {
  readonly verdicts?: Verdicts
  /** What another merchant is answered. */
  readonly other?: number
  /** Where the key is, when not in X-API-Key. */
  readonly header?: 'x-admin-key'
  /** What a 401 says where no key is asked for. */
  readonly refusal?: string
  ask?(setting: Setting): Asked | Promise<Asked>
}

interface Asked {
  readonly params?: Readonly<Record<string, string>>
  /** With its question mark. */
  readonly query?: string
  readonly body?: object
  /** Who is signed in, where that counts. */
  readonly cookie?: string
  /** Appears in responses to the owner and the admin, and in no other; `:name` is a parameter. */
  readonly mine?: string
}

const open200: Row = { verdicts: anyone(200) }
const open404: Row = { verdicts: anyone(404) }
const sold: Row = { verdicts: anyone(402) }
const unauthorized: Row = { verdicts: anyone(401), refusal: 'Unauthorized' }
const notSignedIn: Row = { verdicts: anyone(401), refusal: 'Not signed in' }
/** What a browser is sent on to. */
const redirect: Row = { verdicts: anyone(303) }
/** What is sent is no form. */
/** Whom the file names as an operator. */
const OPERATOR = 'operator@example.com'
const address = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'
const unique = () => randomBytes(6).toString('hex')
const preimageOf = ({ gateway }: Setting, invoice: string) => gateway.pay(invoice)
const anOrder = () => ({ body: { orderId: `order-${unique()}`, amount: '0.0001', currency: 'BTC' } })
const aCheckout = () => ({ body: { plan: 'individual', email: `${unique()}@example.com` } })
const ofDelivery = async (f: Setting) => ({ params: { id: await f.delivery() } })
const ofPending = async (f: Setting) => ({ params: { id: String(await f.pending()) } })
/** A key may be left out; one that is sent must be a merchant's. */
const merchantOrNone = (right: number): Verdicts => ({ ...anyone(right), wrong: 401, inactive: 401, admin: 401 })

const PARAMETERS: Readonly<Record<string, (setting: Setting) => string | Promise<string>>> = {
  balanceId: () => '0'.repeat(64),
  endpointId: f => f.endpoint(),
  invoiceId: async f => (await f.payment()).invoiceId,
  keyId: f => f.key(),
  linkId: linkOf,
  memberId: async f => String(await f.member()),
  merchantId: f => String(f.owner.id),
  orderId: async f => (await f.payment()).orderId,
  passkeyId: () => 'a',
  payToken: async f => (await f.payment(true)).payUrl.replace(/^.*\//, ''),
  paymentHash: async f => (await f.challenge()).paymentHash,
  proxyId: f => f.proxy(),
  refundId: async f => (await f.refund()).refundId,
  session: async f => (await checkoutPage(f)).replace(/^.*\//, ''),
  sessionId: () => '0'.repeat(64),
  slug: f => f.store(),
  token: () => 'A'.repeat(43)
}

const rows: Readonly<Record<string, Row>> = {
  getHealth: open200,
  getReady: { verdicts: adminOrNone(200, 200) },
  getMetrics: { verdicts: adminOrNone(200, 403) },
  getOpenApi: open200,
  getOpenApiPart: { ...open200, params: { part: 'index.json' } },
  getWholeOpenApi: open200,
  getL402Manifest: open200,
  getL402Services: open200,
  get402IndexProof: open404,
  getSatringProof: open404,
  getLlmsText: open200,
  getIcon: open200,
  getRobots: open200,
  getPricing: open200,
  getTokenStatus: open200,
  getBalance: unauthorized,
  buyKey: { ...open404, body: {} },
  getKeyPage: open404,
  getKey: unauthorized,
  topUpKey: { ...unauthorized, body: { amount: 1 } },
  getPing: sold,
  getDemoQuote: sold,
  getDemoCharge: sold,
  postDemoEcho: { ...sold, body: {} },
  setSandboxState: {
    verdicts: sandboxPayer(200),
    mine: 'paymentHash',
    ask: async f => ({ body: { invoice: (await f.challenge()).invoice, state: 'processing' } })
  },
  paySandboxInvoice: {
    verdicts: sandboxPayer(200),
    mine: 'preimage',
    ask: async f => ({ body: { invoice: (await f.challenge()).invoice } })
  },

  createChallenge: { body: { resource: 'a', priceSats: 1 } },
  listChallenges: { ask: async f => ({ mine: (await f.challenge()).paymentHash }) },
  getChallenge: { mine: ':paymentHash' },
  listEndpoints: { ask: async f => ({ mine: (await f.challenge()).resource }) },
  retireEndpoint: { other: 404, ask: async f => ({ body: { resource: (await f.challenge()).resource } }) },
  verifyToken: {
    mine: '"valid":true',
    ask: async f => {
      const { macaroon, invoice } = await f.challenge()
      return { body: { macaroon, preimage: await preimageOf(f, invoice) } }
    }
  },
  verifyCredential: {
    mine: '"valid":true',
    ask: async f => {
      const { mppChallenge, invoice } = await f.challenge()
      const challenge = readChallengeLine(mppChallenge)
      if (challenge === null) throw new Error('the challenge has no Payment line')
      return { body: { credential: credentialOf(challenge, await preimageOf(f, invoice)) } }
    }
  },
  revokeProxyTokens: { mine: 'issuedUntil' },

  createProxy: { body: { name: 'a', targetBaseUrl: 'https://api.example.com', defaultPriceSats: 1 } },
  listProxies: { ask: async f => ({ mine: await f.proxy() }) },
  getProxy: { mine: ':proxyId' },
  updateProxy: { body: { name: 'b' } },
  testProxy: { mine: 'statusCode' },

  getMerchant: { ask: f => ({ mine: f.owner.email }) },
  getQuickstart: { ask: f => ({ mine: `"merchantId":${f.owner.id},` }) },
  setPrimaryKey: { body: { primaryApiKey: 'sandbox-next-key' } },
  setAlternateKey: { body: { alternateApiKey: 'sandbox-next-key' } },
  setPaymentProvider: { body: { provider: 'alternate' } },
  getHome: open200,
  setNotices: { body: { off: ['member'] } },
  setReceiptNote: { body: { note: 'VAT GB1' } },
  setEmail: { verdicts: merchant(409), body: { email: 'not-joined@example.com' } },
  setName: { body: { name: 'Corner Coffee' } },
  setColour: { body: { colour: '#c2410c' } },
  setWebhook: { body: { webhookUrl: 'https://example.com/hook' } },
  createTestAccount: { verdicts: merchant(201), ask: f => ({ mine: `"merchantId":-${f.owner.id},` }) },
  regenerateKey: { ask: f => ({ mine: `"merchantId":${f.owner.id},` }) },
  listApiKeys: { ask: async f => ({ mine: await f.key() }) },
  createApiKey: { body: { name: 'a' } },
  rotateApiKey: { body: {} },

  createPayment: { ask: anOrder },
  listPayments: { ask: async f => ({ mine: (await f.payment()).invoiceId }) },
  getPayment: { mine: ':invoiceId' },
  getPaymentByOrder: { mine: ':orderId' },
  getPaymentStatus: open200,
  cancelPayment: { mine: ':invoiceId' },
  syncPayment: { mine: ':invoiceId' },

  createRefund: {
    other: 400,
    mine: 'refundId',
    ask: async f => ({
      body: { invoiceId: (await f.payment(true)).invoiceId, refundAddress: address, amountSatoshis: 1 }
    })
  },
  listRefunds: { ask: async f => ({ mine: (await f.refund()).refundId }) },
  listRefundsOfInvoice: {
    ask: async f => {
      const { invoiceId, refundId } = await f.refund()
      return { params: { invoiceId }, mine: refundId }
    }
  },
  getRefund: { mine: ':refundId' },
  syncRefund: { mine: ':refundId' },

  listWebhookDeliveries: { ask: async f => ({ mine: await f.delivery() }) },
  getWebhookDelivery: { mine: ':id', ask: ofDelivery },
  resendWebhookDelivery: { ask: ofDelivery },
  testWebhook: { other: 400, mine: 'http://localhost:9000/', ask: ofDelivery },
  listWebhookEndpoints: { ask: async f => ({ mine: await f.endpoint() }) },
  createWebhookEndpoint: { body: { url: 'http://localhost:9000', events: ['payment.paid'] } },
  changeWebhookEndpoint: { body: { isActive: false } },
  rotateWebhookSecret: { mine: 'webhookSecret' },
  testWebhookEndpoint: { mine: 'isDelivered' },
  // The sandbox sends no notifications; what real kinds send is judged by its signature.
  receivePrimaryNotification: { verdicts: anyone(400), body: {} },
  receiveAlternateNotification: { verdicts: anyone(400), body: {} },
  getJobsDashboard: { header: 'x-admin-key' },
  retryJob: {
    verdicts: admin(404),
    header: 'x-admin-key',
    params: { queue: 'webhooks', id: '00000000-0000-4000-8000-000000000000' }
  },

  createPaymentLink: { body: { currency: 'USD' } },
  getPaymentLinkPage: open200,
  payPaymentLink: { verdicts: anyone(422) },
  // The token of the address is the authorisation.
  getPayPage: open200,
  followPayment: open200,
  getPayStatus: open200,
  payOnPayPage: { verdicts: anyone(403) },
  getPageStyle: { ...open200, ask: f => assetOf(f, 'css') },
  getPageScript: { ...open200, ask: f => assetOf(f, 'js') },

  getBillingPricing: open200,
  createBillingCheckout: { verdicts: merchantOrNone(200), ask: aCheckout },
  // The accounts pay by no card.
  createCustomerPortal: { verdicts: merchant(400), body: { returnUrl: 'https://example.com' } },
  // An unsigned request is refused, whatever its credentials.
  receiveBillingNotification: { ...unauthorized, body: {} },
  getBitcoinPricing: open200,
  createBitcoinSubscription: { verdicts: merchantOrNone(201), ask: aCheckout },
  createCheckoutSession: { ask: anOrder },
  // Signing in goes by links and cookies; an API key opens nothing here.
  requestMagicLink: { verdicts: anyone(202), ask: f => ({ body: { email: f.owner.email } }) },
  getSession: notSignedIn,
  listSessions: notSignedIn,
  endSession: notSignedIn,
  goToAccount: { ...notSignedIn, body: { merchantId: 1 } },
  // Not requested by a browser: keys make no difference here.
  beginPasskeySignIn: { verdicts: anyone(409) },
  signInWithPasskey: {
    ...notSignedIn,
    body: {
      id: 'AAAA',
      rawId: 'AAAA',
      type: 'public-key',
      response: { clientDataJSON: 'AAAA', authenticatorData: 'AAAA', signature: 'AAAA', userHandle: 'AAAA' }
    }
  },
  listPasskeys: notSignedIn,
  beginPasskey: notSignedIn,
  addPasskey: {
    ...notSignedIn,
    body: {
      name: 'Phone',
      credential: {
        id: 'AAAA',
        rawId: 'AAAA',
        type: 'public-key',
        response: { clientDataJSON: 'AAAA', attestationObject: 'AAAA' }
      }
    }
  },
  removePasskey: notSignedIn,
  takeFirstKey: {
    other: 409,
    ask: async f => {
      await f.gateway.database
        .sql`insert into first_keys (merchant_id, key_id) select id, key_id from merchants where id = ${f.owner.id}`
      return { mine: `"merchantId":${f.owner.id},` }
    }
  },
  listMembers: { ask: f => ({ mine: f.owner.email }) },
  inviteMember: { ask: () => ({ body: { email: `member-${unique()}@example.com`, role: 'editor' } }) },
  changeMember: { body: { role: 'viewer' } },
  getSignInPage: open200,
  getSignUpPage: open404,
  submitSignUpPage: open404,
  signInWithKey: { verdicts: anyone(401) },
  submitSignInPage: { verdicts: anyone(400) },
  getSignInLink: open404,
  useSignInLink: open404,
  getAccountPage: { ...open200, ask: async f => ({ cookie: await signedIn(f) }) },
  setTestMode: redirect,
  submitAccountPage: redirect,
  signOut: redirect,
  getCheckoutDonePage: open200,
  getCheckoutCanceledPage: open200,
  getSandboxBillingPage: open200,
  completeSandboxCheckout: redirect,
  cancelSandboxSubscription: open404,
  failSandboxCard: open404,
  recoverSandboxCard: open404,

  // Payment and claim token are the authorisation; no key is.
  getStoreCatalog: open200,
  getStoreManifest: open200,
  // Without the buyer's place.
  checkOut: { verdicts: anyone(400), body: { items: [{ variantId: 10101, quantity: 1 }] } },
  claimOrder: {
    ...open404,
    body: {
      claimToken: 'A'.repeat(43),
      email: 'a@example.com',
      shippingAddress: { firstName: 'A', lastName: 'B', address1: 'C', city: 'D', country: 'US' }
    }
  },
  askForRefund: { ...open404, body: { claimToken: 'A'.repeat(43), refundAddress: address } },
  getStoreOrder: {
    ...open404,
    params: { orderId: '01a1ff70-dd2e-711d-b419-983214ef9bd0' },
    query: `?claimToken=${'A'.repeat(43)}`
  },
  // An unsigned request is refused, whatever its credentials.
  receiveStoreNotification: { ...unauthorized, body: {} },
  getShopPage: open200,
  buyOnShopPage: { verdicts: anyone(400), body: {} },
  // The token of the address is the authorisation.
  getClaimPage: { ...open404, query: `?claimToken=${'A'.repeat(43)}` },
  claimOnPage: { verdicts: anyone(404), body: {}, query: `?claimToken=${'A'.repeat(43)}` },
  askForRefundOnPage: { verdicts: anyone(404), body: {}, query: `?claimToken=${'A'.repeat(43)}` },
  getStorefront: { other: 404, ask: async f => ({ mine: await f.store() }) },
  createStorefront: {
    other: 409,
    ask: async f => {
      // The other has one already.
      const body = { slug: `shop-${unique()}`, storefrontDomain: 'books.example.com' }
      await f.gateway.send('POST', '/api/merchant/storefront', {
        headers: { 'x-api-key': f.other.apiKey },
        body: { ...body, slug: `shop-${unique()}` }
      })
      return { body, mine: body.slug }
    }
  },
  updateStorefront: { other: 404, body: { domesticOnly: true }, ask: async f => ({ mine: await f.store() }) },
  invalidateStorefrontCache: { other: 404, ask: async f => ({ mine: await f.store() }) },
  refreshStorefrontShopInfo: { other: 404, ask: async f => ({ mine: await f.store() }) },
  getStorefrontStats: { ask: async f => ({ mine: await f.store() }) },
  listStorefrontOrders: { ask: async f => ({ mine: await f.storeOrder() }) },
  // The order is unclaimed.
  adminRetryStorefrontOrder: {
    verdicts: admin(400),
    ask: async f => ({ params: { orderId: await f.storeOrder() } })
  },

  adminGetRefund: { mine: ':refundId' },
  adminSettleRefund: {
    body: { outcome: 'sent', providerRefundId: 'x', settledBy: 'Ada', reason: 'the dashboard shows it' }
  },

  // The owner's proxy has sold nothing; test/selling/sales shows whose is whose.
  listRequests: { query: '?proxyId=other-000001' },
  adminListPayments: {
    ask: async f => ({ query: `?merchantId=${f.owner.id}`, mine: (await f.payment()).invoiceId })
  },
  listBalanceEntries: { verdicts: merchant(404) },
  adminGetSession: { verdicts: admin(404) },
  adminCloseSession: { verdicts: admin(404) },
  adminRefundSession: { verdicts: admin(404), body: {} },
  adminSettleSessionRefund: {
    verdicts: admin(404),
    body: { outcome: 'sent', settledBy: 'Ada', reason: 'seen' }
  },
  adminRetryJob: {
    verdicts: admin(404),
    params: { queue: 'webhooks', id: '0199f1d3-0b1e-7c22-8f10-2d3c4b5a6978' }
  },
  adminListMerchants: { ask: f => ({ mine: f.owner.email }) },
  adminCreateMerchant: { mine: 'apiKey', ask: () => ({ body: { name: 'a', email: `${unique()}@example.com` } }) },
  adminGetMerchant: { ask: f => ({ mine: f.owner.email }) },
  adminUpdateMerchant: { body: { name: 'b' }, ask: f => ({ mine: f.owner.email }) },
  adminRegenerateKey: { mine: 'apiKey' },
  adminRevokeProxyTokens: { mine: 'issuedUntil' },
  adminRevokeMerchantTokens: { mine: 'issuedUntil' },
  adminListPendingSubscriptions: { ask: async f => ({ mine: `"id":${await f.pending()},` }) },
  adminGetPendingSubscription: { mine: 'billingSubscriptionId', ask: ofPending },
  adminApprovePendingSubscription: { mine: 'apiKey', ask: ofPending },
  adminRejectPendingSubscription: { ask: ofPending }
}

/** Undefined for what is public without a row. */
function verdictsOf({ id, access, path, responses }: AnyOperation): Verdicts | undefined {
  const { verdicts, other } = rows[id] ?? {}
  const right = Number(Object.keys(responses)[0])
  if (verdicts !== undefined || access === 'public' || access === 'credential') return verdicts
  return access === 'admin' ? admin(right) : merchant(right, other ?? (path.includes(':') ? 404 : right))
}

async function requestOf({ id, path }: AnyOperation, f: Setting): Promise<PageRequest> {
  const row = rows[id] ?? {}
  const { params = {}, query = '', mine, ...rest }: Asked = { ...row, ...(await row.ask?.(f)) }
  const values = new Map<string, string>()
  for (const [, name = ''] of path.matchAll(/:(\w+)/g))
    values.set(name, params[name] ?? (await PARAMETERS[name]?.(f)) ?? `no ${name}`)
  const filled = (text: string) => text.replaceAll(/:([a-z]\w*)/gi, (whole, name) => values.get(name) ?? whole)
  return { ...rest, path: filled(path) + query, ...(mine === undefined ? {} : { mine: filled(mine) }) }
}

/** The cookie of a member who is signed in to the owner's account. */
async function signedIn({ gateway, owner }: Setting) {
  return await signedInAs(gateway, owner.id, 'owner', owner.email)
}

/** The cookie of a member with a role in an account; of none for an operator. */
async function signedInAs(
  gateway: TestGateway,
  merchantId: number | null,
  role: Role,
  email = `${role}-${unique()}@example.com`
) {
  const token = randomBytes(32).toString('base64url')
  const { sql } = gateway.database
  await sql`insert into people (email, created_at) values (${email}, now()) on conflict (email) do nothing`
  if (merchantId !== null)
    await sql`
      insert into members (merchant_id, person_id, role, created_at) select ${merchantId}, id, ${role}, now() from people where email = ${email}
      on conflict (merchant_id, person_id) do nothing`
  await sql`
    insert into sign_in_sessions (id, digest, person_id, merchant_id, browser, created_at, seen_at, expires_at)
    select ${unique()}, ${hash('sha256', token, 'buffer')}, id, ${merchantId}, '', now(), now(), ${new Date(Date.now() + 3_600_000)}
    from people where email = ${email}`
  return `boltgate-session=${token}`
}

/** The page of a new checkout of the sandbox, without an account. */
async function checkoutPage({ gateway }: Setting) {
  const answer = await gateway.send('POST', '/api/billing/create-checkout-session', {
    body: { plan: 'individual', email: `${unique()}@example.com` }
  })
  return new URL((answer.json() as { checkoutUrl: string }).checkoutUrl).pathname
}

async function linkOf({ gateway, owner }: Setting) {
  const created = await gateway.send('POST', '/api/merchant/payment-links', {
    headers: { 'x-api-key': owner.apiKey },
    body: { currency: 'USD' }
  })
  // By the operation's own schema.
  return (created.json() as { linkId: string }).linkId
}

/** The name of what the pay page loads. */
async function assetOf(f: Setting, ending: string): Promise<Asked> {
  const page = await f.gateway.send('GET', (await f.payment()).payUrl)
  const [, name] = new RegExp(`/assets/([^"]+)\\.${ending}`).exec(page.text) ?? []
  if (name === undefined) throw new Error(`the page loads no ${ending}`)
  return { params: { name } }
}

/** Asks from an address of its own each time: failures are counted by address (contract, Authentication 6). */
type Ask = (method: string, request: PageRequest, key: string | null, header?: string) => Promise<Answer>

interface Opened {
  readonly gateway: TestGateway
  readonly operations: readonly AnyOperation[]
  readonly ask: Ask
  account(name: string): Promise<Account>
}

async function open(t: Test, database?: Database): Promise<Opened> {
  const master = randomBytes(32).toString('hex')
  const gateway = await startGateway(t, {
    env: { BOLTGATE_SECRET: master },
    yaml: defaultYaml({
      replace: [
        ['server:', `operators: ${OPERATOR}\nserver:`],
        ['  publicUrl:', '  trustedProxies: [ 127.0.0.1 ]\n  publicUrl:']
      ]
    }),
    ...(database === undefined ? {} : { database })
  })
  const merchants = new Merchants({
    store: new MerchantStore(gateway.database),
    sealer: new Sealer(new KeyRing(new Secret(master), [])),
    clock: systemClock,
    plans: () => {
      throw new Error('plans are not asked for')
    }
  })
  let from = 0
  return {
    gateway,
    // Pages of the consoles take no keys, but sessions alone (test/web/console/access.test.ts).
    operations: gateway.operations.filter(({ path }) => !/^\/(console|operator)(\/|$)/.test(path)),
    account: async name => {
      const email = `${name}-${unique()}@example.com`
      const {
        merchant: { id },
        apiKey
      } = await merchants.create({
        name,
        email,
        tier: 'individual',
        flags: { l402Enabled: true, refundsEnabled: true },
        primaryApiKey: new Secret('sandbox-account-key')
      })
      return { id, email, apiKey: apiKey.reveal() }
    },
    ask: (method, { path, body, cookie, site }, key, header = 'x-api-key') => {
      from++
      return gateway.send(method, path, {
        headers: {
          'x-forwarded-for': `10.0.${from >> 8}.${from & 255}`,
          ...(key === null ? {} : { [header]: key }),
          ...(cookie === undefined ? {} : { cookie }),
          ...(site === undefined ? {} : { 'sec-fetch-site': site })
        },
        ...(body === undefined ? {} : { body })
      })
    }
  }
}

t.test(
  "the authorisation matrix: every operation × no key, wrong key, an inactive merchant's, another merchant's, the admin's and the right key",
  async t => {
    const { gateway, operations, ask, account } = await open(t)
    t.same(
      operations.filter(operation => verdictsOf(operation) === undefined).map(({ id }) => id),
      [],
      'every operation that is public has a verdict'
    )
    t.same(
      Object.keys(rows).filter(id => !operations.some(operation => operation.id === id)),
      [],
      'every row is on an operation'
    )

    for (const operation of operations) {
      const { id, method, access } = operation
      const known = rows[id] ?? {}
      const verdicts = verdictsOf(operation)
      if (verdicts === undefined) continue
      await t.test(id, async t => {
        for (const caller of REFUSED[access])
          t.equal(verdicts[caller], 401, `${caller} is refused by every operation for ${access}`)
        const [owner, other, inactive] = (await Promise.all(['owner', 'other', 'inactive'].map(account))) as [
          Account,
          Account,
          Account
        ] /* one for each name */
        await gateway.database.sql`update merchants set is_active = false where id = ${inactive.id}`
        const request = await requestOf(operation, setting(gateway, owner, other, ask))
        const keys: Readonly<Record<Caller, string | null>> = {
          none: null,
          wrong: 'nonsense',
          inactive: inactive.apiKey,
          other: other.apiKey,
          admin: gateway.adminKey,
          owner: owner.apiKey
        }
        const order =
          verdicts.admin < 400 ? CALLERS : [...CALLERS].sort((a, b) => Number(a === 'owner') - Number(b === 'owner'))
        const roles = await Promise.all(
          ROLES.map(async role => ({ role, cookie: await signedInAs(gateway, owner.id, role) }))
        )
        const operator = await signedInAs(gateway, null, 'owner', OPERATOR)
        const before = await stored(gateway, owner.id)
        await bySession({ t, ask, operation, verdicts, request, roles, operator })
        t.same(await stored(gateway, owner.id), before, 'sessions that may not do it change nothing')
        for (const caller of order) {
          const expected = verdicts[caller]
          const answer = await ask(method, request, keys[caller], known.header)
          t.equal(
            answer.status,
            expected,
            `${caller}: ${expected}${answer.status === expected ? '' : ` ${answer.text}`}`
          )
          if (answer.status === 401 && String(answer.headers['content-type']).startsWith('application/json'))
            t.match(
              answer.json(),
              { error: known.refusal ?? (caller === 'none' ? 'API key required' : 'Invalid API key'), message: String },
              `${caller}: says why`
            )
          const right = caller === 'admin' || (caller === 'owner' && verdicts.owner < 400)
          if (request.mine !== undefined)
            t.equal(
              answer.text.includes(request.mine),
              right && answer.status < 300,
              `${caller}: ${right ? 'is given' : 'is not given'} what is the owner's`
            )
          if (!right) t.same(await stored(gateway, owner.id), before, `${caller}: changes nothing of the owner's`)
        }
      })
    }
  }
)

t.test('a key that only reads is refused by every operation that changes anything, and by no other', async t => {
  const { gateway, operations, ask, account } = await open(t)
  for (const operation of operations) {
    const { id, method, access, role } = operation
    const verdicts = verdictsOf(operation)
    if (verdicts === undefined || (access !== 'merchant' && role === undefined)) continue
    const [owner, other] = (await Promise.all(['owner', 'other'].map(account))) as [Account, Account] /* one for each */
    const f = setting(gateway, owner, other, ask)
    const { apiKey } = await f.asOwner('POST', '/api/merchant/keys', { name: 'reader', isReadOnly: true })
    const request = await requestOf(operation, f)
    const before = await stored(gateway, owner.id)
    const answer = await ask(method, request, String(apiKey))
    if (method === 'GET') {
      t.equal(answer.status, verdicts.owner, `${id}: reads`)
      continue
    }
    t.equal(answer.status, 403, `${id}: ${answer.text}`)
    t.match(answer.json(), { error: 'Role required', role: 'viewer' }, `${id}: says why`)
    t.same(await stored(gateway, owner.id), before, `${id}: changes nothing`)
  }
})

/** Those that answer without the database, or handle its failure themselves. */
const WITHOUT_DATABASE = new Set(['getHealth', 'getReady'])
/**
 * An order id whose create has lost the database stays held for two minutes (decision 45): each of these asks for
 * another.
 */
const ASKED_ANEW = new Set(['createPayment', 'createCheckoutSession'])

t.test(
  'a database that is lost at any statement of any operation is 503 with Retry-After, and nothing is half done',
  async t => {
    const database = flaky(await openAnyDatabase(t, { migrations: [] }))
    const { gateway, operations, ask, account } = await open(t, database)
    for (const operation of operations) {
      const { id, method } = operation
      const verdicts = verdictsOf(operation)
      if (verdicts === undefined || WITHOUT_DATABASE.has(id)) continue
      await t.test(id, async t => {
        const [owner, other] = (await Promise.all(['owner', 'other'].map(account))) as [
          Account,
          Account
        ] /* one for each name */
        const f = setting(gateway, owner, other, ask)
        const request = await requestOf(operation, f)
        const caller =
          verdicts.owner < 400 || (verdicts.none >= 400 && verdicts.admin >= 400)
            ? 'owner'
            : verdicts.admin < 400
              ? 'admin'
              : 'none'
        const key = { owner: owner.apiKey, admin: gateway.adminKey, none: null }[caller]
        for (let statements = 0; ; statements++) {
          const refused = database.refused
          database.goesAfter = statements
          const answer = await ask(
            method,
            ASKED_ANEW.has(id) ? await requestOf(operation, f) : request,
            key,
            rows[id]?.header
          ).finally(() => {
            database.goesAfter = Number.POSITIVE_INFINITY
            database.away = false
          })
          // Some go on without what they lost, such as a refund whose money is on its way.
          if (database.refused === refused || answer.status === verdicts[caller]) {
            t.equal(answer.status, verdicts[caller], `with its database: ${answer.text.slice(0, 300)}`)
            break
          }
          t.equal(answer.status, 503, `lost after ${statements} statements: ${answer.text.slice(0, 300)}`)
          t.match(answer.headers['retry-after'], /^[1-9]\d*$/, `lost after ${statements} statements: Retry-After`)
          if (answer.status !== 503) break
        }
      })
    }
  }
)

interface SessionRow {
  readonly t: Test
  readonly ask: Ask
  readonly operation: AnyOperation
  readonly verdicts: Verdicts
  readonly request: PageRequest
  readonly roles: ReadonlyArray<{ readonly role: Role; readonly cookie: string }>
  readonly operator: string
}

/** Every role against an operation, and every way to ride a session; what changes something is not done. */
async function bySession({ t, ask, operation, verdicts, request, roles, operator }: SessionRow) {
  const { access, id, method } = operation
  if ((access !== 'merchant' && access !== 'admin') || rows[id]?.header !== undefined) return
  const send = (cookie: string, site: string) => ask(method, { ...request, cookie, site }, null)
  for (const { role, cookie } of roles) {
    if (access === 'admin')
      t.equal((await send(cookie, 'same-origin')).status, 401, `a member as ${role} is no operator`)
    else if (!isRoleEnough(role, neededRole(operation)))
      t.match(await send(cookie, 'same-origin').then(answer => [answer.status, answer.json()]), [
        403,
        { error: 'Role required', role, required_role: neededRole(operation) }
      ])
    else if (method === 'GET')
      t.equal((await send(cookie, 'same-origin')).status, verdicts.owner, `${role} may read it`)
  }
  const right = access === 'admin' ? operator : (roles.at(-1)?.cookie ?? '')
  if (access === 'merchant') t.equal((await send(operator, 'same-origin')).status, 401, 'an operator is no member')
  else if (method === 'GET')
    t.equal((await send(operator, 'same-origin')).status, verdicts.admin, 'an operator may read it')
  for (const site of ['cross-site', 'same-site'])
    t.equal((await send(right, site)).status, 403, `a request of another site (${site}) does not ride a session`)
  if (method !== 'GET')
    t.equal(
      (await ask(method, { ...request, cookie: right }, null)).status,
      403,
      'nor does one that says not where from'
    )
  t.equal(
    (await send(`boltgate-session=${'A'.repeat(43)}`, 'same-origin')).status,
    401,
    'a token that was never given out opens nothing'
  )
}

/** Everything that belongs to a merchant, as it is stored. */
async function stored(gateway: TestGateway, merchantId: number) {
  const { sql } = gateway.database
  const of = async (table: string, column: string) =>
    [
      ...(await sql<
        { row: unknown }[]
      >`select to_jsonb(entry) as row from ${sql(table)} entry where ${sql(column)} = ${merchantId} order by to_jsonb(entry)::text`)
    ].map(({ row }) => row)
  const tables = [
    'payments',
    'refunds',
    'proxies',
    'challenges',
    'producer_endpoints',
    'api_keys',
    'webhook_endpoints',
    'storefronts',
    'storefront_orders',
    'bitcoin_subscriptions',
    'members'
  ]
  return Promise.all([of('merchants', 'id'), ...tables.map(table => of(table, 'merchant_id'))])
}

function setting(
  gateway: TestGateway,
  owner: Account,
  other: Account,
  ask: (method: string, request: PageRequest, key: string) => Promise<Answer>
): Setting {
  const asOwner: Setting['asOwner'] = async (method, path, body) => {
    const answer = await ask(method, body === undefined ? { path } : { path, body }, owner.apiKey)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.json() as Record<string, unknown>
  }
  const payment: Setting['payment'] = async (paid = false) => {
    const made = (await asOwner('POST', '/api/payments', {
      orderId: `order-${unique()}`,
      amount: '0.0001',
      currency: 'BTC'
    })) as Record<'invoiceId' | 'orderId' | 'payUrl' | 'lightningInvoice', string>
    if (paid) await gateway.pay(made.lightningInvoice)
    return made
  }
  const store: Setting['store'] = async () => {
    const { slug } = await asOwner('POST', '/api/merchant/storefront', {
      slug: `shop-${unique()}`,
      storefrontDomain: 'books.example.com',
      adminApiToken: 'sandbox-token'
    })
    return String(slug)
  }
  return {
    gateway,
    owner,
    other,
    asOwner,
    payment,
    store,
    storeOrder: async () => {
      const answer = await gateway.send('POST', `/api/storefront/${await store()}/checkout`, {
        headers: { 'x-buyer-location': 'US-CA-94107' },
        body: { items: [{ variantId: 10101, quantity: 1 }] }
      })
      return (answer.json() as { orderId: string }).orderId
    },
    proxy: async () =>
      String(
        (await asOwner('POST', '/api/proxy', { name: 'a', targetBaseUrl: gateway.url, defaultPriceSats: 1 }))['proxyId']
      ),
    challenge: async () =>
      (await asOwner('POST', '/api/l402/challenges', { resource: `resource-${unique()}`, priceSats: 1 })) as Awaited<
        ReturnType<Setting['challenge']>
      >,
    member: async () => {
      const body = { email: `member-${unique()}@example.com`, role: 'editor' }
      return Number((await asOwner('POST', '/api/merchant/members', body))['memberId'])
    },
    delivery: async () => {
      await asOwner('PUT', '/api/merchant/webhook-url', { webhookUrl: 'http://localhost:9000' })
      await payment(true)
      const { deliveries } = (await asOwner('GET', '/api/merchant/webhooks/deliveries')) as {
        deliveries: [{ id: string }]
      }
      return deliveries[0].id
    },
    endpoint: async () =>
      String(
        (await asOwner('POST', '/api/merchant/webhooks/endpoints', { url: 'http://localhost:9000' }))['endpointId']
      ),
    refund: async () => {
      const { invoiceId } = await payment(true)
      return (await asOwner('POST', '/api/refunds', {
        invoiceId,
        refundAddress: address,
        amountSatoshis: 1
      })) as Awaited<ReturnType<Setting['refund']>>
    },
    key: async () => String((await asOwner('POST', '/api/merchant/keys', { name: 'another' }))['keyId']),
    pending: async () => {
      const subscription = {
        email: `buyer-${unique()}@example.com`,
        customerName: null,
        billingCustomerId: null,
        billingSubscriptionId: `sub_${unique()}`,
        planTier: 'individual',
        subscriptionStatus: 'active',
        currentPeriodEnd: null
      } as const
      return (await new SqlAdminStore(gateway.database).insert(subscription, Date.now())).id
    }
  }
}
