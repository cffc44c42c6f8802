import { testMerchants, testSealer } from '../../support/merchants.ts'
import tap, { type Test as T } from 'tap'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import type { AnyOperation } from '../../../src/engine/operations/operation.ts'
import type { Services } from '../../../src/engine/pipeline/plugin.ts'
import { InternalUpstream } from '../../../src/engine/pipeline/internal.ts'
import { shortDescription } from '../../../src/lightning/codecs/bolt11-encode.ts'
import { gate } from '../../../src/accounts/merchants/gate.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { type CreateMerchant } from '../../../src/accounts/merchants/service.ts'
import { FixedPrices, type Prices } from '../../../src/lightning/money/prices.ts'
import { openDemoInvoices } from '../../../src/payments/payments/creator.ts'
import { paymentOperations } from '../../../src/payments/payments/operations.ts'
import type { OnPaymentChange, Payment, PaymentChange, PaymentInput } from '../../../src/payments/payments/schema.ts'
import { Payments, type PaymentsDependencies } from '../../../src/payments/payments/service.ts'
import { PaymentStore } from '../../../src/payments/payments/store-sql.ts'
import { PaymentWatch } from '../../../src/payments/payments/watch.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { systemRandom } from '../../../src/platform/system/ids.ts'
import { silentLog, type Log } from '../../../src/platform/telemetry/log.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { Payees } from '../../../src/lightning/providers/payees.ts'
import type {
  Capabilities,
  Charge,
  ChargeRequest,
  ChargeState,
  Payout,
  PayoutRequest,
  Provider,
  KindName
} from '../../../src/lightning/provider-calls/provider.ts'
import { openAnyDatabase, temporaryFolder } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { principalOfKey } from '../../../src/accounts/merchants/principal.ts'
import { newInvoice } from '../../support/invoices.ts'

/** A provider that signs real regtest invoices, and says of its charges what a test wants. */
export class FakeProvider implements Provider {
  kind: KindName
  readonly keyless = false
  readonly capabilities: Capabilities = {
    onchain: true,
    hostedCheckout: true,
    notifies: false,
    payout: { lightning: false, chain: false }
  }
  readonly requests: ChargeRequest[] = []
  /** Keys that it was called with, in order. */
  readonly keys: string[] = []
  /** By charge id; what is not here is unpaid. Null: the provider does not know the charge. */
  readonly states = new Map<string, ChargeState | null>()
  /** Thrown by every call while it is set. */
  fault: Error | null = null
  /** Awaited before each invoice is made. */
  gate: Promise<void> | null = null
  /** Members of the next charges. */
  more: Partial<Charge> = {}
  lookUps = 0
  /** Set by a test of a kind that converts fiat amounts itself. */
  createFiatCharge?: NonNullable<Provider['createFiatCharge']>
  readonly #clock: ManualClock

  constructor(kind: KindName, clock: ManualClock) {
    this.kind = kind
    this.#clock = clock
  }

  async createCharge(key: Secret<string> | null, request: ChargeRequest): Promise<Charge> {
    this.requests.push(request)
    this.keys.push(key?.reveal() ?? '')
    await this.gate
    if (this.fault !== null) throw this.fault
    const { amountSats, expirySeconds, description } = request
    const { invoice, paymentHash, createdAt } = newInvoice({
      at: this.#clock.now(),
      amountSats,
      expirySeconds,
      description: shortDescription(description)
    })
    return {
      chargeId: `charge-${paymentHash.slice(0, 12)}`,
      invoice,
      paymentHash,
      expiresAt: createdAt + expirySeconds * 1000,
      network: 'regtest',
      onchainAddress: null,
      checkoutUrl: null,
      ...this.more
    }
  }

  async lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    this.lookUps++
    this.keys.push(key?.reveal() ?? '')
    if (this.fault !== null) throw this.fault
    const state = this.states.get(chargeId)
    return state === undefined ? { status: 'unpaid', receivedSats: 0, settledAt: null } : state
  }

  async createPayout(_key: Secret<string> | null, _request: PayoutRequest): Promise<Payout> {
    throw new Error('these tests pay nothing out')
  }
  async lookUpPayout(_key: Secret<string> | null, _request: PayoutRequest): Promise<Payout | null> {
    return null
  }
  async validateKey() {
    return { isValid: true, message: '' }
  }
  async close(): Promise<void> {}
}

/** An answer of the operations. */
export interface Reply {
  readonly status: number
  readonly type: string | undefined
  readonly text: string
  readonly data: Record<string, unknown>
  header(name: string): string | undefined
}

export type Call = (
  by: Merchant | 'admin' | null,
  method: string,
  target: string,
  body?: object | string,
  headers?: Readonly<Record<string, string>>
) => Promise<Reply>

let accounts = 0
let shared: Promise<Database> | null = null

/** How a fixture differs. */
export interface FixtureOptions {
  readonly database?: Database
  readonly prices?: Prices
  readonly log?: Log
}

/**
 * The payments domain as it is composed, but for its providers; over a database that the tests of one file share unless
 * said.
 */
export async function fixture(t: T, options: FixtureOptions = {}) {
  const database = options.database ?? (await (shared ??= openAnyDatabase(tap)))
  const clock = new ManualClock()
  const merchants = testMerchants(database, clock)
  const primary = new FakeProvider('sandbox', clock)
  const alternate = new FakeProvider('opennode', clock)
  const store = new PaymentStore(database)
  const folder = temporaryFolder(t)
  const changes: PaymentChange[] = []
  /** Listener for changes in their transactions; keeps them in `changes` unless a test sets another. */
  const told: { changed: OnPaymentChange } = {
    changed: async (_sql, change) => {
      changes.push(change)
    }
  }
  const make = (different: Partial<PaymentsDependencies> = {}) => {
    const payments = new Payments({
      store,
      database,
      clock,
      random: systemRandom,
      log: options.log ?? silentLog,
      payees: new Payees(
        { primary: { provider: primary, key: null }, alternate: { provider: alternate, key: null } },
        testSealer
      ),
      prices: options.prices ?? new FixedPrices({ USD: '50000', EUR: '40000', GBP: '30000' }),
      demo: openDemoInvoices(folder, clock),
      watch: new PaymentWatch(database, options.log ?? silentLog),
      publicUrl: () => 'https://pay.example.com',
      merchants,
      refusal: gate,
      changed: (sql, change) => told.changed(sql, change),
      ...different
    })
    t.teardown(() => payments.close())
    return payments
  }
  const payments = make()
  return {
    database,
    clock,
    merchants,
    primary,
    alternate,
    payments,
    store,
    changes,
    told,
    /** Another gateway on the same database, clock and providers. */
    another: make,
    call: await caller(paymentOperations(payments)),
    /** An account; with a primary key unless said. */
    merchant: async (different: Partial<CreateMerchant> = {}) => {
      const { merchant } = await merchants.create({
        name: 'Acme',
        email: `acme-${++accounts}-${process.pid}@example.com`,
        tier: 'individual',
        primaryApiKey: new Secret('a primary key'),
        ...different
      })
      return merchant
    }
  }
}

export type Fixture = Awaited<ReturnType<typeof fixture>>

/** Calls operations as a gateway does, for a merchant, the administrator, or without a key. */
export async function caller(
  operations: readonly AnyOperation[],
  plugins: Parameters<typeof harness>[0] = [],
  services?: Partial<Services>
): Promise<Call> {
  const upstream = new InternalUpstream([...operations])
  const chain = await harness(plugins, {
    answer: ctx => upstream.handle(ctx),
    ...(services === undefined ? {} : { services })
  })
  return async (by, method, target, body, more = {}) => {
    const principal = by === 'admin' ? { kind: 'admin' as const, id: 'admin' } : by === null ? null : principalOfKey(by)
    const { status, headers, text } = await chain.run({
      method,
      target,
      headers: { 'content-type': 'application/json', ...more },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(principal === null ? {} : { principal })
    })
    return {
      status,
      type: headers.get('content-type'),
      text,
      data: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>),
      header: name => headers.get(name)
    }
  }
}

let orders = 0

/** The body of a create, valid and new. */
export function anInput(different: Partial<PaymentInput> = {}): PaymentInput {
  return { orderId: `order-${++orders}`, amount: 0.0001, currency: 'BTC', ...different }
}

/** A payment as it is kept: unpaid, of 10,000 satoshis, made at 0 and good until 3,600,000. */
export function aPayment(different: Partial<Payment> = {}): Payment {
  return {
    invoiceId: '123456789012345',
    merchantId: 7,
    orderId: 'o',
    status: 'unpaid',
    amount: '0.0001',
    currency: 'BTC',
    description: null,
    customerEmail: null,
    customerName: null,
    successUrl: null,
    metadata: null,
    payToken: 'A'.repeat(43),
    slot: 'primary',
    kind: 'sandbox',
    chargeId: 'c',
    invoice: 'lnbcrt1',
    paymentHash: 'ab'.repeat(32),
    network: 'regtest',
    onchainAddress: null,
    checkoutUrl: null,
    amountSats: 10_000,
    receivedSats: null,
    createdAt: 0,
    expiresAt: 3_600_000,
    confirmsAt: null,
    paidAt: null,
    ...different
  }
}
