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
interface PageRequest {
  readonly path: string
  readonly body?: object
  /** Who is signed in, where that counts. */
  readonly cookie?: string
  /** What the browser says of where the request was made. */
  readonly site?: string
  /** Appears in responses to the owner and the admin, and in no other. */
  readonly mine?: string
}

interface Row {
  readonly verdicts: Verdicts
  /** Where the key is, when not in X-API-Key. */
  readonly header?: 'x-admin-key'
  /** What a 401 says where no key is asked for. */
  readonly refusal?: string
  ask(setting: Setting): PageRequest | Promise<PageRequest>
}

const plain = (verdicts: Verdicts, path: string, body?: object): Row => ({
  verdicts,
  ask: () => (body === undefined ? { path } : { path, body })
})
const row = (verdicts: Verdicts, ask: Row['ask']): Row => ({ verdicts, ask })
const dashboard = (verdicts: Verdicts, path: string): Row => ({ ...plain(verdicts, path), header: 'x-admin-key' })
/** Whom the file names as an operator. */
const OPERATOR = 'operator@example.com'
const address = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'
const unique = () => randomBytes(6).toString('hex')
const preimageOf = ({ gateway }: Setting, invoice: string) => gateway.pay(invoice)

/** What is sent to each operation, and the verdict on it: a new operation is not whole without its row. */
const rows: Readonly<Record<string, Row>> = {
  getHealth: plain(anyone(200), '/health'),
  getReady: plain(adminOrNone(200, 200), '/ready'),
  getMetrics: plain(adminOrNone(200, 403), '/metrics'),
  getOpenApi: plain(anyone(200), '/openapi.json'),
  getOpenApiPart: plain(anyone(200), '/api/openapi/index.json'),
  getWholeOpenApi: plain(anyone(200), '/api/openapi.json'),
  getL402Manifest: plain(anyone(200), '/.well-known/l402.json'),
  getL402Services: plain(anyone(200), '/.well-known/l402-services'),
  get402IndexProof: plain(anyone(404), '/.well-known/402index-verify.txt'),
  getSatringProof: plain(anyone(404), '/.well-known/satring-verify'),
  getLlmsText: plain(anyone(200), '/llms.txt'),
  getIcon: plain(anyone(200), '/favicon.ico'),
  getRobots: plain(anyone(200), '/robots.txt'),
  getPricing: plain(anyone(200), '/api/l402/pricing'),
  getTokenStatus: plain(anyone(200), '/api/l402/status'),
  getBalance: { ...plain(anyone(401), '/l402/balance'), refusal: 'Unauthorized' },
  buyKey: plain(anyone(404), '/l402/keys', {}),
  getKeyPage: plain(anyone(404), '/l402/keys'),
  getKey: { ...plain(anyone(401), '/l402/keys/self'), refusal: 'Unauthorized' },
  topUpKey: { ...plain(anyone(401), '/l402/keys/self/top-ups', { amount: 1 }), refusal: 'Unauthorized' },
  getPing: plain(anyone(402), '/l402/test/ping'),
  getDemoQuote: plain(anyone(402), '/demo/quote'),
  getDemoCharge: plain(anyone(402), '/demo/charge'),
  postDemoEcho: plain(anyone(402), '/demo/echo', {}),
  setSandboxState: row(sandboxPayer(200), async f => ({
    path: '/sandbox/state',
    body: { invoice: (await f.challenge()).invoice, state: 'processing' },
    mine: 'paymentHash'
  })),
  paySandboxInvoice: row(sandboxPayer(200), async f => ({
    path: '/sandbox/pay',
    body: { invoice: (await f.challenge()).invoice },
    mine: 'preimage'
  })),

  createChallenge: plain(merchant(200), '/api/l402/challenges', { resource: 'a', priceSats: 1 }),
  listChallenges: row(merchant(200), async f => ({
    path: '/api/l402/challenges',
    mine: (await f.challenge()).paymentHash
  })),
  getChallenge: row(merchant(200, 404), async f => {
    const { paymentHash } = await f.challenge()
    return { path: `/api/l402/challenges/${paymentHash}`, mine: paymentHash }
  }),
  listEndpoints: row(merchant(200), async f => ({ path: '/api/l402/endpoints', mine: (await f.challenge()).resource })),
  retireEndpoint: row(merchant(204, 404), async f => ({
    path: '/api/l402/endpoints/retire',
    body: { resource: (await f.challenge()).resource }
  })),
  verifyToken: row(merchant(200), async f => {
    const { macaroon, invoice } = await f.challenge()
    return {
      path: '/api/l402/challenges/verify',
      body: { macaroon, preimage: await preimageOf(f, invoice) },
      mine: '"valid":true'
    }
  }),
  verifyCredential: row(merchant(200), async f => {
    const { mppChallenge, invoice } = await f.challenge()
    const challenge = readChallengeLine(mppChallenge)
    if (challenge === null) throw new Error('the challenge has no Payment line')
    return {
      path: '/api/l402/challenges/verify-credential',
      body: { credential: credentialOf(challenge, await preimageOf(f, invoice)) },
      mine: '"valid":true'
    }
  }),

  revokeToken: row(merchant(204, 404), async f => ({
    path: `/api/merchant/tokens/${(await f.challenge()).paymentHash}`
  })),
  revokeTokens: plain(merchant(200), '/api/merchant/tokens'),
  revokeProxyTokens: row(merchant(200, 404), async f => ({
    path: `/api/proxy/${await f.proxy()}/tokens`,
    mine: 'issuedUntil'
  })),

  createProxy: plain(merchant(201), '/api/proxy', {
    name: 'a',
    targetBaseUrl: 'https://api.example.com',
    defaultPriceSats: 1
  }),
  listProxies: row(merchant(200), async f => ({ path: '/api/proxy', mine: await f.proxy() })),
  getProxy: row(merchant(200, 404), async f => {
    const proxyId = await f.proxy()
    return { path: `/api/proxy/${proxyId}`, mine: proxyId }
  }),
  updateProxy: row(merchant(200, 404), async f => ({ path: `/api/proxy/${await f.proxy()}`, body: { name: 'b' } })),
  deleteProxy: row(merchant(204, 404), async f => ({ path: `/api/proxy/${await f.proxy()}` })),
  testProxy: row(merchant(200, 404), async f => ({ path: `/api/proxy/${await f.proxy()}/test`, mine: 'statusCode' })),

  getMerchant: row(merchant(200), f => ({ path: '/api/merchant/me', mine: f.owner.email })),
  getLicense: plain(merchant(200), '/api/merchant/l402-status'),
  getSubscription: plain(merchant(200), '/api/merchant/subscription'),
  getUsage: plain(merchant(200), '/api/merchant/usage'),
  getPlanInvoices: plain(merchant(200), '/api/merchant/subscription/invoices'),
  getApiKeyInfo: plain(merchant(200), '/api/merchant/api-key-info'),
  getQuickstart: row(merchant(200), f => ({ path: '/api/merchant/quickstart', mine: `"merchantId":${f.owner.id},` })),
  setPrimaryKey: plain(merchant(200), '/api/merchant/primary-key', { primaryApiKey: 'sandbox-next-key' }),
  setAlternateKey: plain(merchant(200), '/api/merchant/alternate-key', { alternateApiKey: 'sandbox-next-key' }),
  setPaymentProvider: plain(merchant(200), '/api/merchant/payment-provider', { provider: 'alternate' }),
  getHome: plain(anyone(200), '/'),
  setNotices: plain(merchant(200), '/api/merchant/notices', { off: ['member'] }),
  getNotices: plain(merchant(200), '/api/merchant/notices'),
  setReceiptNote: plain(merchant(200), '/api/merchant/receipt-note', { note: 'VAT GB1' }),
  setEmail: plain(merchant(409), '/api/merchant/email', { email: 'not-joined@example.com' }),
  setName: plain(merchant(200), '/api/merchant/name', { name: 'Corner Coffee' }),
  setColour: plain(merchant(200), '/api/merchant/colour', { colour: '#c2410c' }),
  setWebhook: plain(merchant(200), '/api/merchant/webhook-url', { webhookUrl: 'https://example.com/hook' }),
  validatePrimaryKey: plain(merchant(200), '/api/merchant/validate-primary'),
  validateAlternateKey: plain(merchant(200), '/api/merchant/validate-alternate'),
  createTestAccount: row(merchant(201), f => ({
    path: '/api/merchant/test-account',
    mine: `"merchantId":-${f.owner.id},`
  })),
  regenerateKey: row(merchant(200), f => ({
    path: '/api/merchant/regenerate-key',
    mine: `"merchantId":${f.owner.id},`
  })),

  removePrimaryKey: plain(merchant(200), '/api/merchant/primary-key'),
  removeAlternateKey: plain(merchant(200), '/api/merchant/alternate-key'),
  getSettings: plain(merchant(200), '/api/merchant/settings'),
  listApiKeys: row(merchant(200), async f => ({ path: '/api/merchant/keys', mine: await f.key() })),
  createApiKey: plain(merchant(201), '/api/merchant/keys', { name: 'a' }),
  rotateApiKey: row(merchant(200, 404), async f => ({ path: `/api/merchant/keys/${await f.key()}/rotate`, body: {} })),
  removeApiKey: row(merchant(204, 404), async f => ({ path: `/api/merchant/keys/${await f.key()}` })),

  createPayment: row(merchant(201), () => ({
    path: '/api/payments',
    body: { orderId: `order-${unique()}`, amount: '0.0001', currency: 'BTC' }
  })),
  listPayments: row(merchant(200), async f => ({ path: '/api/payments', mine: (await f.payment()).invoiceId })),
  getPayment: row(merchant(200, 404), async f => {
    const { invoiceId } = await f.payment()
    return { path: `/api/payments/${invoiceId}`, mine: invoiceId }
  }),
  getPaymentByOrder: row(merchant(200, 404), async f => {
    const { orderId } = await f.payment()
    return { path: `/api/payments/order/${orderId}`, mine: orderId }
  }),
  getPaymentStatus: row(anyone(200), async f => ({ path: `/api/payments/${(await f.payment()).invoiceId}/status` })),
  cancelPayment: row(merchant(200, 404), async f => {
    const { invoiceId } = await f.payment()
    return { path: `/api/payments/${invoiceId}/cancel`, mine: invoiceId }
  }),
  syncPayment: row(merchant(200, 404), async f => {
    const { invoiceId } = await f.payment()
    return { path: `/api/payments/${invoiceId}/sync`, mine: invoiceId }
  }),

  createRefund: row(merchant(201, 400), async f => ({
    path: '/api/refunds',
    body: { invoiceId: (await f.payment(true)).invoiceId, refundAddress: address, amountSatoshis: 1 },
    mine: 'refundId'
  })),
  sumRefunds: plain(merchant(200), '/api/refunds/total'),
  listCustomers: plain(merchant(200), '/api/merchant/customers'),
  listRefunds: row(merchant(200), async f => ({ path: '/api/refunds', mine: (await f.refund()).refundId })),
  listRefundsOfInvoice: row(merchant(200, 404), async f => {
    const { invoiceId, refundId } = await f.refund()
    return { path: `/api/refunds/invoice/${invoiceId}`, mine: refundId }
  }),
  getRefund: row(merchant(200, 404), async f => {
    const { refundId } = await f.refund()
    return { path: `/api/refunds/${refundId}`, mine: refundId }
  }),
  syncRefund: row(merchant(200, 404), async f => {
    const { refundId } = await f.refund()
    return { path: `/api/refunds/${refundId}/sync`, mine: refundId }
  }),

  listWebhookDeliveries: row(merchant(200), async f => ({
    path: '/api/merchant/webhooks/deliveries',
    mine: await f.delivery()
  })),
  getWebhookDelivery: row(merchant(200, 404), async f => {
    const id = await f.delivery()
    return { path: `/api/merchant/webhooks/deliveries/${id}`, mine: id }
  }),
  resendWebhookDelivery: row(merchant(202, 404), async f => ({
    path: `/api/merchant/webhooks/deliveries/${await f.delivery()}/resend`
  })),
  testWebhook: row(merchant(200, 400), async f => {
    await f.delivery()
    return { path: '/api/merchant/webhooks/test', mine: 'http://localhost:9000/' }
  }),
  listWebhookEndpoints: row(merchant(200), async f => ({
    path: '/api/merchant/webhooks/endpoints',
    mine: await f.endpoint()
  })),
  createWebhookEndpoint: row(merchant(201), () => ({
    path: '/api/merchant/webhooks/endpoints',
    body: { url: 'http://localhost:9000', events: ['payment.paid'] }
  })),
  changeWebhookEndpoint: row(merchant(200, 404), async f => ({
    path: `/api/merchant/webhooks/endpoints/${await f.endpoint()}`,
    body: { isActive: false }
  })),
  rotateWebhookSecret: row(merchant(200, 404), async f => ({
    path: `/api/merchant/webhooks/endpoints/${await f.endpoint()}/rotate-secret`,
    mine: 'webhookSecret'
  })),
  testWebhookEndpoint: row(merchant(200, 404), async f => ({
    path: `/api/merchant/webhooks/endpoints/${await f.endpoint()}/test`,
    mine: 'isDelivered'
  })),
  removeWebhookEndpoint: row(merchant(204, 404), async f => ({
    path: `/api/merchant/webhooks/endpoints/${await f.endpoint()}`
  })),
  // The sandbox sends no notifications; what real kinds send is judged by its signature.
  receivePrimaryNotification: plain(anyone(400), '/api/webhooks/primary', {}),
  receiveAlternateNotification: plain(anyone(400), '/api/webhooks/alternate', {}),
  getJobsDashboard: dashboard(admin(200), '/jobs'),
  retryJob: dashboard(admin(404), '/jobs/webhooks/00000000-0000-4000-8000-000000000000/retry'),

  createPaymentLink: plain(merchant(201), '/api/merchant/payment-links', { currency: 'USD' }),
  listPaymentLinks: plain(merchant(200), '/api/merchant/payment-links'),
  deletePaymentLink: row(merchant(204, 404), async f => ({ path: `/api/merchant/payment-links/${await linkOf(f)}` })),
  getPaymentLinkPage: row(anyone(200), async f => ({ path: `/pay/to/${await linkOf(f)}` })),
  payPaymentLink: row(anyone(422), async f => ({ path: `/pay/to/${await linkOf(f)}` })),
  // The token of the address is the authorisation.
  getPayPage: row(anyone(200), async f => ({ path: new URL((await f.payment()).payUrl).pathname })),
  followPayment: row(anyone(200), async f => ({ path: `${new URL((await f.payment(true)).payUrl).pathname}/events` })),
  getPayStatus: row(anyone(200), async f => ({ path: `${new URL((await f.payment()).payUrl).pathname}/status` })),
  payOnPayPage: row(anyone(403), async f => ({ path: `${new URL((await f.payment()).payUrl).pathname}/sandbox` })),
  getPageStyle: row(anyone(200), async f => ({ path: await assetOf(f, 'css') })),
  getPageScript: row(anyone(200), async f => ({ path: await assetOf(f, 'js') })),

  getBillingPricing: plain(anyone(200), '/api/billing/pricing'),
  // A key may be left out; one that is sent must be a merchant's.
  createBillingCheckout: row({ ...anyone(200), wrong: 401, inactive: 401, admin: 401 }, () => ({
    path: '/api/billing/create-checkout-session',
    body: { plan: 'individual', email: `${unique()}@example.com` }
  })),
  // The accounts pay by no card.
  createCustomerPortal: plain(merchant(400), '/api/billing/customer-portal', { returnUrl: 'https://example.com' }),
  // An unsigned request is refused, whatever its credentials.
  receiveBillingNotification: { ...plain(anyone(401), '/api/webhooks/billing', {}), refusal: 'Unauthorized' },
  getBitcoinPricing: plain(anyone(200), '/api/bitcoin/pricing'),
  createBitcoinSubscription: row({ ...anyone(201), wrong: 401, inactive: 401, admin: 401 }, () => ({
    path: '/api/bitcoin/create-subscription',
    body: { plan: 'individual', email: `${unique()}@example.com` }
  })),
  createCheckoutSession: row(merchant(201), () => ({
    path: '/api/checkout/sessions',
    body: { orderId: `order-${unique()}`, amount: '0.0001', currency: 'BTC' }
  })),
  // Signing in goes by links and cookies; an API key opens nothing here.
  requestMagicLink: row(anyone(202), f => ({ path: '/api/auth/magic-link', body: { email: f.owner.email } })),
  getSession: { ...plain(anyone(401), '/api/auth/session'), refusal: 'Not signed in' },
  listSessions: { ...plain(anyone(401), '/api/auth/sessions'), refusal: 'Not signed in' },
  endSession: { ...plain(anyone(401), '/api/auth/sessions/a'), refusal: 'Not signed in' },
  goToAccount: { ...plain(anyone(401), '/api/auth/account', { merchantId: 1 }), refusal: 'Not signed in' },
  // Not requested by a browser: keys make no difference here.
  beginPasskeySignIn: { ...plain(anyone(409), '/api/auth/passkeys/sign-in/options') },
  signInWithPasskey: {
    ...plain(anyone(401), '/api/auth/passkeys/sign-in', {
      id: 'AAAA',
      rawId: 'AAAA',
      type: 'public-key',
      response: { clientDataJSON: 'AAAA', authenticatorData: 'AAAA', signature: 'AAAA', userHandle: 'AAAA' }
    }),
    refusal: 'Not signed in'
  },
  listPasskeys: { ...plain(anyone(401), '/api/auth/passkeys'), refusal: 'Not signed in' },
  beginPasskey: { ...plain(anyone(401), '/api/auth/passkeys/options'), refusal: 'Not signed in' },
  addPasskey: {
    ...plain(anyone(401), '/api/auth/passkeys', {
      name: 'Phone',
      credential: {
        id: 'AAAA',
        rawId: 'AAAA',
        type: 'public-key',
        response: { clientDataJSON: 'AAAA', attestationObject: 'AAAA' }
      }
    }),
    refusal: 'Not signed in'
  },
  renamePasskey: { ...plain(anyone(401), '/api/auth/passkeys/a', { name: 'Phone' }), refusal: 'Not signed in' },
  removePasskey: { ...plain(anyone(401), '/api/auth/passkeys/a'), refusal: 'Not signed in' },
  takeFirstKey: row(merchant(200, 409), async f => {
    await f.gateway.database
      .sql`insert into first_keys (merchant_id, key_id) select id, key_id from merchants where id = ${f.owner.id}`
    return { path: '/api/merchant/first-key', mine: `"merchantId":${f.owner.id},` }
  }),
  listAudit: plain(merchant(200), '/api/merchant/audit'),
  adminListAudit: plain(admin(200), '/api/admin/audit'),
  listMembers: row(merchant(200), f => ({ path: '/api/merchant/members', mine: f.owner.email })),
  inviteMember: row(merchant(201), () => ({
    path: '/api/merchant/members',
    body: { email: `member-${unique()}@example.com`, role: 'editor' }
  })),
  changeMember: row(merchant(200, 404), async f => ({
    path: `/api/merchant/members/${await f.member()}`,
    body: { role: 'viewer' }
  })),
  removeMember: row(merchant(204, 404), async f => ({ path: `/api/merchant/members/${await f.member()}` })),
  getSignInPage: plain(anyone(200), '/sign-in'),
  getSignUpPage: plain(anyone(404), '/sign-up'),
  submitSignUpPage: plain(anyone(404), '/sign-up'),
  signInWithKey: plain(anyone(401), '/sign-in/key'),
  submitSignInPage: plain(anyone(400), '/sign-in'),
  getSignInLink: plain(anyone(404), `/sign-in/${'A'.repeat(43)}`),
  useSignInLink: plain(anyone(404), `/sign-in/${'A'.repeat(43)}`),
  getAccountPage: row(anyone(200), async f => ({ path: '/sign-in/account', cookie: await signedIn(f) })),
  setTestMode: plain(anyone(303), '/sign-in/test-mode'),
  submitAccountPage: plain(anyone(303), '/sign-in/go-to'),
  signOut: plain(anyone(303), '/sign-in/sign-out'),
  getCheckoutDonePage: plain(anyone(200), '/billing/done'),
  getCheckoutCanceledPage: plain(anyone(200), '/billing/canceled'),
  getSandboxBillingPage: row(anyone(200), async f => ({ path: await checkoutPage(f) })),
  completeSandboxCheckout: row(anyone(303), async f => ({ path: `${await checkoutPage(f)}/complete` })),
  cancelSandboxSubscription: plain(anyone(404), '/billing/sandbox/bps_sandbox_unknown/cancel'),
  failSandboxCard: plain(anyone(404), '/billing/sandbox/bps_sandbox_unknown/fail'),
  recoverSandboxCard: plain(anyone(404), '/billing/sandbox/bps_sandbox_unknown/recover'),

  // Payment and claim token are the authorisation; no key is.
  getStoreCatalog: row(anyone(200), async f => ({ path: `/api/storefront/${await f.store()}/catalog` })),
  getStoreManifest: row(anyone(200), async f => ({ path: `/api/storefront/${await f.store()}/llms.txt` })),
  // Without the buyer's place.
  checkOut: row(anyone(400), async f => ({
    path: `/api/storefront/${await f.store()}/checkout`,
    body: { items: [{ variantId: 10101, quantity: 1 }] }
  })),
  claimOrder: row(anyone(404), async f => ({
    path: `/api/storefront/${await f.store()}/claim`,
    body: {
      claimToken: 'A'.repeat(43),
      email: 'a@example.com',
      shippingAddress: { firstName: 'A', lastName: 'B', address1: 'C', city: 'D', country: 'US' }
    }
  })),
  askForRefund: row(anyone(404), async f => ({
    path: `/api/storefront/${await f.store()}/refund-request`,
    body: { claimToken: 'A'.repeat(43), refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080' }
  })),
  getStoreOrder: row(anyone(404), async f => ({
    path: `/api/storefront/${await f.store()}/orders/01a1ff70-dd2e-711d-b419-983214ef9bd0?claimToken=${'A'.repeat(43)}`
  })),
  // An unsigned request is refused, whatever its credentials.
  receiveStoreNotification: {
    ...row(anyone(401), async f => ({ path: `/api/webhooks/storefront/${await f.store()}`, body: {} })),
    refusal: 'Unauthorized'
  },
  getShopPage: row(anyone(200), async f => ({ path: `/storefront/${await f.store()}` })),
  buyOnShopPage: row(anyone(415), async f => ({ path: `/storefront/${await f.store()}`, body: {} })),
  getShopInvoice: row(anyone(404), async f => ({ path: `/storefront/${await f.store()}/invoice?order=v1.none` })),
  // The token of the address is the authorisation; what is sent here is no form.
  getClaimPage: row(anyone(404), async f => ({
    path: `/storefront/${await f.store()}/claim?claimToken=${'A'.repeat(43)}`
  })),
  claimOnPage: row(anyone(415), async f => ({
    path: `/storefront/${await f.store()}/claim?claimToken=${'A'.repeat(43)}`,
    body: {}
  })),
  askForRefundOnPage: row(anyone(415), async f => ({
    path: `/storefront/${await f.store()}/claim-refund?claimToken=${'A'.repeat(43)}`,
    body: {}
  })),
  getStorefront: row(merchant(200, 404), async f => ({ path: '/api/merchant/storefront', mine: await f.store() })),
  createStorefront: row(merchant(201, 409), async f => {
    // The other has one already.
    const body = { slug: `shop-${unique()}`, storefrontDomain: 'books.example.com' }
    await f.gateway.send('POST', '/api/merchant/storefront', {
      headers: { 'x-api-key': f.other.apiKey },
      body: { ...body, slug: `shop-${unique()}` }
    })
    return { path: '/api/merchant/storefront', body, mine: body.slug }
  }),
  updateStorefront: row(merchant(200, 404), async f => ({
    path: '/api/merchant/storefront',
    body: { domesticOnly: true },
    mine: await f.store()
  })),
  invalidateStorefrontCache: row(merchant(200, 404), async f => ({
    path: '/api/merchant/storefront/invalidate-cache',
    mine: await f.store()
  })),
  refreshStorefrontShopInfo: row(merchant(200, 404), async f => ({
    path: '/api/merchant/storefront/refresh-shop-info',
    mine: await f.store()
  })),
  getStorefrontStats: row(merchant(200), async f => ({
    path: '/api/merchant/storefront/stats',
    mine: await f.store()
  })),
  listStorefrontOrders: row(merchant(200), async f => ({
    path: '/api/merchant/storefront/orders',
    mine: await f.storeOrder()
  })),
  adminListTroubledOrders: row(admin(200), () => ({ path: '/api/admin/storefront/orders' })),
  // The order is unclaimed.
  adminRetryStorefrontOrder: row(admin(400), async f => ({
    path: `/api/admin/storefront/orders/${await f.storeOrder()}/retry`
  })),

  adminListRefunds: row(admin(200), () => ({ path: '/api/admin/refunds' })),
  adminGetRefund: row(admin(200), async f => {
    const { refundId } = await f.refund()
    return { path: `/api/admin/refunds/${refundId}`, mine: refundId }
  }),
  adminSettleRefund: row(admin(200), async f => ({
    path: `/api/admin/refunds/${(await f.refund()).refundId}/settle`,
    body: { outcome: 'sent', providerRefundId: 'x', settledBy: 'Ada', reason: 'the dashboard shows it' }
  })),

  // The owner's proxy has sold nothing; test/selling/sales shows whose is whose.
  listSales: plain(merchant(200), '/api/merchant/sales'),
  getEarnings: plain(merchant(200), '/api/merchant/earnings'),
  getTraffic: plain(merchant(200), '/api/merchant/traffic'),
  listRequests: plain(merchant(200), '/api/merchant/requests?proxyId=other-000001'),
  adminListPayments: row(admin(200), async f => ({
    path: `/api/admin/payments?merchantId=${f.owner.id}`,
    mine: (await f.payment()).invoiceId
  })),
  adminListSales: plain(admin(200), '/api/admin/sales'),
  adminGetEarnings: plain(admin(200), '/api/admin/earnings'),
  adminGetMargins: plain(admin(200), '/api/admin/margins'),
  listBalances: plain(merchant(200), '/api/merchant/balances'),
  listBalanceEntries: plain(merchant(404), `/api/merchant/balances/${'0'.repeat(64)}/entries`),
  adminListBalances: plain(admin(200), '/api/admin/balances'),
  adminListBalanceEntries: plain(admin(200), `/api/admin/balances/${'0'.repeat(64)}/entries`),
  adminListSessions: plain(admin(200), '/api/admin/sessions'),
  adminGetSession: plain(admin(404), `/api/admin/sessions/${'0'.repeat(64)}`),
  adminCloseSession: plain(admin(404), `/api/admin/sessions/${'0'.repeat(64)}/close`),
  adminRefundSession: row(admin(404), () => ({ path: `/api/admin/sessions/${'0'.repeat(64)}/refund`, body: {} })),
  adminSettleSessionRefund: row(admin(404), () => ({
    path: `/api/admin/sessions/${'0'.repeat(64)}/settlement`,
    body: { outcome: 'sent', settledBy: 'Ada', reason: 'seen' }
  })),
  adminListAmbiguousLeases: plain(admin(200), '/api/admin/leases/ambiguous'),
  adminGetOverview: plain(admin(200), '/api/admin/overview'),
  adminGetHealth: plain(admin(200), '/api/admin/health'),
  adminListJobs: plain(admin(200), '/api/admin/jobs'),
  adminRetryJob: plain(admin(404), '/api/admin/jobs/webhooks/0199f1d3-0b1e-7c22-8f10-2d3c4b5a6978/retry'),
  adminListRoutes: plain(admin(200), '/api/admin/routes'),
  adminGetConfiguration: plain(admin(200), '/api/admin/configuration'),
  adminGetMetrics: plain(admin(200), '/api/admin/metrics'),
  adminGetProviders: plain(admin(200), '/api/admin/providers'),
  adminListMerchants: row(admin(200), f => ({ path: '/api/admin/merchants', mine: f.owner.email })),
  adminCreateMerchant: row(admin(201), () => ({
    path: '/api/admin/merchants',
    body: { name: 'a', email: `${unique()}@example.com` },
    mine: 'apiKey'
  })),
  adminGetMerchant: row(admin(200), f => ({ path: `/api/admin/merchants/${f.owner.id}`, mine: f.owner.email })),
  adminUpdateMerchant: row(admin(200), f => ({
    path: `/api/admin/merchants/${f.owner.id}`,
    body: { name: 'b' },
    mine: f.owner.email
  })),
  adminRegenerateKey: row(admin(200), f => ({
    path: `/api/admin/merchants/${f.owner.id}/regenerate-key`,
    mine: 'apiKey'
  })),
  adminRevokeToken: row(admin(204), async f => ({ path: `/api/admin/tokens/${(await f.challenge()).paymentHash}` })),
  adminRevokeProxyTokens: row(admin(200), async f => ({
    path: `/api/admin/proxies/${await f.proxy()}/tokens`,
    mine: 'issuedUntil'
  })),
  adminRevokeMerchantTokens: row(admin(200), f => ({
    path: `/api/admin/merchants/${f.owner.id}/tokens`,
    mine: 'issuedUntil'
  })),
  adminDeactivateMerchant: row(admin(204), f => ({ path: `/api/admin/merchants/${f.owner.id}/deactivate` })),
  adminReactivateMerchant: row(admin(204), f => ({ path: `/api/admin/merchants/${f.owner.id}/reactivate` })),
  adminListPendingSubscriptions: row(admin(200), async f => ({
    path: '/api/admin/pending-subscriptions',
    mine: `"id":${await f.pending()},`
  })),
  adminGetPendingSubscription: row(admin(200), async f => ({
    path: `/api/admin/pending-subscriptions/${await f.pending()}`,
    mine: 'billingSubscriptionId'
  })),
  adminApprovePendingSubscription: row(admin(200), async f => ({
    path: `/api/admin/pending-subscriptions/${await f.pending()}/approve`,
    mine: 'apiKey'
  })),
  adminRejectPendingSubscription: row(admin(204), async f => ({
    path: `/api/admin/pending-subscriptions/${await f.pending()}/reject`
  }))
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

/** The address of what the pay page loads. */
async function assetOf(f: Setting, ending: string) {
  const page = await f.gateway.send('GET', (await f.payment()).payUrl)
  const found = new RegExp(`/assets/[^"]+\\.${ending}`).exec(page.text)
  if (found === null) throw new Error(`the page loads no ${ending}`)
  return found[0]
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
    operations: gateway.operations,
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
    const { gateway, operations: all, ask, account } = await open(t)
    // Pages of the consoles take no keys, but sessions alone (test/web/console/access.test.ts).
    const operations = all.filter(({ path }) => !/^\/(console|operator)(\/|$)/.test(path))
    t.same(
      operations.map(({ id }) => id).sort(),
      Object.keys(rows).sort(),
      'every operation that is mounted has a verdict, and every verdict is on one'
    )

    for (const operation of operations) {
      const { id, method, access } = operation
      const known = rows[id]
      if (known === undefined) continue
      await t.test(id, async t => {
        for (const caller of REFUSED[access])
          t.equal(known.verdicts[caller], 401, `${caller} is refused by every operation for ${access}`)
        const [owner, other, inactive] = (await Promise.all(['owner', 'other', 'inactive'].map(account))) as [
          Account,
          Account,
          Account
        ] /* one for each name */
        await gateway.database.sql`update merchants set is_active = false where id = ${inactive.id}`
        const request = await known.ask(setting(gateway, owner, other, ask))
        const keys: Readonly<Record<Caller, string | null>> = {
          none: null,
          wrong: 'nonsense',
          inactive: inactive.apiKey,
          other: other.apiKey,
          admin: gateway.adminKey,
          owner: owner.apiKey
        }
        const order =
          known.verdicts.admin < 400
            ? CALLERS
            : [...CALLERS].sort((a, b) => Number(a === 'owner') - Number(b === 'owner'))
        const roles = await Promise.all(
          ROLES.map(async role => ({ role, cookie: await signedInAs(gateway, owner.id, role) }))
        )
        const operator = await signedInAs(gateway, null, 'owner', OPERATOR)
        const before = await stored(gateway, owner.id)
        await bySession({ t, ask, operation, known, asked: request, roles, operator })
        t.same(await stored(gateway, owner.id), before, 'sessions that may not do it change nothing')
        for (const caller of order) {
          const expected = known.verdicts[caller]
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
          const right = caller === 'admin' || (caller === 'owner' && known.verdicts.owner < 400)
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
  for (const { id, method, access, role } of operations) {
    const known = rows[id]
    if (known === undefined || (access !== 'merchant' && role === undefined)) continue
    const [owner, other] = (await Promise.all(['owner', 'other'].map(account))) as [Account, Account] /* one for each */
    const f = setting(gateway, owner, other, ask)
    const { apiKey } = await f.asOwner('POST', '/api/merchant/keys', { name: 'reader', isReadOnly: true })
    const request = await known.ask(f)
    const before = await stored(gateway, owner.id)
    const answer = await ask(method, request, String(apiKey), known.header)
    if (method === 'GET') {
      t.equal(answer.status, known.verdicts.owner, `${id}: reads`)
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
    for (const { id, method } of operations) {
      const known = rows[id]
      if (known === undefined || WITHOUT_DATABASE.has(id)) continue
      await t.test(id, async t => {
        const [owner, other] = (await Promise.all(['owner', 'other'].map(account))) as [
          Account,
          Account
        ] /* one for each name */
        const f = setting(gateway, owner, other, ask)
        const request = await known.ask(f)
        const { verdicts } = known
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
            ASKED_ANEW.has(id) ? await known.ask(f) : request,
            key,
            known.header
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
  readonly known: Row
  readonly asked: PageRequest
  readonly roles: ReadonlyArray<{ readonly role: Role; readonly cookie: string }>
  readonly operator: string
}

/** Every role against an operation, and every way to ride a session; what changes something is not done. */
async function bySession({ t, ask, operation, known, asked: request, roles, operator }: SessionRow) {
  const { access, method } = operation
  if ((access !== 'merchant' && access !== 'admin') || known.header !== undefined) return
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
      t.equal((await send(cookie, 'same-origin')).status, known.verdicts.owner, `${role} may read it`)
  }
  const right = access === 'admin' ? operator : (roles.at(-1)?.cookie ?? '')
  if (access === 'merchant') t.equal((await send(operator, 'same-origin')).status, 401, 'an operator is no member')
  else if (method === 'GET')
    t.equal((await send(operator, 'same-origin')).status, known.verdicts.admin, 'an operator may read it')
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
