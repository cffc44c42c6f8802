/** Number of the advisory lock of whoever looks; any that no other lock of ours has. */
const LOCK = 7_301_325_067

/**
 * Has the planner look at our tables that are twice as large as when it looked last, and at none of a few pages;
 * `relpages` is what it saw. Plans that are kept were made for tables as they were then: those of a gateway's first
 * moments read whole what was one page. One session looks at a time, and at nothing that somebody else holds.
 */
export const LOOK_AT_GROWN = `
  do $$ declare grown regclass; begin
    if not pg_try_advisory_xact_lock(${LOCK}) then return; end if;
    for grown in
      select pg_class.oid from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where relkind = 'r' and nspname = current_schema() and pg_has_role(relowner, 'USAGE')
        and pg_relation_size(pg_class.oid) > 2 * greatest(relpages, 8) * current_setting('block_size')::bigint
    loop execute format('analyze (skip_locked) %s', grown); end loop;
  end $$`
