import type { PageRange } from '../../engine/operations/keyset.ts'
import { isRevoked } from '../verifying/revocations.ts'
import { Batch } from '../../platform/database/batch.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import { amount, optional, records, text, type RecordOf, type Row } from '../../platform/database/rows.ts'
import { EACH_ENTRY, GRANT_SLICES, WRITE } from './statements.ts'
import {
  balanceColumns,
  entryColumns,
  grantColumns,
  type BalanceNow,
  type Entry,
  type SliceRequest,
  type GrantedSlice,
  type NewBalance,
  type SliceWrite
} from './balance.ts'

const balancesNow = records(balanceColumns)
const grabs = records(grantColumns)
const remains = records({ remaining: amount() })
const entries = records(entryColumns)

const usageColumns = {
  /** `YYYY-MM-DD`. */
  day: text(),
  model: optional(text()),
  requests: amount(),
  /** Those that cost nothing. */
  failed: amount(),
  input: amount(),
  output: amount(),
  msat: amount()
}
const usages = records(usageColumns)

const reclaimedColumns = { balanceId: text(), gateway: text(), chargedMsat: amount('reserved_msat') }
const swept = records(reclaimedColumns)

/** Approximate. */
const WRITE_BYTES = 300
const ENTRY_BYTES = 50

/**
 * The rows of balances. Every method is one statement, so that concurrent callers are serialized; the table refuses
 * negative balances.
 */
export class BalanceStore {
  readonly #database: Database
  readonly #grabs: Batch<SliceRequest, Row | null>
  readonly #writes: Batch<SliceWrite, Row | null>

  constructor(database: Database) {
    this.#database = database
    this.#grabs = new Batch({ key: grab => grab.balanceId, write: given => GRANT_SLICES.one(database.sql, given) })
    this.#writes = new Batch({
      key: write => write.balanceId,
      size: write => WRITE_BYTES + write.entries.count * ENTRY_BYTES,
      write: given => WRITE.one(database.sql, given)
    })
  }

  /**
   * Opens a balance with its first deposit, once; within a transaction if `sql` is given. Returns whether it opened
   * now.
   */
  async open(balance: NewBalance, sql: Sql = this.#database.sql): Promise<boolean> {
    const opened = await sql`
      with deposit as (
        insert into balance_deposits (payment_hash, balance_id, msat, made_at)
        values (${balance.id}, ${balance.id}, ${balance.depositedMsat}, ${new Date(balance.openedAt)})
        on conflict do nothing returning msat),
      opened as (select ${balance.id}::text as id from deposit)
      insert into balances (id, kind, merchant_id, proxy_id, place, unit, deposited_msat, opened_at, expires_at)
      select id, ${balance.kind}, ${balance.merchantId}::text, ${balance.proxyId}::text, ${balance.place}, ${balance.unit},
        ${balance.depositedMsat}::bigint, ${new Date(balance.openedAt)}::timestamptz, ${new Date(balance.expiresAt)}::timestamptz
      from opened`
    return opened.count > 0
  }

  /**
   * Adds a deposit to an open balance, once; within a transaction if `sql` is given. Returns whether the balance has
   * it.
   */
  async topUp(
    balanceId: string,
    paymentHash: string,
    msat: number,
    now: number,
    sql: Sql = this.#database.sql
  ): Promise<boolean> {
    // Of two concurrent ones, the second sees the first's row only by the conflict.
    const [row] = await sql<{ has: boolean }[]>`
      with locked as materialized (select id from balances where id = ${balanceId} and state = 'open' for update),
      deposit as (
        insert into balance_deposits (payment_hash, balance_id, msat, made_at)
        select ${paymentHash}, id, ${msat}::bigint, ${new Date(now)}::timestamptz from locked
        on conflict (payment_hash) do update set made_at = balance_deposits.made_at
        returning balance_id, msat, xmax = 0 as is_new),
      grown as (
        update balances set deposited_msat = deposited_msat + deposit.msat from deposit where id = deposit.balance_id and is_new)
      select exists (select from deposit where balance_id = ${balanceId}) or exists (
        select from balance_deposits where payment_hash = ${paymentHash} and balance_id = ${balanceId}) as has`
    return row?.has === true
  }

  async find(id: string): Promise<BalanceNow | null> {
    const { sql } = this.#database
    return await balancesNow.one(sql`select ${this.#now()} from balances where balances.id = ${id}`)
  }

  /**
   * Grants to a slice, batched with others; null for an unknown balance. A lost answer may grant more than the gateway
   * knows; ending the slice returns it.
   */
  async grab(grab: SliceRequest): Promise<GrantedSlice | null> {
    const row = await this.#grabs.add(grab)
    return row === null ? null : grabs.read(row)
  }

  /**
   * Writes a slice, batched with others; one write per slice at a time, and it may be repeated. Returns the rest of the
   * balance; null if the slice was swept.
   */
  async write(write: SliceWrite): Promise<number | null> {
    const row = await this.#writes.add(write)
    return row === null ? null : remains.read(row).remaining
  }

  /** Settles up to `limit` slices whose lease ended before `now`, at what they had reserved. */
  async sweep(now: number, limit: number): Promise<ReadonlyArray<RecordOf<typeof reclaimedColumns>>> {
    const at = new Date(now)
    return await swept.all(this.#database.sql`
      with dead as materialized (
        select balance_id from balance_slices where kept_until < ${at} order by balance_id limit ${limit}),
      locked as materialized (
        select balances.* from balances where id in (select balance_id from dead) order by id for update skip locked),
      found as materialized (
        select balance_slices.* from locked join balance_slices on balance_id = locked.id
        where kept_until < ${at} for update of balance_slices),
      gone as (delete from balance_slices using found where balance_slices.id = found.id),
      summed as materialized (
        select balance_id, sum(reserved_msat)::bigint as spent, sum(amount_msat)::bigint as held
        from found group by balance_id),
      paid as (
        update balances
        set deposited_msat = locked.deposited_msat, spent_msat = locked.spent_msat + summed.spent,
          refunded_msat = locked.refunded_msat, held_msat = locked.held_msat - summed.held
        from summed join locked on locked.id = summed.balance_id where balances.id = summed.balance_id),
      noted as (
        insert into balance_entries (balance_id, made_at, request, msat, unpaid_msat, basis)
        select balance_id, ${at}::timestamptz, gateway, reserved_msat, 0, 'crash' from found where reserved_msat > 0)
      select balance_id, gateway, reserved_msat from found`)
  }

  /** Stops all grants; within a transaction if `sql` is given. Returns whether it was open. */
  async close(id: string, sql: Sql = this.#database.sql): Promise<boolean> {
    const done = await sql`update balances set state = 'closed' where id = ${id} and state = 'open'`
    return done.count > 0
  }

  /**
   * Records the refund of a closed balance without slices, once. Returns whether it was recorded; an insufficient
   * balance refuses.
   */
  async refunded(id: string, msat: number, sql: Sql = this.#database.sql): Promise<boolean> {
    const done = await sql`
      update balances set state = 'refunded', refunded_msat = ${msat}
      where id = ${id} and state = 'closed' and held_msat = 0`
    return done.count > 0
  }

  async list({ skip, take, merchantId }: PageRange & { readonly merchantId?: string }): Promise<readonly BalanceNow[]> {
    const { sql } = this.#database
    const whose = merchantId === undefined ? sql`true` : sql`merchant_id = ${merchantId}`
    return await balancesNow.all(sql`
      select ${this.#now()} from balances where ${whose} and kind <> 'budget' order by opened_at desc, id desc limit ${take} offset ${skip}`)
  }

  /** Columns of a balance with its revocation. Only revocations after `opened_at` count. */
  #now() {
    const { sql } = this.#database
    const revoked = isRevoked(sql, {
      payment: sql`balances.id`,
      proxy: sql`balances.proxy_id`,
      merchant: sql`balances.merchant_id`,
      since: sql`balances.opened_at`
    })
    return sql`balances.*, ${revoked} as is_revoked,
      (select coalesce(sum(reserved_msat), 0)::bigint from balance_slices where balance_id = balances.id) as reserved_msat`
  }

  async entries(balanceId: string, { skip, take }: PageRange): Promise<readonly Entry[]> {
    const { sql } = this.#database
    return await entries.all(sql`
      select * from ${sql.unsafe(EACH_ENTRY)}
      where balance_id = ${balanceId} order by id desc, nth desc limit ${take} offset ${skip}`)
  }

  /** Sums by day (UTC) and model, newest first, of at most 1,000 rows. */
  async usage(balanceId: string): Promise<ReadonlyArray<RecordOf<typeof usageColumns>>> {
    const { sql } = this.#database
    return await usages.all(sql`
      select to_char(made_at at time zone 'UTC', 'YYYY-MM-DD') as day, model, count(*) as requests,
        count(*) filter (where msat = 0) as failed, coalesce(sum(input), 0)::bigint as input,
        coalesce(sum(output), 0)::bigint as output, sum(msat)::bigint as msat
      from ${sql.unsafe(EACH_ENTRY)}
      where balance_id = ${balanceId} group by 1, 2 order by 1 desc, 2 limit 1000`)
  }

  async purgeEntries(before: number, limit: number): Promise<number> {
    const gone = await this.#database.sql`
      delete from balance_entries where id in (
        select id from (select id, made_at from balance_entries order by id limit ${limit}) as oldest
        where made_at < ${new Date(before)})`
    return gone.count
  }

  /** Deletes up to `limit` balances that ended before and have no slices, with their deposits. */
  async purge(before: number, limit: number): Promise<number> {
    const gone = await this.#database.sql`
      with gone as (
        delete from balances where id in (
          select id from balances where expires_at < ${new Date(before)} and held_msat = 0 and state <> 'closed' limit ${limit})
        returning id),
      deposits as (delete from balance_deposits where balance_id in (select id from gone))
      select id from gone`
    return gone.count
  }

  async drained(): Promise<void> {
    await Promise.all([this.#grabs.drained(), this.#writes.drained()])
  }
}
