import type { Migration } from '../migrations.ts'

/** Whether saving a provider key made the account's choice of a provider; such a choice goes with the key. */
export const choiceByKey: Migration = {
  name: '0077-choice-by-key',
  async up(sql) {
    await sql`alter table merchants add column choice_by_key boolean not null default false`
  }
}
