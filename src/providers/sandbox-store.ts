import type { Sql } from '../platform/database.ts'

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
}

/** What came of settling. */
export type Settlement =
  | { readonly kind: 'paid', readonly invoice: SandboxInvoice }
  | { readonly kind: 'expired', readonly invoice: SandboxInvoice }
  | { readonly kind: 'unknown' }

/** The sandbox's memory of its invoices. */
export interface SandboxStore {
  /** Remembers a new invoice; once it resolves, any process can settle it. */
  insert (invoice: Omit<SandboxInvoice, 'settledAt'>): Promise<void>
  byChargeId (chargeId: string): Promise<SandboxInvoice | null>
  /**
   * Settles the invoice with this hash in one statement: of many at once each is told `paid` with the same preimage and the
   * same first `settledAt`. An expired one is never settled, one settled in time stays paid afterwards.
   * `now` in milliseconds.
   */
  settle (paymentHash: string, now: number): Promise<Settlement>
  /** Forgets invoices that expired before `before` (milliseconds), at most `limit` of them. @returns how many went. */
  purge (before: number, limit: number): Promise<number>
}

interface Row {
  charge_id: string
  payment_hash: string
  preimage: string
  invoice: string
  amount_sats: bigint
  description: string
  created_at: Date
  expires_at: Date
  settled_at: Date | null
}

/** The sandbox's memory in the database's table `sandbox_invoices`. */
export class SqlSandboxStore implements SandboxStore {
  readonly #sql: Sql

  constructor (sql: Sql) {
    this.#sql = sql
  }

  async insert (invoice: Omit<SandboxInvoice, 'settledAt'>): Promise<void> {
    const sql = this.#sql
    await sql`
      insert into sandbox_invoices (charge_id, payment_hash, preimage, invoice, amount_sats, description, created_at, expires_at)
      values (${invoice.chargeId}, ${invoice.paymentHash}, ${invoice.preimage}, ${invoice.invoice}, ${invoice.amountSats},
        ${invoice.description}, ${new Date(invoice.createdAt)}, ${new Date(invoice.expiresAt)})`
  }

  async byChargeId (chargeId: string): Promise<SandboxInvoice | null> {
    const sql = this.#sql
    const [row] = await sql<Row[]>`select * from sandbox_invoices where charge_id = ${chargeId}`
    return row === undefined ? null : read(row)
  }

  async settle (paymentHash: string, now: number): Promise<Settlement> {
    const sql = this.#sql
    const [settled] = await sql<Row[]>`
      update sandbox_invoices set settled_at = coalesce(settled_at, ${new Date(now)})
      where payment_hash = ${paymentHash} and (settled_at is not null or expires_at > ${new Date(now)})
      returning *`
    if (settled !== undefined) return { kind: 'paid', invoice: read(settled) }
    const [left] = await sql<Row[]>`select * from sandbox_invoices where payment_hash = ${paymentHash}`
    return left === undefined ? { kind: 'unknown' } : { kind: 'expired', invoice: read(left) }
  }

  async purge (before: number, limit: number): Promise<number> {
    const sql = this.#sql
    const gone = await sql`
      delete from sandbox_invoices where charge_id in (
        select charge_id from sandbox_invoices where expires_at < ${new Date(before)} order by expires_at limit ${limit})`
    return gone.count
  }
}

function read (row: Row): SandboxInvoice {
  return {
    chargeId: row.charge_id,
    paymentHash: row.payment_hash,
    preimage: row.preimage,
    invoice: row.invoice,
    amountSats: Number(row.amount_sats),
    description: row.description,
    createdAt: row.created_at.getTime(),
    expiresAt: row.expires_at.getTime(),
    settledAt: row.settled_at === null ? null : row.settled_at.getTime()
  }
}
