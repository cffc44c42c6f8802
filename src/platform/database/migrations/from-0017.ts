import type { Migration } from '../migrations.ts'

/**
 * One index for the count of a client's open invoices before each mint (decision 175). The expiry is last in it, so
 * that expired ones are not read.
 */
const openOfClient: Migration = {
  name: '0017-open-of-client',
  async up(sql) {
    await sql`create index challenges_open on challenges (client_key, place, expires_at) where num_nulls(scheme, settled_at) >= 2`
    await sql`drop index challenges_open_of_client`
    await sql`drop index challenges_open_of_place`
  }
}

/** Refunds settled by hand. `invoice_id` is a payment's or a store order's. */
const refundSettlements: Migration = {
  name: '0020-refund-settlements',
  async up(sql) {
    await sql`alter table refunds drop constraint refunds_invoice_id_fkey`
    await sql`
      create table refund_settlements (
        refund_id text primary key references refunds (refund_id),
        outcome text not null check (outcome in ('sent', 'not-sent')),
        settled_by text not null,
        reason text not null,
        correlation_id text not null,
        settled_at timestamptz not null
      )`
    await sql`create index refund_settlements_newest on refund_settlements (settled_at desc)`
  }
}

/** Store orders beyond the happy path: taxes, held goods, refusals, cancellations and returns. */
const storefrontTroubles: Migration = {
  name: '0021-storefront-troubles',
  async up(sql) {
    await sql`
      alter table storefront_orders
        add column tax_lines jsonb not null default '[]',
        add column taxes_included boolean not null default false,
        -- once the shop was asked to hold the goods, which is asked once; the hold's own id where the shop gave one
        add column hold_asked_at timestamptz,
        add column hold_id text,
        -- why the shop did not make the order, in a word and in the platform's words
        add column failure_code text,
        add column failure_message text,
        add column failed_at timestamptz,
        -- called off at the shop
        add column canceled_at timestamptz,
        -- where the buyer wants the money back
        add column refund_address text,
        add column refund_type text check (refund_type in ('chain', 'ln')),
        add column refund_asked_at timestamptz,
        -- all that was paid has been given back
        add column refunded_at timestamptz,
        add check ((failure_code is null) = (failed_at is null) and (failure_code is null) = (failure_message is null)),
        add check ((refund_address is null) = (refund_asked_at is null) and (refund_address is null) = (refund_type is null))`
    await sql`create index storefront_orders_failed on storefront_orders (failed_at) where failed_at is not null and claimed_at is null`
    await sql`create index storefront_orders_to_hold on storefront_orders (paid_at) where paid_at is not null and claimed_at is null and hold_asked_at is null`
  }
}

/** How a proxy answers an invalid classic token: as its route does, by the contract, or with 402 (decision 177). */
const proxyRenewal: Migration = {
  name: '0022-proxy-renewal',
  async up(sql) {
    await sql`alter table proxies add column renewal text not null default 'default' check (renewal in ('default', 'contract', '402'))`
  }
}

/** Former prices, served for a while (decision 176): of operators' routes by place, of proxies beside their prices. */
const priceGrace: Migration = {
  name: '0023-price-grace',
  async up(sql) {
    await sql`
      create table offered_prices (
        place text not null,
        amount_sats bigint not null,
        asked_until timestamptz not null,
        primary key (place, amount_sats)
      )`
    await sql`alter table proxies add column price_grace_seconds integer not null default 0`
    await sql`alter table proxies add column former_prices jsonb not null default '[]'`
  }
}

/**
 * Idempotency keys with the SHA-256 of the request's body (decision 185). A payment's key belongs to one operation, and
 * is recorded once its order id is held.
 */
const idempotencyKeys: Migration = {
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

/**
 * `lease_final` leases count as spent once they have lapsed (decision 183), and stay in `ambiguous_leases`, since
 * challenges are purged. `client_gone` counts restored payments (decision 184). No index has these columns, as
 * migration 0016 requires.
 */
const leasesAfterACrash: Migration = {
  name: '0025-leases-after-a-crash',
  async up(sql) {
    await sql`
      alter table challenges
        add column lease_final boolean not null default false,
        add column client_gone smallint not null default 0`
    await sql`
      create table ambiguous_leases (
        lease_id text primary key,
        lease_gateway text not null,
        payment_hash text not null,
        source text not null,
        merchant_id text,
        proxy_id text,
        method text not null,
        path text not null,
        amount_sats bigint not null,
        lapsed_at timestamptz not null
      )`
    await sql`create index ambiguous_leases_newest on ambiguous_leases (lapsed_at desc, lease_id desc)`
  }
}

/** A sandbox invoice's simulated state besides paid and expired; null for none. */
const sandboxStates: Migration = {
  name: '0027-sandbox-states',
  async up(sql) {
    await sql`
      alter table sandbox_invoices
        add column state text check (state in ('processing', 'underpaid')),
        add column received_sats bigint not null default 0`
  }
}

/** Orders with held goods are looked up every 20 seconds, among 30 days of unpaid ones. */
const heldOrders: Migration = {
  name: '0029-held-orders',
  async up(sql) {
    await sql`create index storefront_orders_held on storefront_orders (hold_asked_at) where hold_id is not null`
  }
}

/**
 * Macaroon and `request`, more than half of a challenge's row, can be derived again, so most rows leave them empty.
 * Empty and not null: workers of the version before read a null `request` as no Payment challenge and refuse its
 * payment.
 */
const remadeWording: Migration = {
  name: '0030-remade-wording',
  async up(sql) {
    await sql`alter table challenges add column macaroon_location text, add column caveat_path text`
    await sql`alter table challenges set (fillfactor = 85)`
  }
}

/**
 * The purge must find expired rows without reading others. Expiry is the later end of invoice and token. Each purged
 * challenge is also looked up among the idempotency keys.
 */
const purgeIndexes: Migration = {
  name: '0031-purge-indexes',
  async up(sql) {
    await sql`
      create index challenges_purge_unpaid on challenges (greatest(expires_at, token_expires_at))
      where source in ('route', 'proxy', 'ping') and scheme is null`
    await sql`
      create index challenges_purge_paid on challenges (greatest(expires_at, token_expires_at))
      where source in ('route', 'proxy', 'ping') and scheme is not null`
    await sql`drop index challenges_purge`
    await sql`create index producer_keys_of_challenge on producer_keys (payment_hash)`
  }
}

/**
 * Paged in index order, ties too: with the time alone in the index, PostgreSQL sorted all of a merchant's rows for each
 * page.
 */
const challengePages: Migration = {
  name: '0032-challenge-pages',
  async up(sql) {
    await sql`create index challenges_of_merchant_paged on challenges (merchant_id, created_at, payment_hash) where source = 'producer'`
    await sql`drop index challenges_of_merchant`
  }
}

/**
 * Prepaid balances in millisatoshis. The rest is `deposited - spent - refunded`; `held` is the part in the gateways'
 * slices. A deposit is counted once, by its payment hash. An entry per settled request is purged by age: its amount is
 * in `spent`.
 *
 * The one check covers everything that money depends on. No index names what changes, as in migration 0016.
 */
const balances: Migration = {
  name: '0033-balances',
  async up(sql) {
    await sql`
      create table balances (
        id text primary key,
        kind text not null,
        merchant_id text,
        proxy_id text,
        place text not null,
        unit text not null,
        deposited_msat bigint not null,
        spent_msat bigint not null default 0,
        refunded_msat bigint not null default 0,
        held_msat bigint not null default 0,
        state text not null default 'open',
        opened_at timestamptz not null,
        expires_at timestamptz not null,
        check (
          least(spent_msat, refunded_msat, held_msat, deposited_msat - spent_msat - refunded_msat - held_msat) >= 0
        )
      ) with (fillfactor = 50)`
    await sql`create index balances_of_merchant on balances (merchant_id, opened_at)`
    await sql`create index balances_newest on balances (opened_at, id)`
    await sql`create index balances_purge on balances (expires_at)`
    await sql`
      create table balance_deposits (
        payment_hash text primary key,
        balance_id text not null,
        msat bigint not null,
        made_at timestamptz not null
      )`
    await sql`create index balance_deposits_of_balance on balance_deposits (balance_id)`
    await sql`
      create table balance_slices (
        id text primary key,
        balance_id text not null,
        gateway text not null,
        amount_msat bigint not null,
        reserved_msat bigint not null default 0,
        writes integer not null default 0,
        kept_until timestamptz not null,
        check (least(reserved_msat, amount_msat - reserved_msat) >= 0)
      ) with (fillfactor = 50)`
    await sql`create index balance_slices_of_balance on balance_slices (balance_id)`
    await sql`
      create table balance_entries (
        id bigint generated always as identity primary key,
        balance_id text not null,
        made_at timestamptz not null,
        request text not null,
        model text,
        input bigint,
        output bigint,
        msat bigint not null,
        unpaid_msat bigint not null,
        basis text not null
      )`
    await sql`create index balance_entries_of_balance on balance_entries (balance_id, id)`
  }
}

/** Prices other than satoshis; former prices are text, so that `10` and `USD 0.002` can coexist. */
const prices: Migration = {
  name: '0038-prices',
  async up(sql) {
    await sql`alter table challenges add column price text, add column asked text`
    await sql`alter table offered_prices add column price text`
    await sql`update offered_prices set price = amount_sats::text`
    await sql`alter table offered_prices drop constraint offered_prices_pkey`
    await sql`alter table offered_prices drop column amount_sats`
    await sql`alter table offered_prices alter column price set not null, add primary key (place, price)`
  }
}

/**
 * Prepaid sessions of the Payment scheme, each beside its balance, whose id is the first deposit's payment hash. The
 * refund is recorded before the provider call, like a payment's: one per session, resent under another reference only
 * after a known failure. An invoice takes one refund.
 */
const sessions: Migration = {
  name: '0039-sessions',
  async up(sql) {
    await sql`
      create table sessions (
        id text primary key,
        open_challenge text not null,
        network text not null,
        charge_id text not null,
        provider_slot text not null,
        provider_kind text not null,
        opened_at timestamptz not null,
        idle_ms bigint not null,
        used_at timestamptz not null,
        closed_at timestamptz,
        closed_by text check (closed_by in ('client', 'idle', 'end', 'operator')),
        close_challenge text,
        told_sats bigint,
        told_status text check (told_status in ('succeeded', 'failed', 'skipped')),
        return_invoice text not null,
        return_hash text not null,
        refund_status text check (refund_status in ('pending', 'processing', 'confirmed', 'failed', 'skipped')),
        refund_reference text,
        refund_sats bigint not null default 0,
        refund_fee_sats bigint not null default 0,
        refund_payout_id text,
        refund_begun_at timestamptz,
        refund_ended_at timestamptz,
        refund_check_at timestamptz,
        refund_fault text,
        settled_by text,
        settled_why text,
        check ((closed_at is null) = (closed_by is null)),
        check (refund_status is null or closed_at is not null)
      ) with (fillfactor = 80)`
    await sql`create unique index sessions_return_hash on sessions (return_hash)`
    await sql`create index sessions_open on sessions (used_at) where closed_at is null`
    await sql`create index sessions_unrefunded on sessions (closed_at) where refund_status is null and closed_at is not null`
    await sql`create index sessions_refunds on sessions (refund_check_at) where refund_status in ('pending', 'processing')`
    await sql`create index sessions_failed on sessions (closed_at) where refund_status = 'failed'`
    await sql`create index sessions_newest on sessions (opened_at, id)`
  }
}

export const from0017: readonly Migration[] = [
  openOfClient,
  refundSettlements,
  storefrontTroubles,
  proxyRenewal,
  priceGrace,
  idempotencyKeys,
  leasesAfterACrash,
  sandboxStates,
  heldOrders,
  remadeWording,
  purgeIndexes,
  challengePages,
  balances,
  prices,
  sessions
]
