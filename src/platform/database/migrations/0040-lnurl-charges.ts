import type { Migration } from '../migrations.ts'

/**
 * Invoices of Lightning addresses, with where their servers say whether they were paid. Two addresses may
 * hand out one invoice: each is asked of its own.
 */
export const lnurlCharges: Migration = {
  name: '0040-lnurl-charges',
  async up(sql) {
    await sql`
      create table lnurl_charges (
        account text not null,
        payment_hash text not null,
        verify text not null,
        expires_at timestamptz not null,
        settled_at timestamptz,
        primary key (account, payment_hash)
      )`
    await sql`create index lnurl_charges_expires_at on lnurl_charges (expires_at)`
  }
}
