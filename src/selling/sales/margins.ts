import { EACH_ENTRY } from '../balances/statements.ts'
import { OWN_TESTS } from '../holding/challenge.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { amount, moment, optional, records, text, type RecordOf } from '../../platform/database/rows.ts'

/** Milliseconds until no entry with a lower id can still be committed. */
const LAG = 120_000
/** Maximum models per answer; the others are summed. */
const MODELS = 20

/** What a model of a price list brought in a day (UTC), and what its provider charges for that. */
const marginColumns = {
  /** Start of the day. */
  at: moment(),
  /** Null for all but those that earned most. */
  model: optional(text()),
  requests: amount(),
  msat: amount(),
  costMsat: amount()
}
const marginRows = records(marginColumns)

const untilRow = records({ entry: amount(), seen: amount(), seenAt: moment() })

/**
 * Sums of the entries that follow in `where`. `more` is read only where an entry in it has a cost. By a scalar subquery,
 * since the planner may scan all challenges for a join.
 */
const SUMMED = `
  select date_trunc('day', made_at, 'UTC') as at, model, count(*) as requests, sum(msat)::bigint as msat,
    sum(cost_msat)::bigint as cost_msat
  from ${EACH_ENTRY.replace(
    'from balance_entries as row',
    `from (
      select * from balance_entries
      where (cost_msat is not null or strpos(more, '"cost"') > 0)
        and (select client_key from challenges where payment_hash = balance_id) is distinct from '${OWN_TESTS}') as row`
  )}
  where cost_msat is not null and model is not null`

/** Sums by day and model, exact at any moment: the same statement adds what is not summed yet. */
export class Margins {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** Adds the entries that the last run but one saw, exactly once across processes. */
  async roll(now: number): Promise<void> {
    await this.#database.transaction(tx => this.#roll(tx, now), { slow: true })
  }

  async #roll(tx: TransactionSql, now: number): Promise<void> {
    if (this.#database.kind === 'postgres') await tx`set local statement_timeout = 0`
    const held = await untilRow.one(tx`select * from model_sums_until for update`)
    if (held === null || now - held.seenAt < LAG) return
    await tx`
      insert into model_sums as held (at, model, requests, msat, cost_msat)
      ${tx.unsafe(SUMMED)} and id > ${held.entry} and id <= ${held.seen}
      group by 1, 2
      on conflict (at, model) do update
      set requests = held.requests + excluded.requests, msat = held.msat + excluded.msat, cost_msat = held.cost_msat + excluded.cost_msat`
    await tx`
      update model_sums_until
      set entry = seen, seen = greatest(seen, (select coalesce(max(id), 0) from balance_entries)), seen_at = ${new Date(now)}`
  }

  /**
   * Sums by day, highest revenue first.
   * @throws Unavailable without the database
   */
  async sums(from: number, to: number): Promise<Array<RecordOf<typeof marginColumns>>> {
    const { sql } = this.#database
    // The planner takes a bound that it knows for few rows; the other is exact if a run comes between.
    const held = await untilRow.one(sql`select * from model_sums_until`)
    const within = (at: string) => sql`${sql(at)} >= ${new Date(from)} and ${sql(at)} < ${new Date(to)}`
    return await marginRows.all(sql`
      with parts as materialized (
        select * from model_sums where ${within('at')}
        union all
        ${sql.unsafe(SUMMED)} and id > ${held?.entry ?? 0} and id > (select entry from model_sums_until)
          and ${within('made_at')} group by 1, 2),
      most as materialized (select model from parts group by model order by sum(msat) desc, model limit ${MODELS})
      select at, most.model, sum(requests)::bigint as requests, sum(msat)::bigint as msat, sum(cost_msat)::bigint as cost_msat
      from parts left join most using (model) group by 1, 2 order by at, msat desc, model`)
  }
}
