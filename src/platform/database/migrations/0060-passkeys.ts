import type { Migration } from '../migrations.ts'

/**
 * Passkeys of people, the ceremonies that were begun and not ended, and which passkey opened a session.
 * With a passkey the sessions end that it opened.
 */
export const passkeys: Migration = {
  name: '0060-passkeys',
  async up(sql) {
    // What authenticators know a person by: says nothing of the address, and is the same for all passkeys of one.
    await sql`alter table people add column handle uuid not null default gen_random_uuid()`
    await sql`
      create table passkeys (
        id text primary key,
        person_id integer not null references people (id),
        credential_id text not null unique,
        public_key bytea not null,
        counter bigint not null,
        transports text[] not null,
        is_synced boolean not null,
        name text not null,
        created_at timestamptz not null,
        used_at timestamptz
      )`
    await sql`create index passkeys_of_person on passkeys (person_id)`
    await sql`
      create table passkey_ceremonies (
        digest bytea primary key check (octet_length(digest) = 32),
        person_id integer references people (id),
        expires_at timestamptz not null
      )`
    await sql`create index passkey_ceremonies_end on passkey_ceremonies (expires_at)`
    await sql`alter table sign_in_sessions add column passkey_id text references passkeys (id) on delete cascade`
    await sql`create index sign_in_sessions_of_passkey on sign_in_sessions (passkey_id) where passkey_id is not null`
  }
}
