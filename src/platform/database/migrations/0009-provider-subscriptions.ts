import type { Migration } from '../migrations.ts'

/**
 * How news of payments come in: the receivers that we registered at providers, with the sealed secret that signs what
 * they are sent (no merchant: the operator's own account), and where the poller of each slot stands. The index holds
 * what the poller looks for; a payment leaves it when nothing more can come of it.
 */
export const providerSubscriptions: Migration = {
  name: '0009-provider-subscriptions',
  async up(sql) {
    await sql`
      create table provider_subscriptions (
        merchant_id integer references merchants (id),
        slot text not null check (slot in ('primary', 'alternate')),
        kind text not null,
        url text not null,
        secret text not null,
        -- says which key it was registered with, and cannot be computed without the secret
        key_mark text not null,
        attempt_id text not null,
        attempted_at timestamptz not null,
        -- null until the provider has answered
        subscription_id text,
        registered_at timestamptz,
        unique nulls not distinct (merchant_id, slot)
      )`
    await sql`
      create table provider_polls (
        slot text primary key check (slot in ('primary', 'alternate')),
        version integer not null,
        state jsonb not null
      )`
    await sql`create index challenges_of_charge on challenges (charge_id)`
    await sql`create index payments_open on payments (expires_at) where status in ('unpaid', 'processing', 'underpaid', 'expired') and provider_kind <> 'demo'`
  }
}
