import { overRows } from '../../platform/database/given-rows.ts'
import { SLICES, type SliceRequest, type SliceWrite } from './balance.ts'

/**
 * Every statement locks the balance before its slices, to avoid deadlocks, in `found`. Its rows are those read after
 * locking.
 * A concurrent UPDATE in PostgreSQL first checks constraints against the statement's old snapshot. So each sets all
 * four amounts of the table's check from the locked row; one stale amount would refuse a correct write.
 */

/** A column of the entry at `at` in `more`, a single value if all share it. */
function other(column: string): string {
  return `case jsonb_typeof(others->'${column}') when 'array' then others #>> array['${column}', at::text] else others->>'${column}' end`
}

/** One row per entry, with the columns of `balance_entries`, ordered by `id` and `nth`. Follows `from`. */
export const EACH_ENTRY = `(
  select row.id, row.balance_id, entry.*
  from balance_entries as row cross join lateral (
    select 0 as nth, made_at, request, model, input, output, msat, unpaid_msat, basis, cost_msat
    union all
    select at + 1, made_at + (${other('after')})::bigint * interval '1 millisecond', others #>> array['request', at::text],
      ${other('model')}, (${other('input')})::bigint, (${other('output')})::bigint, (${other('msat')})::bigint,
      (${other('unpaid')})::bigint, ${other('basis')}, (${other('cost')})::bigint
    from (select more::jsonb as others offset 0) as parsed
      cross join generate_series(0, jsonb_array_length(others->'request') - 1) as at) as entry) as each_entry`

export const GRANT_SLICES = overRows<SliceRequest>(
  {
    balance: ['text', row => row.balanceId],
    slice: ['text', row => row.sliceId],
    gateway: ['text', row => row.gateway],
    need: ['bigint', row => row.need],
    want: ['bigint', row => row.want],
    kept: ['timestamptz', row => row.keptUntil],
    at: ['timestamptz', row => row.now]
  },
  given => `
    with given as materialized (select given.* from ${given}),
    found as materialized (
      select given.*, deposited_msat, spent_msat, refunded_msat, deposited_msat - spent_msat - refunded_msat as remaining,
        held_msat, state, expires_at
      from given join balances on id = given.balance order by id for update of balances),
    granted as materialized (
      select found.*, case when state = 'open' and expires_at > at and remaining - held_msat >= need
        then least(remaining - held_msat, greatest(need, want, deposited_msat / ${SLICES})) else 0 end as msat
      from found),
    taken as (
      update balances
      set deposited_msat = granted.deposited_msat, spent_msat = granted.spent_msat,
        refunded_msat = granted.refunded_msat, held_msat = granted.held_msat + granted.msat
      from granted
      where id = granted.balance and granted.msat > 0),
    sliced as (
      insert into balance_slices (id, balance_id, gateway, amount_msat, kept_until)
      select slice, balance, gateway, msat, kept from granted where msat > 0
      on conflict (id) do update
      set amount_msat = balance_slices.amount_msat + excluded.amount_msat, kept_until = excluded.kept_until)
    select nth, msat, remaining, held_msat, state, expires_at from granted`,
  { locks: true }
)

/** Writes what slices have done. Idempotent: a repeated write changes nothing and gets the same answer. */
export const WRITE = overRows<SliceWrite>(
  {
    balance: ['text', row => row.balanceId],
    slice: ['text', row => row.sliceId],
    write: ['integer', row => row.nth],
    spent: ['bigint', row => row.spent],
    back: ['bigint', row => row.back],
    reserved: ['bigint', row => row.reserved],
    last: ['integer', row => (row.isLast ? 1 : 0)],
    kept: ['timestamptz', row => row.keptUntil],
    at: ['timestamptz', row => row.entries.first?.at ?? null],
    request: ['text', row => row.entries.first?.request ?? null],
    model: ['text', row => row.entries.first?.model ?? null],
    input: ['bigint', row => row.entries.first?.input ?? null],
    output: ['bigint', row => row.entries.first?.output ?? null],
    msat: ['bigint', row => row.entries.first?.msat ?? null],
    unpaid: ['bigint', row => row.entries.first?.unpaidMsat ?? null],
    basis: ['text', row => row.entries.first?.basis ?? null],
    cost: ['bigint', row => row.entries.first?.costMsat ?? null],
    more: ['text', row => row.entries.others()]
  },
  given => `
    with given as materialized (select given.* from ${given}),
    locked as materialized (
      select given.*, deposited_msat, spent_msat, refunded_msat, held_msat,
        deposited_msat - spent_msat - refunded_msat as remaining
      from given join balances on id = given.balance order by id for update of balances),
    found as materialized (
      select locked.*, amount_msat as amount, writes
      from locked join balance_slices on id = locked.slice for update of balance_slices),
    fresh as materialized (select * from found where writes < write),
    ended as (delete from balance_slices using fresh where id = fresh.slice and fresh.last = 1),
    kept_on as (
      update balance_slices
      set amount_msat = fresh.amount - fresh.spent - fresh.back, reserved_msat = fresh.reserved, writes = fresh.write,
        kept_until = fresh.kept
      from fresh where id = fresh.slice and fresh.last = 0),
    paid as (
      update balances
      set deposited_msat = fresh.deposited_msat, spent_msat = fresh.spent_msat + fresh.spent,
        refunded_msat = fresh.refunded_msat,
        held_msat = fresh.held_msat - case fresh.last when 1 then fresh.amount else fresh.spent + fresh.back end
      from fresh where id = fresh.balance),
    noted as (
      insert into balance_entries (balance_id, made_at, request, model, input, output, msat, unpaid_msat, basis, cost_msat, more)
      select balance, at, request, model, input, output, msat, unpaid, basis, cost, more from fresh where request is not null)
    select nth, remaining - case when writes < write then spent else 0 end as remaining from found`,
  { locks: true }
)
