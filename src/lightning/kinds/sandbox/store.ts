import { Batch } from '../../../platform/database/batch.ts'
import type { Sql } from '../../../platform/database/database.ts'
import { overRows } from '../../../platform/database/given-rows.ts'
import { amount, optional, records, text, moment, type Records, type Row } from '../../../platform/database/rows.ts'

/** An invoice of the sandbox as it is remembered. The preimage is in the clear: no money hangs on it. */
export interface SandboxInvoice {
  /** `sbx_<uuid>` (decision 116). */
  readonly chargeId: string
  /** 64 lower-case hex characters. */
  readonly paymentHash: string
  /** 64 lower-case hex characters. */
  readonly preimage: string
  /** BOLT 11, lower case. */
  readonly invoice: string
  readonly amountSats: number
  readonly description: string
  /** Milliseconds since the epoch, as the two below. */
  readonly createdAt: number
  readonly expiresAt: number
  readonly settledAt: number | null
  /**
   * What somebody who tries things out had it become; null for nothing. It says nothing any more once it is settled.
   */
  readonly state: 'processing' | 'underpaid' | null
  /** Satoshis that came in part. */
  readonly receivedSats: number
}

/** An invoice as it is made. */
export type NewSandboxInvoice = Omit<SandboxInvoice, 'settledAt' | 'state' | 'receivedSats'>

/** A state that an unpaid invoice can be brought into. */
export type SandboxState =
  | { readonly state: 'processing' | 'expired' }
  | { readonly state: 'underpaid'; /** Less than the invoice asks for. */ readonly receivedSats: number }

/** What came of settling. */
export type SandboxSettlement =
  | { readonly kind: 'paid'; readonly invoice: SandboxInvoice }
  | { readonly kind: 'expired'; readonly invoice: SandboxInvoice }
  | { readonly kind: 'unknown' }

/** What the sandbox paid out, as it remembers it. */
export interface SandboxPayout {
  readonly payoutId: string
  /** Whoever asked for it knows it by this. */
  readonly reference: string
  readonly type: 'chain' | 'ln'
  /** A BOLT 11 invoice in lower case, or an address. */
  readonly destination: string
  /** 64 lower-case hex characters, of a Lightning payout's invoice; null over the chain. */
  readonly paymentHash: string | null
  readonly amountSats: number
  readonly feeSats: number
  /** 64 lower-case hex characters, of a payout over the chain; null over Lightning. */
  readonly transactionHash: string | null
  /** Milliseconds since the epoch, as the one below. */
  readonly createdAt: number
  /** When it is paid, or broadcast. */
  readonly confirmsAt: number
}

/** What came of paying out. */
export type PayoutVerdict =
  | {
      readonly kind: 'paid'
      readonly payout: SandboxPayout
      /** Whether an invoice of the sandbox's own was settled now. */ readonly settled: boolean
    }
  | { readonly kind: 'already paid' }

/** The sandbox's memory of its invoices and payouts. */
export interface SandboxStore {
  /** Remembers a new invoice; once it resolves, any process can settle it. */
  insert(invoice: NewSandboxInvoice): Promise<void>
  byChargeId(chargeId: string): Promise<SandboxInvoice | null>
  byPaymentHash(paymentHash: string): Promise<SandboxInvoice | null>
  /**
   * Brings an invoice that can still be paid into a state, as payments come there: what came in part is only ever more,
   * and neither expires nor becomes undecided again. `now` in milliseconds. @returns the invoice, or null where it
   * cannot become that
   */
  bring(paymentHash: string, to: SandboxState, now: number): Promise<SandboxInvoice | null>
  /**
   * Settles the invoice with this hash in one statement: of many at once each is told `paid` with the same preimage and
   * the same first `settledAt`. An expired one is never settled, one settled in time stays paid afterwards.
   * `now` in milliseconds.
   */
  settle(paymentHash: string, now: number): Promise<SandboxSettlement>
  /**
   * Remembers a payout and settles the invoice that it pays, where that is the sandbox's own, in one statement. One
   * with the same reference is answered as it is, and nothing is paid; no invoice is ever paid out twice.
   */
  payOut(payout: SandboxPayout): Promise<PayoutVerdict>
  payoutByReference(reference: string): Promise<SandboxPayout | null>
  /** Forgets invoices that expired before `before` (milliseconds), at most `limit` of them. @returns how many went. */
  purge(before: number, limit: number): Promise<number>
}

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

/** The sandbox's memory in the database's tables `sandbox_invoices` and `sandbox_payouts`. */
export class SqlSandboxStore implements SandboxStore {
  readonly #sql: Sql
  readonly #inserts: Batch<NewSandboxInvoice, null>

  /** `sql` is the database's own handle. */
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
    // The same reference as before, or else an invoice that has been paid.
    const first = await this.payoutByReference(payout.reference)
    return first === null ? { kind: 'already paid' } : { kind: 'paid', payout: first, settled: false }
  }

  async payoutByReference(reference: string): Promise<SandboxPayout | null> {
    const sql = this.#sql
    return await payoutRows.one(sql`select * from sandbox_payouts where reference = ${reference}`)
  }

  async purge(before: number, limit: number): Promise<number> {
    const sql = this.#sql
    const gone = await sql`
      delete from sandbox_invoices where charge_id in (
        select charge_id from sandbox_invoices where expires_at < ${new Date(before)} order by expires_at limit ${limit})`
    return gone.count
  }
}
