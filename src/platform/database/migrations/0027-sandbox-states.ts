import type { Migration } from '../migrations.ts'

/**
 * What somebody who tries things out had an invoice of the sandbox become, besides paid and expired; null for nothing.
 */
export const sandboxStates: Migration = {
  name: '0027-sandbox-states',
  async up(sql) {
    await sql`
      alter table sandbox_invoices
        add column state text check (state in ('processing', 'underpaid')),
        add column received_sats bigint not null default 0`
  }
}
