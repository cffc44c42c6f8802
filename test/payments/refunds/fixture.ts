import { testSealer } from '../../support/merchants.ts'
import { randomBytes } from 'node:crypto'
import { bech32 } from '@scure/base'
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
import { paymentSources, type InvoiceFor } from '../../../src/payments/refunds/destination.ts'
import { RefundStore } from '../../../src/payments/refunds/store.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { FakeProvider } from './fake-provider.ts'
import { testServices } from '../../support/plugin-harness.ts'
import { aPayment, caller } from '../payments/fixture.ts'
import { newInvoice } from '../../support/invoices.ts'

export type Json = Record<string, unknown>

let count = 0

/** Refunds over a database, with providers whose every answer a test decides. */
export async function fixtureOn(database: Database) {
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
  /** Every refund that was reported as confirmed. */
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
  /** Who gives invoices of Lightning addresses. */
  const addresses: { invoiceFor: InvoiceFor } = {
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
  /** Another process on the same database. */
  const another = (refundStore: RefundStore = store) => over(refundStore, payees)
  /** Another process whose slots have a provider of another kind, which knows nothing of what was sent. */
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
  /** A paid payment of 1,000 satoshis on the primary provider, with what a test needs different. */
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
  const services = { ...testServices(), clock }
  const ask = await caller([...refundOperations(refunds), ...refundAdminOperations(settlements)], [], services)
  const call = (method: string, target: string, body?: object, as = merchant) =>
    ask(target.startsWith('/api/admin/') ? 'admin' : as, method, target, body)
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
    stored: async (invoiceId: string) => {
      const found = await payments.byId(invoiceId)
      if (found === null) throw new Error('the payment is gone')
      return found
    }
  }
}

export type Fixture = Awaited<ReturnType<typeof fixtureOn>>

/** A Lightning invoice of a payer, on regtest, for 100 satoshis unless said; good for ten minutes from `clock` on. */
export function invoiceOf(clock: ManualClock, terms: Parameters<typeof newInvoice>[0] = {}): string {
  return newInvoice({ at: clock.now(), ...terms }).invoice
}

/** A Bitcoin address of a payer on `prefix`'s network. */
export function addressOf(prefix = 'bcrt', fill = 3): string {
  return bech32.encode(prefix, [0, ...bech32.toWords(new Uint8Array(20).fill(fill))])
}
