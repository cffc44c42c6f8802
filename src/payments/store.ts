import { IdempotencyKeyTaken, type Idempotency, type Kept } from '../gateway/idempotency.ts'
import type { InvoiceNetwork } from '../lightning/bolt11.ts'
import type { Currency } from '../money/currencies.ts'
import { isUniqueViolation, type Database, type Sql, type TransactionSql } from '../database/database.ts'
import { amount, column, integer, optional, records, text, moment, type Records, type Row } from '../database/rows.ts'
import type { ProviderSlot } from '../providers/account.ts'
import type { KindName } from '../providers/provider.ts'
import type { Payment, PaymentStatus } from './schema.ts'

/** The operations that make payments; an idempotency key counts for one of them. */
export type PaymentMaker = 'payment' | 'checkout-session'

/** An idempotency key and the operation that it counts for. */
export interface PaymentKeyUse extends Idempotency {
  readonly operation: PaymentMaker
}

/** How long an order id is held for one create. */
export interface Reservation {
  readonly merchantId: number
  readonly orderId: string
  /** Random; only its holder can give it back. */
  readonly reservationId: string
  /** Milliseconds since the epoch. From then on another create may take the order id: the process has died. */
  readonly heldUntil: number
  /** The key that the payment will have. */
  readonly idempotency?: PaymentKeyUse | null
}

/**
 * What came of an attempt: done; the order id is somebody else's; it is held by a request with the same idempotency key
 * and body or another body; or the merchant is inactive or gone.
 */
export type CreateOutcome = 'done' | 'taken' | 'running' | 'reused' | 'inactive'

/** What is due, and where a list of it goes on. Times in milliseconds since the epoch. */
export interface DuePayment {
  readonly invoiceId: string
  readonly merchantId: number
  readonly at: number
}

/** Whose expiry can be written down. Times in milliseconds since the epoch. */
export type Unexpired =
  /**
   * What expired by `by`, and what expired by `answerless` without an answer of its provider. `elsewhere`: seats whose
   * payments somebody else asks for.
   */
  | { readonly by: number; readonly answerless: number; readonly elsewhere: readonly ProviderSeatName[] }
  /** What expired by `by` of one account in one seat. */
  | { readonly by: number; readonly merchantId: number; readonly seat: ProviderSeatName }

/** A slot and the kind of provider in it. */
export type ProviderSeatName = `${ProviderSlot} ${KindName}`

/** Where payments are kept. */
export interface PaymentStore {
  /**
   * Holds an order id that no payment of the merchant has and that no create of now holds. Of any number of creates
   * with one order id at once, one at most holds it; one whose time is over is replaced.
   */
  reserve(reservation: Reservation, now: number): Promise<CreateOutcome>
  /** Gives the order id back; nothing when the reservation is no longer this one. */
  release(reservation: Reservation): Promise<void>
  /**
   * Writes a payment and drops its reservation, both or neither; `taken` when the reservation has been lost to another
   * create. @throws InvoiceIdTaken, which leaves the reservation as it was; IdempotencyKeyTaken
   */
  insert(payment: Payment, reservation: Reservation): Promise<CreateOutcome>
  /** The merchant's payment, its row locked until the caller's transaction ends; null when there is none. */
  lock(sql: TransactionSql, merchantId: number, invoiceId: string): Promise<Payment | null>
  /** Writes status, `paidAt` and what was received of a payment that the caller has locked. */
  update(sql: TransactionSql, payment: Payment, now: number): Promise<void>
  get(merchantId: number, invoiceId: string): Promise<Payment | null>
  /** Whoever's it is. */
  byId(invoiceId: string): Promise<Payment | null>
  byOrder(merchantId: number, orderId: string): Promise<Payment | null>
  /** What an idempotency key has made; null for nothing. */
  byKey(merchantId: number, operation: PaymentMaker, key: string): Promise<Kept<Payment> | null>
  byPayToken(payToken: string): Promise<Payment | null>
  byPaymentHash(paymentHash: string): Promise<Payment | null>
  /** Demo payments that should have confirmed themselves by `now`, those after `after` first due first. */
  unconfirmed(now: number, after: DuePayment | null, limit: number): Promise<DuePayment[]>
  /**
   * Payments of these that are still written as unpaid, those after `after` first expired first; demo payments are not
   * among them.
   */
  unexpired(of: Unexpired, after: DuePayment | null, limit: number): Promise<DuePayment[]>
  /** When the next demo payment after `now` confirms itself; null when none waits. */
  nextConfirmation(now: number): Promise<number | null>
  /** Gives back order ids whose hold ended before this time; at most `limit`. Returns how many. */
  purgeReservations(before: number, limit: number): Promise<number>
}

/** Another payment, or invoice of a plan, has the id: draw another. */
export class InvoiceIdTaken extends Error {
  override name = 'InvoiceIdTaken'
}

/**
 * Whether a text can be the id of a payment: the database is not asked for others, some of which it could not even
 * read.
 */
export function isInvoiceId(text: string): boolean {
  return /^[1-9]\d{14}$/.test(text)
}

const paymentRows: Records<Payment> = records({
  invoiceId: text(),
  merchantId: integer(),
  orderId: text(),
  status: text<PaymentStatus>(),
  amount: text(),
  currency: text<Currency>(),
  description: optional(text()),
  customerEmail: optional(text()),
  customerName: optional(text()),
  successUrl: optional(text()),
  // Compact JSON, written from such an object only.
  metadata: optional(
    column(
      null,
      (stored: string) => JSON.parse(stored) as Record<string, string>,
      value => JSON.stringify(value)
    )
  ),
  payToken: text(),
  slot: text<ProviderSlot>('provider_slot'),
  kind: text<KindName | 'demo'>('provider_kind'),
  chargeId: text(),
  invoice: text(),
  paymentHash: text(),
  network: text<InvoiceNetwork>(),
  onchainAddress: optional(text()),
  checkoutUrl: optional(text()),
  amountSats: optional(amount()),
  receivedSats: optional(amount()),
  createdAt: moment(),
  expiresAt: moment(),
  confirmsAt: optional(moment()),
  paidAt: optional(moment())
})

const dueRows: Records<DuePayment> = records({ invoiceId: text(), merchantId: integer(), at: moment() })

/** Whether a payment of the account was ever paid, demo payments included. */
export async function hasPaidPayment(sql: Sql, merchantId: number): Promise<boolean> {
  const [row] = await sql`select 1 from payments where merchant_id = ${merchantId} and paid_at is not null limit 1`
  return row !== undefined
}

/** Payments in the SQL database. */
export class SqlPaymentStore implements PaymentStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async reserve(reservation: Reservation, now: number): Promise<CreateOutcome> {
    const { merchantId, orderId, reservationId, heldUntil, idempotency = null } = reservation
    const { sql } = this.#database
    const [held] = await sql`
      insert into payment_reservations (
        merchant_id, order_id, reservation_id, held_until, idempotency_operation, idempotency_key, idempotency_fingerprint)
      select id, ${orderId}, ${reservationId}, ${new Date(heldUntil)},
        ${idempotency?.operation ?? null}, ${idempotency?.key ?? null}, ${idempotency?.fingerprint ?? null}
      from merchants where id = ${merchantId} and is_active
      on conflict (merchant_id, order_id) do update set reservation_id = excluded.reservation_id, held_until = excluded.held_until,
        idempotency_operation = excluded.idempotency_operation, idempotency_key = excluded.idempotency_key,
        idempotency_fingerprint = excluded.idempotency_fingerprint
        where payment_reservations.held_until <= ${new Date(now)}
      returning 1`
    if (held === undefined) {
      const [active] = await sql`select 1 from merchants where id = ${merchantId} and is_active`
      if (active === undefined) return 'inactive'
      return idempotency === null ? 'taken' : await this.#heldBy(merchantId, orderId, idempotency)
    }
    // Only now: a create that ended a moment ago has written its payment and dropped its reservation together.
    const [payment] = await sql`select 1 from payments where merchant_id = ${merchantId} and order_id = ${orderId}`
    if (payment === undefined) return 'done'
    await this.release(reservation)
    return 'taken'
  }

  /** Whether the request that holds an order id is this one's first. */
  async #heldBy(
    merchantId: number,
    orderId: string,
    { operation, key, fingerprint }: PaymentKeyUse
  ): Promise<CreateOutcome> {
    const [held] = await this.#database.sql<Array<{ idempotency_fingerprint: string }>>`
      select idempotency_fingerprint from payment_reservations
      where merchant_id = ${merchantId} and order_id = ${orderId} and idempotency_operation = ${operation} and idempotency_key = ${key}`
    if (held === undefined) return 'taken'
    return held.idempotency_fingerprint === fingerprint ? 'running' : 'reused'
  }

  async release({ merchantId, orderId, reservationId }: Reservation): Promise<void> {
    await this.#database.sql`
      delete from payment_reservations where merchant_id = ${merchantId} and order_id = ${orderId} and reservation_id = ${reservationId}`
  }

  async insert(
    payment: Payment,
    { merchantId, orderId, reservationId, idempotency = null }: Reservation
  ): Promise<CreateOutcome> {
    try {
      return await this.#database.transaction(async tx => {
        const dropped = await tx`
          delete from payment_reservations where merchant_id = ${merchantId} and order_id = ${orderId} and reservation_id = ${reservationId}`
        if (dropped.count === 0) return 'taken'
        const [active] = await tx`select 1 from merchants where id = ${merchantId} and is_active for share`
        if (active === undefined) return 'inactive'
        await tx`insert into payments ${tx({ ...paymentRows.write(tx, payment), updated_at: new Date(payment.createdAt), ...keyColumns(idempotency) })}`
        return 'done'
      })
    } catch (error) {
      if (isUniqueViolation(error, 'payments_pkey'))
        throw new InvoiceIdTaken('the invoice id is taken', { cause: error })
      if (isUniqueViolation(error, 'payments_of_idempotency_key')) throw new IdempotencyKeyTaken()
      if (isUniqueViolation(error, 'payments_merchant_id_order_id_key')) return 'taken'
      throw error
    }
  }

  async lock(sql: TransactionSql, merchantId: number, invoiceId: string): Promise<Payment | null> {
    if (!isInvoiceId(invoiceId)) return null
    return await paymentRows.one(
      sql`select * from payments where invoice_id = ${invoiceId} and merchant_id = ${merchantId} for update`
    )
  }

  async update(sql: TransactionSql, { invoiceId, status, paidAt, receivedSats }: Payment, now: number): Promise<void> {
    await sql`
      update payments set ${sql({ ...paymentRows.write(sql, { status, paidAt, receivedSats }), updated_at: new Date(now) })}
      where invoice_id = ${invoiceId}`
  }

  get(merchantId: number, invoiceId: string): Promise<Payment | null> {
    return this.#one(sql => sql`invoice_id = ${invoiceId} and merchant_id = ${merchantId}`)
  }

  byId(invoiceId: string): Promise<Payment | null> {
    return this.#one(sql => sql`invoice_id = ${invoiceId}`)
  }

  byOrder(merchantId: number, orderId: string): Promise<Payment | null> {
    return this.#one(sql => sql`merchant_id = ${merchantId} and order_id = ${orderId}`)
  }

  async byKey(merchantId: number, operation: PaymentMaker, key: string): Promise<Kept<Payment> | null> {
    const [row] = await this.#database.sql<Array<Row & { readonly idempotency_fingerprint: string }>>`
      select * from payments where merchant_id = ${merchantId} and idempotency_operation = ${operation} and idempotency_key = ${key}`
    return row === undefined ? null : { made: paymentRows.read(row), fingerprint: row.idempotency_fingerprint }
  }

  byPayToken(payToken: string): Promise<Payment | null> {
    return this.#one(sql => sql`pay_token = ${payToken}`)
  }

  byPaymentHash(paymentHash: string): Promise<Payment | null> {
    return this.#one(sql => sql`payment_hash = ${paymentHash}`)
  }

  async unconfirmed(now: number, after: DuePayment | null, limit: number): Promise<DuePayment[]> {
    return await dueRows.all(this.#database.sql`
      select invoice_id, merchant_id, confirms_at as at from payments
      where status = 'unpaid' and confirms_at <= ${new Date(now)} and (confirms_at, invoice_id) > (${new Date(after?.at ?? 0)}, ${after?.invoiceId ?? ''})
      order by confirms_at, invoice_id limit ${limit}`)
  }

  async unexpired(of: Unexpired, after: DuePayment | null, limit: number): Promise<DuePayment[]> {
    const { sql } = this.#database
    const whose =
      'seat' in of
        ? sql`merchant_id = ${of.merchantId} and provider_slot || ' ' || provider_kind = ${of.seat}`
        : sql`(expires_at <= ${new Date(of.answerless)} or not provider_slot || ' ' || provider_kind = any(${of.elsewhere.slice()}::text[]))`
    return await dueRows.all(sql`
      select invoice_id, merchant_id, expires_at as at from payments
      where status = 'unpaid' and confirms_at is null and expires_at <= ${new Date(of.by)} and ${whose}
        and (expires_at, invoice_id) > (${new Date(after?.at ?? 0)}, ${after?.invoiceId ?? ''})
      order by expires_at, invoice_id limit ${limit}`)
  }

  async purgeReservations(before: number, limit: number): Promise<number> {
    const gone = await this.#database.sql`
      delete from payment_reservations where (merchant_id, order_id) in (
        select merchant_id, order_id from payment_reservations where held_until < ${new Date(before)} limit ${limit})
      and held_until < ${new Date(before)}`
    return gone.count
  }

  async nextConfirmation(now: number): Promise<number | null> {
    const [row] = await this.#database.sql<Array<{ at: Date | null }>>`
      select min(confirms_at) as at from payments where status = 'unpaid' and confirms_at > ${new Date(now)}`
    return row?.at?.getTime() ?? null
  }

  async #one(where: (sql: Sql) => ReturnType<Sql>): Promise<Payment | null> {
    const { sql } = this.#database
    return await paymentRows.one(sql`select * from payments where ${where(sql)}`)
  }
}

function keyColumns(idempotency: PaymentKeyUse | null) {
  return {
    idempotency_operation: idempotency?.operation ?? null,
    idempotency_key: idempotency?.key ?? null,
    idempotency_fingerprint: idempotency?.fingerprint ?? null
  }
}
