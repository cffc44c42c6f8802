import type { Migration } from '../migrations.ts'

/**
 * `balance_entries.more` column by column in the place of a list for each entry: half as long, and not compressed, for
 * ids of requests do not become shorter and trying cost more than storing them. `after` is in milliseconds.
 */
export const entriesByColumn: Migration = {
  name: '0063-entries-by-column',
  async up(sql) {
    await sql`alter table balance_entries alter column more set storage external`
    await sql`
      update balance_entries set more = (
        select jsonb_build_object(
          'after', jsonb_agg((entry->>0)::numeric - floor(extract(epoch from made_at) * 1000)),
          'request', jsonb_agg(entry->1), 'model', jsonb_agg(entry->2), 'input', jsonb_agg(entry->3),
          'output', jsonb_agg(entry->4), 'msat', jsonb_agg(entry->5), 'unpaid', jsonb_agg(entry->6),
          'basis', jsonb_agg(entry->7))::text
        from jsonb_array_elements(more::jsonb) as entry)
      where more is not null`
  }
}
