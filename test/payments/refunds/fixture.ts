import { testSealer } from '../../support/merchants.ts'
import { randomBytes } from 'node:crypto'
import { bech32 } from '@scure/base'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import { InternalUpstream } from '../../../src/engine/pipeline/internal.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { MerchantStore } from '../../../src/accounts/merchants/store.ts'
import { PaymentChanges } from '../../../src/payments/payments/changes.ts'
import type { Payment, PaymentChange } from '../../../src/payments/payments/schema.ts'
import { PaymentStore } from '../../../src/payments/payments/store-sql.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { numericId, systemRandom } from '../../../src/platform/system/ids.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { Payees } from '../../../src/lightning/providers/payees.ts'
import { refundAdminOperations, refundOperations } from '../../../src/payments/refunds/operations.ts'
import type { Refund } from '../../../src/payments/refunds/schema.ts'
import { Refunds } from '../../../src/payments/refunds/service.ts'
import { RefundSettlements } from '../../../src/payments/refunds/settlement.ts'
import { paymentSources } from '../../../src/payments/refunds/destination.ts'
import { RefundStore } from '../../../src/payments/refunds/store.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { FakeProvider } from './fake-provider.ts'
import { principalOfKey } from '../../../src/accounts/merchants/principal.ts'
import { aPayment } from '../payments/fixture.ts'
import { newInvoice } from '../../support/invoices.ts'

export type Json = Record<string, unknown>

/** An answer of the operations. */
export interface Reply {
  readonly status: number
  readonly type: string
  /** An object, or an array where the operation answers one. */
  readonly data: Json
}

/** Calls the operations as a merchant. */
export type Call = (method: string, target: string, body?: unknown, merchant?: Merchant) => Promise<Reply>

/** Refunds over a database, with providers whose every answer a test decides. */
export interface Fixture {
  readonly database: Database
  readonly clock: ManualClock
  /** Fills both slots, as one kind does. */
  readonly provider: FakeProvider
  readonly store: RefundStore
  /** Who gives invoices of Lightning addresses. */
  readonly addresses: { invoiceFor(address: string, amountSats: number): Promise<string> }
  readonly refunds: Refunds
  readonly settlements: RefundSettlements
  /** Every refund that was reported as confirmed. */
  readonly confirmed: Refund[]
  readonly merchant: Merchant
  /** Every change of a payment's status. */
  readonly changes: PaymentChange[]
  readonly call: Call
  /** Another merchant with keys for both slots. */
  newMerchant(): Promise<Merchant>
  /** A paid payment of 1,000 satoshis on the primary provider, with what a test needs different. */
  payment(different?: Partial<Payment>): Promise<Payment>
  stored(invoiceId: string): Promise<Payment>
  /** Another process on the same database. */
  another(store?: RefundStore): Refunds
  /** Another process whose slots have a provider of another kind, which knows nothing of what was sent. */
  ofKind(kind: FakeProvider['kind']): Refunds
}

let count = 0

/** Sets refunds up over `database`. */
export async function fixtureOn(database: Database): Promise<Fixture> {
  const clock = new ManualClock()
  const provider = new FakeProvider(clock)
  const merchants = new MerchantStore(database)
  const payments = new PaymentStore(database)
  const store = new RefundStore(database)
  const payees = new Payees({ primary: { provider, key: null }, alternate: { provider, key: null } }, testSealer)
  const changes: PaymentChange[] = []
  const accounts = new Map<number, Merchant>()
  const paymentChanges = new PaymentChanges({
    store: payments,
    database,
    clock,
    changed: async (_sql, change) => {
      changes.push(change)
    }
  })
  const confirmed: Refund[] = []
  const onConfirmed = async (_sql: unknown, refund: Refund) => {
    confirmed.push(refund)
  }
  const sources = paymentSources(
    {
      refundable: (merchantId, invoiceId) => payments.get(merchantId, invoiceId),
      applyChange: (...change) => paymentChanges.apply(...change)
    },
    payments
  )
  const addresses: Fixture['addresses'] = {
    invoiceFor: async () => {
      throw new Error('no Lightning address is asked here')
    }
  }
  const over = (refundStore: RefundStore, payees: Payees) =>
    new Refunds({
      onConfirmed,
      store: refundStore,
      database,
      clock,
      random: systemRandom,
      log: silentLog,
      payees,
      sources,
      invoiceFor: (address, amountSats) => addresses.invoiceFor(address, amountSats),
      merchants: { byId: async id => accounts.get(id) ?? null }
    })
  const another = (refundStore: RefundStore = store) => over(refundStore, payees)
  const ofKind = (kind: FakeProvider['kind']) => {
    const other = new FakeProvider(clock)
    other.kind = kind
    return over(
      store,
      new Payees({ primary: { provider: other, key: null }, alternate: { provider: other, key: null } }, testSealer)
    )
  }
  const newMerchant = async () => {
    const id = await merchants.nextId()
    const sealed = (slot: 'primary' | 'alternate') =>
      testSealer.seal(`key of ${slot}`, { table: 'merchants', column: `${slot}_key`, row: String(id) })
    count++
    const made = await merchants.insert(
      {
        id,
        name: 'Acme',
        email: `acme-${count}@example.com`,
        keyId: `key${count}`,
        keyDigest: Buffer.alloc(32),
        planTier: 'individual',
        isActive: true,
        subscriptionStatus: 'active',
        refundsEnabled: true,
        multiCurrencyEnabled: true,
        l402Enabled: true,
        primaryKey: sealed('primary'),
        alternateKey: sealed('alternate')
      },
      clock.now()
    )
    accounts.set(id, made)
    return made
  }
  const merchant = await newMerchant()
  const payment = async (different: Partial<Payment> = {}) => {
    const now = clock.now()
    const invoiceId = numericId()
    const row = aPayment({
      invoiceId,
      merchantId: merchant.id,
      orderId: `order-${invoiceId}`,
      status: 'paid',
      amount: '0.00001',
      payToken: `token-${invoiceId}`,
      chargeId: `sbx_${invoiceId}`,
      paymentHash: randomBytes(32).toString('hex'),
      amountSats: 1000,
      createdAt: now,
      expiresAt: now + 3_600_000,
      paidAt: now,
      ...different
    })
    const reservation = {
      merchantId: row.merchantId,
      orderId: row.orderId,
      reservationId: invoiceId,
      heldUntil: now + 1000
    }
    await payments.reserve(reservation, now)
    if ((await payments.insert(row, reservation)) !== 'done') throw new Error('the payment could not be written')
    return row
  }
  const refunds = another()
  const settlements = new RefundSettlements({ store, sources, onConfirmed, database, clock, log: silentLog })
  const upstream = new InternalUpstream([...refundOperations(refunds), ...refundAdminOperations(settlements)])
  const chain = await harness([], { answer: ctx => upstream.handle(ctx), services: { clock } })
  const call: Call = async (method, target, body, as = merchant) => {
    const result = await chain.run({
      method,
      target,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      principal: target.startsWith('/api/admin/') ? { kind: 'admin', id: 'admin' } : principalOfKey(as)
    })
    return {
      status: result.status,
      type: String(result.headers.get('content-type')),
      data: result.text === '' ? {} : (result.json() as Json)
    }
  }
  return {
    database,
    clock,
    provider,
    store,
    addresses,
    refunds,
    settlements,
    confirmed,
    merchant,
    changes,
    call,
    newMerchant,
    payment,
    another,
    ofKind,
    stored: async invoiceId => {
      const found = await payments.byId(invoiceId)
      if (found === null) throw new Error('the payment is gone')
      return found
    }
  }
}

/** A Lightning invoice of a payer, on regtest, for 100 satoshis unless said; good for ten minutes from `clock` on. */
export function invoiceOf(clock: ManualClock, terms: Parameters<typeof newInvoice>[0] = {}): string {
  return newInvoice({ at: clock.now(), ...terms }).invoice
}

/** A Bitcoin address of a payer on `prefix`'s network. */
export function addressOf(prefix = 'bcrt', fill = 3): string {
  return bech32.encode(prefix, [0, ...bech32.toWords(new Uint8Array(20).fill(fill))])
}
