import type { Migration } from '../migrations.ts'

/** Invoices of the sandbox provider, with their preimages in the clear: no money hangs on them. */
export const sandboxInvoices: Migration = {
  name: '0004-sandbox-invoices',
  async up(sql) {
    await sql`
      create table sandbox_invoices (
        charge_id text primary key,
        payment_hash text not null unique,
        preimage text not null,
        invoice text not null,
        amount_sats bigint not null,
        description text not null,
        created_at timestamptz not null,
        expires_at timestamptz not null,
        settled_at timestamptz
      )`
    await sql`create index sandbox_invoices_expires_at on sandbox_invoices (expires_at)`
  }
}
