import type { Migration } from '../migrations.ts'

/**
 * The idempotency key under which a refund or a payment was made stands in its row, with the SHA-256 of the request's
 * body (decision 185): a repetition finds it after any restart. A payment's belongs to one of the operations that make
 * payments, and is known from the moment on in which its order id is held.
 */
export const idempotencyKeys: Migration = {
  name: '0024-idempotency-keys',
  async up(sql) {
    await sql`
      alter table refunds
        add column idempotency_key text,
        add column idempotency_fingerprint text check (idempotency_fingerprint ~ '^[0-9a-f]{64}$'),
        add check ((idempotency_key is null) = (idempotency_fingerprint is null))`
    await sql`create unique index refunds_of_idempotency_key on refunds (merchant_id, idempotency_key) where idempotency_key is not null`
    await sql`
      alter table payments
        add column idempotency_operation text,
        add column idempotency_key text,
        add column idempotency_fingerprint text check (idempotency_fingerprint ~ '^[0-9a-f]{64}$'),
        add check ((idempotency_key is null) = (idempotency_fingerprint is null) and (idempotency_key is null) = (idempotency_operation is null))`
    await sql`
      create unique index payments_of_idempotency_key on payments (merchant_id, idempotency_operation, idempotency_key)
      where idempotency_key is not null`
    await sql`
      alter table payment_reservations
        add column idempotency_operation text,
        add column idempotency_key text,
        add column idempotency_fingerprint text`
  }
}
