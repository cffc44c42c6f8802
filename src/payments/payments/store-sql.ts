import type { KeysetPage, ListTotal } from '../../engine/operations/keyset.ts'
import { IdempotencyKeyTaken, KEY_LIFETIME, type Kept } from '../../engine/message/idempotency.ts'
import { Batch } from '../../platform/database/batch.ts'
import { sumOf, withOwnPlan } from '../../platform/database/own-plan.ts'
import { isUniqueViolation, type Database, type Sql, type TransactionSql } from '../../platform/database/database.ts'
import { overRows, type GivenColumn } from '../../platform/database/given-rows.ts'
import { sharedLookup, containing, integer, records, text, moment, type Row } from '../../platform/database/rows.ts'
import { paymentFields, type Payment } from './schema.ts'
import {
  InvoiceIdTaken,
  type CreateOutcome,
  type DuePayment,
  type PaymentFilter,
  type PaymentKey,
  type PaymentKeyUse,
  type PaymentMaker,
  type ProviderSeatName,
  type Reservation,
  type Unexpired
} from './store.ts'

const paymentRows = records(paymentFields)
const dueRows = records({ invoiceId: text(), merchantId: integer(), at: moment() })

const keyColumns = {
  idempotency_operation: ['text', ({ idempotency }) => idempotency?.operation ?? null],
  idempotency_key: ['text', ({ idempotency }) => idempotency?.key ?? null],
  idempotency_fingerprint: ['text', ({ idempotency }) => idempotency?.fingerprint ?? null]
} satisfies Record<string, GivenColumn<Pick<Reservation, 'idempotency'>>>

const RESERVE = overRows<Reservation & { readonly now: number }>(
  {
    merchant_id: ['integer', row => row.merchantId],
    order_id: ['text', row => row.orderId],
    reservation_id: ['text', row => row.reservationId],
    held_until: ['timestamptz', row => row.heldUntil],
    now: ['timestamptz', row => row.now],
    ...keyColumns
  },
  given => `
    with asked as (select * from ${given}),
    held as (
      insert into payment_reservations (
        merchant_id, order_id, reservation_id, held_until, idempotency_operation, idempotency_key, idempotency_fingerprint)
      select merchant_id, order_id, reservation_id, held_until, idempotency_operation, idempotency_key, idempotency_fingerprint
      from asked
      where exists (select from merchants where merchants.id = asked.merchant_id and is_active)
        and not exists (
          select from payments where payments.merchant_id = asked.merchant_id and payments.order_id = asked.order_id)
      on conflict (merchant_id, order_id) do update set reservation_id = excluded.reservation_id, held_until = excluded.held_until,
        idempotency_operation = excluded.idempotency_operation, idempotency_key = excluded.idempotency_key,
        idempotency_fingerprint = excluded.idempotency_fingerprint
        where payment_reservations.held_until <= (select now from asked where asked.reservation_id = excluded.reservation_id)
      returning reservation_id)
    select nth from asked join held using (reservation_id)`,
  { locks: true }
)

type NewPayment = Payment & Pick<Reservation, 'reservationId' | 'idempotency'>

/** Others are text. */
const givenTypes: { readonly [K in keyof Payment]?: GivenColumn<never>[0] } = {
  merchantId: 'integer',
  amount: 'numeric',
  amountSats: 'bigint',
  receivedSats: 'bigint',
  createdAt: 'timestamptz',
  expiresAt: 'timestamptz',
  confirmsAt: 'timestamptz',
  paidAt: 'timestamptz'
}
const members = Object.keys(paymentFields) as ReadonlyArray<keyof Payment> /* the object's own keys */
const newPaymentColumns: Readonly<Record<string, GivenColumn<NewPayment>>> = {
  ...Object.fromEntries(
    members.map((member, at): [string, GivenColumn<NewPayment>] => [
      paymentRows.names[at] ?? member,
      [
        givenTypes[member] ?? 'text',
        row => {
          const value = row[member]
          return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
        }
      ]
    ])
  ),
  updated_at: ['timestamptz', row => row.createdAt],
  ...keyColumns
}

/**
 * Drops reservations that are still held and returns them with whether the account is active; only then is the payment
 * written. Locks the account's row, which orders payments and deactivation.
 */
const INSERT = overRows<NewPayment>(
  { ...newPaymentColumns, reservation_id: ['text', row => row.reservationId] },
  given => {
    const columns = Object.keys(newPaymentColumns)
    return `
      with asked as (select * from ${given}),
      dropped as (
        delete from payment_reservations using asked
        where payment_reservations.merchant_id = asked.merchant_id and payment_reservations.order_id = asked.order_id
          and payment_reservations.reservation_id = asked.reservation_id
        returning asked.nth, asked.merchant_id),
      active as (
        select id from merchants where id in (select merchant_id from dropped) and is_active order by id for share),
      made as (
        insert into payments (${columns.join(', ')})
        select ${columns.map(name => `asked.${name}`).join(', ')}
        from asked join dropped using (nth) join active on active.id = asked.merchant_id)
      select nth, active.id is not null as active from dropped left join active on active.id = dropped.merchant_id`
  },
  { locks: true }
)

const ROW_BYTES = 1_200

const FIND = overRows<PaymentKey>(
  { id: ['text', row => row.invoiceId], merchant: ['integer', row => row.merchantId] },
  given => `
    select payments.*, given.nth from ${given}
    join payments on payments.invoice_id = given.id and payments.merchant_id = given.merchant`
)

export class PaymentStore {
  readonly #database: Database
  readonly #reservations: Batch<Reservation & { readonly now: number }, boolean>
  readonly #inserts: Batch<NewPayment, CreateOutcome>
  readonly #find: (look: PaymentKey) => Promise<Payment | null>

  constructor(database: Database) {
    this.#database = database
    const { sql } = database
    this.#reservations = new Batch({
      key: row => orderKey(row),
      write: async rows => (await RESERVE.one(sql, rows)).map(held => held !== null)
    })
    this.#inserts = new Batch({
      key: row => orderKey(row),
      size: ({ invoice, description, metadata }) =>
        ROW_BYTES +
        invoice.length +
        (description?.length ?? 0) +
        (metadata === null ? 0 : JSON.stringify(metadata).length),
      write: async rows =>
        (await INSERT.one(sql, rows)).map((dropped): CreateOutcome =>
          dropped === null ? 'taken' : dropped['active'] === true ? 'done' : 'inactive'
        )
    })
    this.#find = sharedLookup({
      key: ({ merchantId, invoiceId }) => `${merchantId} ${invoiceId}`,
      find: async looks => (await FIND.one(sql, looks)).map(row => (row === null ? null : paymentRows.read(row)))
    })
  }

  /**
   * Holds an unused order id; of concurrent creates at most one holds it. An expired hold is replaced. Never call
   * inside a transaction; the same for `insert`.
   */
  async reserve(reservation: Reservation, now: number): Promise<CreateOutcome> {
    if (await this.#hold(reservation, now)) return 'done'
    const { merchantId, idempotency = null } = reservation
    const [active] = await this.#database.sql`select 1 from merchants where id = ${merchantId} and is_active`
    if (active === undefined) return 'inactive'
    return idempotency === null ? 'taken' : await this.#heldBy(reservation, idempotency, now)
  }

  async #hold(reservation: Reservation, now: number): Promise<boolean> {
    try {
      return await this.#reservations.add({ ...reservation, now })
    } catch (error) {
      // A concurrent create has just written it (migration 0055).
      if (isUniqueViolation(error, 'payments_merchant_id_order_id_key')) return false
      throw error
    }
  }

  async #heldBy(
    { merchantId, orderId }: Reservation,
    { operation, key, fingerprint }: PaymentKeyUse,
    now: number
  ): Promise<CreateOutcome> {
    const [held] = await this.#database.sql<Array<{ idempotency_fingerprint: string }>>`
      select idempotency_fingerprint from payment_reservations
      where merchant_id = ${merchantId} and order_id = ${orderId} and held_until > ${new Date(now)}
        and idempotency_operation = ${operation} and idempotency_key = ${key}`
    if (held === undefined) return 'taken'
    return held.idempotency_fingerprint === fingerprint ? 'running' : 'reused'
  }

  async release({ merchantId, orderId, reservationId }: Reservation): Promise<void> {
    await this.#database.sql`
      delete from payment_reservations where merchant_id = ${merchantId} and order_id = ${orderId} and reservation_id = ${reservationId}`
  }

  /**
   * Writes a payment and drops its reservation atomically; `taken` when another create took the reservation.
   * @throws InvoiceIdTaken, which keeps the reservation; IdempotencyKeyTaken
   */
  async insert(payment: Payment, reservation: Reservation): Promise<CreateOutcome> {
    const { reservationId, idempotency = null } = reservation
    try {
      return await this.#inserts.add({ ...payment, reservationId, idempotency })
    } catch (error) {
      if (isUniqueViolation(error, 'payments_pkey'))
        throw new InvoiceIdTaken('the invoice id is taken', { cause: error })
      if (isUniqueViolation(error, 'payments_of_idempotency_key')) {
        if (idempotency === null || !(await this.#freeKey(payment, idempotency))) throw new IdempotencyKeyTaken()
        return await this.insert(payment, reservation)
      }
      if (isUniqueViolation(error, 'payments_merchant_id_order_id_key')) return 'taken'
      throw error
    }
  }

  async lock(sql: TransactionSql, merchantId: number, invoiceId: string): Promise<Payment | null> {
    return await paymentRows.one(
      sql`select * from payments where invoice_id = ${invoiceId} and merchant_id = ${merchantId} for update`
    )
  }

  /** Writes status, `paidAt` and `receivedSats` of a locked payment. */
  async update(sql: TransactionSql, { invoiceId, status, paidAt, receivedSats }: Payment, now: number): Promise<void> {
    // Sums use the time of writing; rows of older versions have the provider's.
    const sold = paidAt === null ? sql`` : sql`, sold_at = coalesce(sold_at, paid_at, ${new Date(now)}::timestamptz)`
    await sql`
      update payments set ${sql({ ...paymentRows.write(sql, { status, paidAt, receivedSats }), updated_at: new Date(now) })} ${sold}
      where invoice_id = ${invoiceId}`
  }

  get(merchantId: number, invoiceId: string): Promise<Payment | null> {
    return this.#find({ merchantId, invoiceId })
  }

  byId(invoiceId: string): Promise<Payment | null> {
    return this.#one(sql => sql`invoice_id = ${invoiceId}`)
  }

  byOrder(merchantId: number, orderId: string): Promise<Payment | null> {
    return this.#one(sql => sql`merchant_id = ${merchantId} and order_id = ${orderId}`)
  }

  /** Newest first. */
  async list(filter: PaymentFilter, page: KeysetPage): Promise<Payment[]> {
    return await withOwnPlan(this.#database, sql => paymentRows.all(listed(sql, filter, page)))
  }

  /** Count of at most `MOST_SUMMED`, and what came in for them. */
  async sum(filter: PaymentFilter): Promise<ListTotal> {
    return await sumOf(
      this.#database,
      sql => sql`
        select case when ${readsAs(sql, filter.now)} = 'paid' then coalesce(received_sats, amount_sats) else received_sats end as sats
        from payments where ${matches(sql, filter)} order by created_at desc`
    )
  }

  async byKey(merchantId: number, operation: PaymentMaker, key: string): Promise<Kept<Payment> | null> {
    const [row] = await this.#database.sql<Array<Row & { readonly idempotency_fingerprint: string }>>`
      select * from payments where merchant_id = ${merchantId} and idempotency_operation = ${operation} and idempotency_key = ${key}`
    if (row === undefined) return null
    const created = paymentRows.read(row)
    return { made: created, fingerprint: row.idempotency_fingerprint, freeAt: created.createdAt + KEY_LIFETIME }
  }

  /** Frees a key used by another body more than a day ago; false without one. */
  async #freeKey({ merchantId, createdAt }: Payment, { operation, key, fingerprint }: PaymentKeyUse): Promise<boolean> {
    const freed = await this.#database.sql`
      update payments set idempotency_operation = null, idempotency_key = null, idempotency_fingerprint = null
      where merchant_id = ${merchantId} and idempotency_operation = ${operation} and idempotency_key = ${key}
        and idempotency_fingerprint <> ${fingerprint} and created_at <= ${new Date(createdAt - KEY_LIFETIME)}`
    return freed.count > 0
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
        : sql`(expires_at <= ${new Date(of.answerless)} or not provider_slot || ' ' || provider_kind = any(${of.polled.slice()}::text[]))`
    return await dueRows.all(sql`
      select invoice_id, merchant_id, expires_at as at from payments
      where status = 'unpaid' and confirms_at is null and expires_at <= ${new Date(of.by)} and ${whose}
        and (expires_at, invoice_id) > (${new Date(after?.at ?? 0)}, ${after?.invoiceId ?? ''})
      order by expires_at, invoice_id limit ${limit}`)
  }

  /** Deletes at most `limit` reservations that ended before this time; returns their number. */
  async purgeReservations(before: number, limit: number): Promise<number> {
    const gone = await this.#database.sql`
      delete from payment_reservations where (merchant_id, order_id) in (
        select merchant_id, order_id from payment_reservations where held_until < ${new Date(before)} limit ${limit})
      and held_until < ${new Date(before)}`
    return gone.count
  }

  /**
   * When the next payment falls due after `now` and by `until`: a demo, or an expiry outside the `polled` seats. Null
   * for none.
   */
  async nextDue(now: number, until: number, polled: readonly ProviderSeatName[]): Promise<number | null> {
    const [from, to] = [new Date(now), new Date(until)]
    const [row] = await this.#database.sql<Array<{ at: Date | null }>>`
      select least(
        (select min(confirms_at) from payments where status = 'unpaid' and confirms_at > ${from} and confirms_at <= ${to}),
        (select min(expires_at) from payments
          where status = 'unpaid' and provider_kind <> 'demo' and expires_at > ${from} and expires_at <= ${to}
            and not provider_slot || ' ' || provider_kind = any(${polled.slice()}::text[]))) as at`
    return row?.at?.getTime() ?? null
  }

  async #one(where: (sql: Sql) => ReturnType<Sql>): Promise<Payment | null> {
    const { sql } = this.#database
    return await paymentRows.one(sql`select * from payments where ${where(sql)}`)
  }
}

const orderKey = ({ merchantId, orderId }: Pick<Reservation, 'merchantId' | 'orderId'>) => `${merchantId} ${orderId}`

/** Mirrors `statusAt`. */
function readsAs(sql: Sql, now: number) {
  return sql`case when status = 'unpaid' and confirms_at <= ${new Date(now)} then 'paid' else status end`
}

function listed(sql: Sql, filter: PaymentFilter, { after, limit }: KeysetPage) {
  return sql`
    select * from payments where ${matches(sql, filter)}
      ${after === null ? sql`` : sql`and (created_at, invoice_id) < (${new Date(after.at)}, ${after.id})`}
    order by created_at desc, invoice_id desc limit ${limit}`
}

function matches(sql: Sql, { merchantId, status, period, text, now }: PaymentFilter) {
  const like = text === null ? null : containing(text)
  return sql`true
      ${merchantId === null ? sql`` : sql`and merchant_id = ${merchantId}`}
      ${status === null ? sql`` : sql`and ${readsAs(sql, now)} = ${status}`}
      ${period.from === null ? sql`` : sql`and created_at >= ${new Date(period.from)}`}
      ${period.to === null ? sql`` : sql`and created_at < ${new Date(period.to)}`}
      ${
        like === null
          ? sql``
          : sql`and (order_id ilike ${like} or description ilike ${like} or customer_name ilike ${like}
              or customer_email ilike ${like} or invoice_id = ${text})`
      }`
}
