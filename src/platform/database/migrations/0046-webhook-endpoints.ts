import type { Migration } from '../migrations.ts'

/**
 * Webhook endpoints of an account beside its first one, which stays in its own row. What was written for
 * one keeps its id when the endpoint is gone, so there is no reference; null is the first.
 */
export const webhookEndpoints: Migration = {
  name: '0046-webhook-endpoints',
  async up(sql) {
    await sql`
      create table webhook_endpoints (
        id uuid primary key,
        merchant_id integer not null references merchants (id),
        url text not null,
        secret text not null,
        -- null for all, those of later versions too
        events text[],
        is_active boolean not null,
        created_at timestamptz not null
      )`
    await sql`create index webhook_endpoints_of_merchant on webhook_endpoints (merchant_id, created_at, id)`
    await sql`alter table webhook_deliveries add column endpoint_id uuid`
    await sql`create index webhook_deliveries_of_endpoint on webhook_deliveries (endpoint_id, created_at desc, id desc) where endpoint_id is not null`
  }
}
