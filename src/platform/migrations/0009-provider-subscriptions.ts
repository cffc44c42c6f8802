import type { Migration } from '../migrations.ts'

/** Webhooks that we registered at merchants' providers, with the sealed secret that signs them. */
export const providerSubscriptions: Migration = {
  name: '0009-provider-subscriptions',
  async up (sql) {
    await sql`
      create table provider_subscriptions (
        merchant_id integer not null references merchants (id),
        slot text not null check (slot in ('primary', 'alternate')),
        kind text not null,
        subscription_id text not null,
        secret text not null,
        url text not null,
        created_at timestamptz not null,
        primary key (merchant_id, slot)
      )`
    await sql`create index challenges_of_charge on challenges (charge_id)`
  }
}
