import type { Migration } from '../migrations.ts'

/** Lets the audit log hold failed sign-ins, whose actor is unknown. Not validated: that would scan the whole log. */
export const failedSignIns: Migration = {
  name: '0084-failed-sign-ins',
  async up(sql) {
    await sql`
      alter table audit drop constraint audit_actor_kind_check, add constraint audit_actor_kind_check
        check (actor_kind in ('key', 'member', 'admin', 'operator', 'unknown')) not valid`
  }
}
