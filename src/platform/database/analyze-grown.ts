/** Number of the advisory lock for this check; unique among ours. */
const LOCK = 7_301_325_067

/**
 * Analyzes our tables that doubled in size since the last ANALYZE (`relpages`), except those of a few pages. Cached
 * plans were made for the tables as they were then: a gateway's first plans scan whole tables. One session at a time,
 * skipping locked tables.
 */
export const ANALYZE_GROWN = `
  do $$ declare grown regclass; begin
    if not pg_try_advisory_xact_lock(${LOCK}) then return; end if;
    for grown in
      select pg_class.oid from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where relkind = 'r' and nspname = current_schema() and pg_has_role(relowner, 'USAGE')
        and pg_relation_size(pg_class.oid) > 2 * greatest(relpages, 8) * current_setting('block_size')::bigint
    loop execute format('analyze (skip_locked) %s', grown); end loop;
  end $$`
