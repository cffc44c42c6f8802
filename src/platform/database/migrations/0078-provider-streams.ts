import type { Migration } from '../migrations.ts'

/** Which process holds the stream of an account's provider: one over all processes. */
export const providerStreams: Migration = {
  name: '0078-provider-streams',
  async up(sql) {
    await sql`
      create table provider_streams (
        seat text not null, account text not null, holder text not null, until timestamptz not null,
        primary key (seat, account))`
  }
}
