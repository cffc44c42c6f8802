import type { Migration } from '../migrations.ts'

/**
 * When an endpoint last answered a webhook quickly and when it last was slow or silent, by its group of jobs: the
 * merchant's id for the first endpoint, the endpoint's own id for the others.
 */
export const webhookPaces: Migration = {
  name: '0076-webhook-paces',
  async up(sql) {
    await sql`create table webhook_paces (endpoint text primary key, quick_at timestamptz, slow_at timestamptz)`
  }
}
