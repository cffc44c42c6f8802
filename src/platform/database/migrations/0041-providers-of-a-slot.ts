import type { Migration } from '../migrations.ts'

/**
 * A slot may have several providers: each has a row of its own for where its poller stands, and for where
 * an account's notifications were registered, under the name that invoices are kept under.
 */
export const providersOfASlot: Migration = {
  name: '0041-providers-of-a-slot',
  async up(sql) {
    await sql`alter table provider_polls add column kind text`
    await sql`update provider_polls set kind = state ->> 'kind'`
    await sql`delete from provider_polls where kind is null`
    await sql`alter table provider_polls alter column kind set not null`
    await sql`alter table provider_polls drop constraint provider_polls_pkey`
    await sql`alter table provider_polls add primary key (slot, kind)`
    await sql`alter table provider_subscriptions drop constraint provider_subscriptions_merchant_id_slot_key`
    await sql`alter table provider_subscriptions add unique nulls not distinct (merchant_id, slot, kind)`
  }
}
