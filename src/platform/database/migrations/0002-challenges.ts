import type { Migration } from '../migrations.ts'

/**
 * Pay-per-request challenges: one row for each payment hash, with everything that a credential is checked against and
 * the state of its single use; the list of what is revoked; and the producers' idempotency keys and resources, used or
 * retired (decisions 85 and 110).
 *
 * The two partial indexes serve the counts before each mint. They hold only rows that nobody has claimed, so they stay
 * small where many requests are paid.
 */
export const challenges: Migration = {
  name: '0002-challenges',
  async up(sql) {
    await sql`
      create table challenges (
        payment_hash text primary key check (payment_hash ~ '^[0-9a-f]{64}$'),
        source text not null check (source in ('route', 'proxy', 'ping', 'producer', 'storefront')),
        service text not null,
        merchant_id text,
        proxy_id text,
        place text not null,
        resource text not null,
        path text not null,
        method text not null,
        query text not null,
        amount_sats bigint not null check (amount_sats between 1 and 2100000000000000),
        digest text,
        binding text not null,
        payment_id text,
        realm text,
        request text,
        payment_expires text,
        macaroon text not null,
        token_id text not null check (token_id ~ '^[0-9a-f]{64}$'),
        invoice text not null,
        network text not null,
        charge_id text not null,
        provider_slot text not null,
        provider_kind text not null,
        client_key text not null,
        idempotency_key text,
        description text not null,
        created_at timestamptz not null,
        expires_at timestamptz not null,
        token_expires_at timestamptz not null,
        state text not null default 'unspent' check (state in ('unspent', 'leased', 'spent')),
        scheme text check (scheme in ('l402', 'payment', 'payment-legacy')),
        verifications integer not null default 0,
        paid_at timestamptz,
        spent_at timestamptz,
        settled_at timestamptz,
        lease_id text,
        lease_gateway text,
        lease_until timestamptz,
        check (state <> 'leased' or (lease_id is not null and lease_gateway is not null and lease_until is not null)),
        check (state = 'unspent' or scheme = 'payment')
      )`
    await sql`create index challenges_open_of_client on challenges (client_key, binding, created_at) where state = 'unspent' and scheme is null and settled_at is null`
    await sql`create index challenges_open_of_place on challenges (place, expires_at) where state = 'unspent' and scheme is null and settled_at is null`
    await sql`create index challenges_leased on challenges (lease_gateway) where state = 'leased'`
    await sql`create index challenges_of_merchant on challenges (merchant_id, created_at) where source = 'producer'`
    await sql`create index challenges_purge on challenges (expires_at) where source in ('route', 'proxy', 'ping')`
    await sql`
      create table revocations (
        kind text not null check (kind in ('payment', 'proxy', 'merchant')),
        id text not null,
        revoked_at timestamptz not null,
        primary key (kind, id)
      )`
    await sql`
      create table producer_endpoints (
        merchant_id text not null,
        resource text not null,
        created_at timestamptz not null,
        retired_at timestamptz,
        primary key (merchant_id, resource)
      )`
    await sql`
      create table producer_keys (
        merchant_id text not null,
        idempotency_key text not null,
        payment_hash text not null references challenges (payment_hash),
        primary key (merchant_id, idempotency_key)
      )`
  }
}
