import type { Migration } from '../migrations.ts'

/** Merchants' reverse proxies and their prices. Deleted ones keep their row, so that an id is never given out again. */
export const proxies: Migration = {
  name: '0003-proxies',
  async up(sql) {
    await sql`
      create table proxies (
        proxy_id text primary key,
        merchant_id integer not null references merchants (id),
        name text not null,
        description text,
        target_base_url text not null,
        default_price_sats bigint not null check (default_price_sats >= 0),
        endpoints jsonb not null,
        token_validity_seconds integer not null,
        timeout_seconds integer not null,
        allowed_methods text[] not null,
        allowed_paths text[] not null,
        blocked_paths text[] not null,
        auth_header text,
        auth_value text,
        is_active boolean not null,
        created_at timestamptz not null,
        updated_at timestamptz not null,
        deleted_at timestamptz
      )`
    await sql`create index proxies_by_merchant on proxies (merchant_id, created_at desc) where deleted_at is null`
  }
}
