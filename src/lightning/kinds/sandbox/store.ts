import { Batch } from '../../../platform/database/batch.ts'
import type { Sql } from '../../../platform/database/database.ts'
import { overRows } from '../../../platform/database/given-rows.ts'
import { amount, optional, records, text, moment, type Records, type Row } from '../../../platform/database/rows.ts'

/** The preimage is stored in the clear: no money depends on it. */
interface SandboxInvoice {
  /** `sbx_<uuid>` (decision 116). */
  readonly chargeId: string
  readonly paymentHash: string
  readonly preimage: string
  readonly invoice: string
  readonly amountSats: number
  readonly description: string
  /** Milliseconds since the epoch, as the next two. */
  readonly createdAt: number
  readonly expiresAt: number
  readonly settledAt: number | null
  /** State forced for tests; null for none. Ignored once settled. */
  readonly state: 'processing' | 'underpaid' | null
  readonly receivedSats: number
}

type NewSandboxInvoice = Omit<SandboxInvoice, 'settledAt' | 'state' | 'receivedSats'>

export type SandboxState =
  | { readonly state: 'processing' | 'expired' }
  | { readonly state: 'underpaid'; /** Less than the invoice asks for. */ readonly receivedSats: number }

type SandboxSettlement =
  | { readonly kind: 'paid' | 'expired'; readonly invoice: SandboxInvoice }
  | { readonly kind: 'unknown' }

export interface SandboxPayout {
  readonly payoutId: string
  readonly reference: string
  readonly type: 'chain' | 'ln'
  /** A lower-case BOLT 11 invoice, or an address. */
  readonly destination: string
  /** 64 lower-case hex characters of a Lightning payout's invoice; null on chain. */
  readonly paymentHash: string | null
  readonly amountSats: number
  readonly feeSats: number
  /** 64 lower-case hex characters of an on-chain payout; null over Lightning. */
  readonly transactionHash: string | null
  /** Milliseconds since the epoch, as `confirmsAt`. */
  readonly createdAt: number
  /** When it is paid, or broadcast. */
  readonly confirmsAt: number
}

type PayoutVerdict =
  | {
      readonly kind: 'paid'
      readonly payout: SandboxPayout
      /** Whether one of the sandbox's own invoices settled now. */ readonly settled: boolean
    }
  | { readonly kind: 'already paid' }

const invoiceRows: Records<SandboxInvoice> = records({
  chargeId: text(),
  paymentHash: text(),
  preimage: text(),
  invoice: text(),
  amountSats: amount(),
  description: text(),
  createdAt: moment(),
  expiresAt: moment(),
  settledAt: optional(moment()),
  state: optional(text<'processing' | 'underpaid'>()),
  receivedSats: amount()
})

const payoutRows: Records<SandboxPayout> = records({
  payoutId: text(),
  reference: text(),
  type: text<'chain' | 'ln'>(),
  destination: text(),
  paymentHash: optional(text()),
  amountSats: amount(),
  feeSats: amount(),
  transactionHash: optional(text()),
  createdAt: moment(),
  confirmsAt: moment()
})

const INSERT = overRows<NewSandboxInvoice>(
  {
    charge_id: ['text', row => row.chargeId],
    payment_hash: ['text', row => row.paymentHash],
    preimage: ['text', row => row.preimage],
    invoice: ['text', row => row.invoice],
    amount_sats: ['bigint', row => row.amountSats],
    description: ['text', row => row.description],
    created_at: ['timestamptz', row => row.createdAt],
    expires_at: ['timestamptz', row => row.expiresAt]
  },
  (given, columns) => `insert into sandbox_invoices (${columns}) select ${columns} from ${given}`
)

export class SandboxStore {
  readonly #sql: Sql
  readonly #inserts: Batch<NewSandboxInvoice, null>

  constructor(sql: Sql) {
    this.#sql = sql
    this.#inserts = new Batch({
      key: row => row.paymentHash,
      write: async rows => {
        await INSERT.one(sql, rows)
        return rows.map(() => null)
      }
    })
  }

  /** Inserts an invoice; afterwards any process can settle it. */
  async insert(invoice: NewSandboxInvoice): Promise<void> {
    await this.#inserts.add(invoice)
  }

  async byChargeId(chargeId: string): Promise<SandboxInvoice | null> {
    const sql = this.#sql
    return await invoiceRows.one(sql`select * from sandbox_invoices where charge_id = ${chargeId}`)
  }

  async byPaymentHash(paymentHash: string): Promise<SandboxInvoice | null> {
    const sql = this.#sql
    return await invoiceRows.one(sql`select * from sandbox_invoices where payment_hash = ${paymentHash}`)
  }

  /**
   * Brings a payable invoice into a state. Partial amounts only grow, and never expire or reset.
   * @returns the invoice, or null where impossible
   */
  async bring(paymentHash: string, to: SandboxState, now: number): Promise<SandboxInvoice | null> {
    const sql = this.#sql
    const at = new Date(now)
    const open = sql`payment_hash = ${paymentHash} and settled_at is null and expires_at > ${at}`
    return await invoiceRows.one(
      to.state === 'underpaid'
        ? sql`
          update sandbox_invoices set state = 'underpaid', received_sats = ${to.receivedSats}
          where ${open} and received_sats < ${to.receivedSats} and amount_sats > ${to.receivedSats} returning *`
        : to.state === 'processing'
          ? sql`update sandbox_invoices set state = 'processing' where ${open} and state is distinct from 'underpaid' returning *`
          : sql`update sandbox_invoices set state = null, expires_at = ${at} where ${open} and state is distinct from 'underpaid' returning *`
    )
  }

  /**
   * Settles an invoice in one statement: concurrent callers all get `paid` with the same preimage and first
   * `settledAt`. Expired ones never settle; one settled in time stays paid.
   */
  async settle(paymentHash: string, now: number): Promise<SandboxSettlement> {
    const sql = this.#sql
    const settled = await invoiceRows.one(sql`
      update sandbox_invoices set settled_at = coalesce(settled_at, ${new Date(now)})
      where payment_hash = ${paymentHash} and (settled_at is not null or expires_at > ${new Date(now)})
      returning *`)
    if (settled !== null) return { kind: 'paid', invoice: settled }
    const left = await this.byPaymentHash(paymentHash)
    return left === null ? { kind: 'unknown' } : { kind: 'expired', invoice: left }
  }

  /**
   * Inserts a payout and settles its invoice, if the sandbox's own, in one statement. A known reference is returned
   * unchanged; no invoice is paid twice.
   */
  async payOut(payout: SandboxPayout): Promise<PayoutVerdict> {
    const sql = this.#sql
    const now = new Date(payout.createdAt)
    const [row] = await sql<Array<Row & { settled: boolean }>>`
      with paid as (
        insert into sandbox_payouts (payout_id, reference, type, destination, payment_hash, amount_sats, fee_sats, transaction_hash, created_at, confirms_at)
        select ${payout.payoutId}, ${payout.reference}, ${payout.type}, ${payout.destination}, ${payout.paymentHash}, ${payout.amountSats}::bigint,
          ${payout.feeSats}::bigint, ${payout.transactionHash}, ${now}::timestamptz, ${new Date(payout.confirmsAt)}::timestamptz
        where not exists (select 1 from sandbox_invoices where payment_hash = ${payout.paymentHash} and settled_at is not null)
        on conflict do nothing
        returning *),
      settled as (
        update sandbox_invoices set settled_at = ${now} where settled_at is null and payment_hash = (select payment_hash from paid)
        returning charge_id)
      select paid.*, exists (select 1 from settled) as settled from paid`
    if (row !== undefined) return { kind: 'paid', payout: payoutRows.read(row), settled: row.settled }
    // A known reference, or an invoice already paid.
    const first = await this.payoutByReference(payout.reference)
    return first === null ? { kind: 'already paid' } : { kind: 'paid', payout: first, settled: false }
  }

  async payoutByReference(reference: string): Promise<SandboxPayout | null> {
    const sql = this.#sql
    return await payoutRows.one(sql`select * from sandbox_payouts where reference = ${reference}`)
  }

  /**
   * Deletes up to `limit` invoices that expired before `before` (milliseconds).
   * @returns the count
   */
  async purge(before: number, limit: number): Promise<number> {
    const sql = this.#sql
    const gone = await sql`
      delete from sandbox_invoices where charge_id in (
        select charge_id from sandbox_invoices where expires_at < ${new Date(before)} order by expires_at limit ${limit})`
    return gone.count
  }
}
