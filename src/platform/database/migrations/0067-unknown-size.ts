import type { Migration } from '../migrations.ts'

/**
 * Migration 0048 has the planner look at `challenges` while it is as good as empty. From then on it takes the table for
 * one page, which is cheapest read whole, and keeps the plans that it makes in a gateway's first moments: some thousand
 * challenges later each 402 read all of them. Of a table that it has never seen the planner supposes ten pages, which
 * is enough for it to choose an index. What it was told of payment hashes stays.
 */
export const unknownSize: Migration = {
  name: '0067-unknown-size',
  async up(sql) {
    await sql`
      do $$ begin
        if exists (select from challenges) then return; end if;
        lock table challenges in access exclusive mode;
        if exists (select from challenges) then return; end if;
        -- Any change for which the table is written anew. Not TRUNCATE: where the table was made by the same transaction
        -- the planner still knows what it knew.
        alter table challenges alter column verifications type integer using verifications + 0;
      end $$`
  }
}
