import type { Migration } from '../migrations.ts'

/**
 * API keys of an account beside its first one, which stays in its own row (contract, Authentication): named ones, ones
 * that only read, and ones that are good for a while after they were replaced. And when each key was last used, of the
 * first ones too: in rows of their own, since payments lock those of accounts.
 */
export const apiKeys: Migration = {
  name: '0043-api-keys',
  async up(sql) {
    await sql`
      create table api_keys (
        key_id text primary key,
        merchant_id integer not null references merchants (id),
        key_digest bytea not null check (octet_length(key_digest) = 32),
        name text not null,
        is_read_only boolean not null,
        created_at timestamptz not null,
        -- null for one that is good until it is removed
        ends_at timestamptz
      )`
    await sql`create index api_keys_of_merchant on api_keys (merchant_id, created_at)`
    await sql`create table api_key_uses (key_id text primary key, used_at timestamptz not null) with (fillfactor = 50)`
  }
}
