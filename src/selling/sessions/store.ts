import type { PageRange } from '../../engine/operations/keyset.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import { amount, moment, optional, records, text, type RecordOf } from '../../platform/database/rows.ts'
import type { InvoiceNetwork } from '../../lightning/codecs/bolt11.ts'
import type { SessionRefund as ReportedRefund } from '../../lightning/payment-scheme/session-challenge.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import type { PaidOut, RefundStatus } from '../../lightning/providers/payout-states.ts'

export type ClosedBy = 'client' | 'idle' | 'end' | 'operator'

export interface Refunding extends PaidOut {
  /** Last request to the provider; the begin if there was one only. */
  readonly requestedAt: number
  readonly reference: string
  readonly amountSats: number
}

const openedColumns = {
  /** Payment hash of the first deposit, also its balance's id. */
  id: text(),
  openChallenge: text(),
  network: text<InvoiceNetwork>(),
  chargeId: text(),
  providerSlot: text(),
  providerKind: text<KindName>(),
  openedAt: moment(),
  idleMs: amount(),
  /** BOLT 11 without an amount, in lower case. */
  returnInvoice: text(),
  returnHash: text()
}
/** Amounts are millisatoshis unless named otherwise. */
const columns = {
  ...openedColumns,
  usedAt: moment(),
  closedAt: optional(moment()),
  closedBy: optional(text<ClosedBy>()),
  /** Challenge by which a client closed it, and the answer it got. */
  closeChallenge: optional(text()),
  toldSats: optional(amount()),
  toldStatus: optional(text<ReportedRefund['refundStatus']>()),
  /** Null until the refund begins, and between attempts; `skipped` if too little was left. */
  refundStatus: optional(text<RefundStatus | 'skipped'>()),
  refundReference: optional(text()),
  refundSats: amount(),
  refundFeeSats: amount(),
  /** The provider's id; null while unknown. */
  refundPayoutId: optional(text()),
  refundBegunAt: optional(moment()),
  /** Last request to the provider. */
  refundAskedAt: optional(moment()),
  refundEndedAt: optional(moment()),
  /** Next lookup; before it begins, the earliest time to send. */
  refundCheckAt: optional(moment()),
  /** Provider refusals for this invoice. */
  refundRefusals: amount(),
  /** Reason of the failure or the pending retry. */
  refundFault: optional(text()),
  settledBy: optional(text()),
  settledWhy: optional(text()),
  depositedMsat: amount(),
  spentMsat: amount(),
  refundedMsat: amount(),
  heldMsat: amount(),
  /** Closed at the latest then. */
  expiresAt: moment()
}
export type PrepaidSession = RecordOf<typeof columns>
const sessions = records(columns)
const ids = records({ id: text() })

/** Filters of the list; `stuck`: money is left that is not sent automatically. */
export const SESSION_VIEWS = ['all', 'open', 'stuck'] as const
type SessionViewName = (typeof SESSION_VIEWS)[number]

export class SessionStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** @throws unique violation of `sessions_return_hash` if another session refunds to the same invoice */
  async open(sql: Sql, session: RecordOf<typeof openedColumns>): Promise<void> {
    const { openedAt, idleMs } = session
    await sql`
      insert into sessions (id, open_challenge, network, charge_id, provider_slot, provider_kind, opened_at, used_at,
        idle_ms, return_invoice, return_hash)
      values (${session.id}, ${session.openChallenge}, ${session.network}, ${session.chargeId}, ${session.providerSlot},
        ${session.providerKind}, ${new Date(openedAt)}, ${new Date(openedAt)}, ${idleMs}, ${session.returnInvoice},
        ${session.returnHash})`
  }

  async find(id: string, sql: Sql = this.#database.sql): Promise<PrepaidSession | null> {
    return await sessions.one(sql`
      select sessions.*, deposited_msat, spent_msat, refunded_msat, held_msat, expires_at
      from sessions join balances using (id) where id = ${id}`)
  }

  /** Locks both rows for the transaction; the balance's first, as everywhere, to avoid deadlocks. */
  async lock(sql: Sql, id: string): Promise<PrepaidSession | null> {
    await sql`select from balances where id = ${id} for update`
    await sql`select from sessions where id = ${id} for update`
    return this.find(id, sql)
  }

  async touch(id: string, now: number, sql: Sql = this.#database.sql): Promise<void> {
    await sql`update sessions set used_at = greatest(used_at, ${new Date(now)}) where id = ${id} and closed_at is null`
  }

  async close(sql: Sql, id: string, by: ClosedBy, challenge: string | null, now: number): Promise<boolean> {
    const done = await sql`
      update sessions set closed_at = ${new Date(now)}, closed_by = ${by}, close_challenge = ${challenge}
      where id = ${id} and closed_at is null`
    return done.count > 0
  }

  /** Records and returns the answer to a closing client: the refund as it is now, final once it has succeeded. */
  async tell(id: string, { refundSats, refundStatus }: ReportedRefund): Promise<ReportedRefund> {
    const refundRecords = records({
      refundSats: amount('told_sats'),
      refundStatus: text<ReportedRefund['refundStatus']>('told_status')
    })
    const [row] = await refundRecords.all(this.#database.sql`
      update sessions set
        told_sats = case when coalesce(told_status, 'failed') = 'failed' then ${refundSats} else told_sats end,
        told_status = case when coalesce(told_status, 'failed') = 'failed' then ${refundStatus} else told_status end
      where id = ${id} returning told_sats, told_status`)
    return row ?? { refundSats, refundStatus }
  }

  /** Writes the refund's state; the row is locked. `checkAt` null: no lookup. */
  async refund(sql: Sql, id: string, refund: Refunding, fault: string | null, checkAt: number | null): Promise<void> {
    await sql`
      update sessions set refund_status = ${refund.status}, refund_reference = ${refund.reference},
        refund_sats = ${refund.amountSats}, refund_fee_sats = ${refund.feeSats}, refund_payout_id = ${refund.providerRefundId},
        refund_begun_at = ${new Date(refund.createdAt)}, refund_asked_at = ${new Date(refund.requestedAt)},
        refund_ended_at = ${at(refund.processedAt)}, refund_check_at = ${at(checkAt)}, refund_fault = ${fault}
      where id = ${id}`
  }

  /** Nothing payable is left. The row is locked. */
  async skip(sql: Sql, id: string, now: number): Promise<void> {
    await sql`update sessions set refund_status = 'skipped', refund_ended_at = ${new Date(now)} where id = ${id}`
  }

  /**
   * Replaces the invoice of a refund that is not in flight. The row is locked.
   * @throws as `open`
   */
  async returnTo(sql: Sql, id: string, invoice: string, hash: string): Promise<void> {
    await sql`update sessions set return_invoice = ${invoice}, return_hash = ${hash} where id = ${id}`
  }

  /** Resets a refund that was certainly not sent to begin at `retryAt`. The row is locked. */
  async putBack(sql: Sql, id: string, retryAt: number, refusals: number, fault: string | null): Promise<void> {
    await sql`
      update sessions set refund_status = null, refund_reference = null, refund_sats = 0, refund_fee_sats = 0,
        refund_payout_id = null, refund_begun_at = null, refund_asked_at = null, refund_ended_at = null,
        refund_check_at = ${new Date(retryAt)}, refund_refusals = ${refusals}, refund_fault = ${fault}
      where id = ${id}`
  }

  async settled(sql: Sql, id: string, by: string, why: string): Promise<void> {
    await sql`update sessions set settled_by = ${by}, settled_why = ${why} where id = ${id}`
  }

  async checkAt(id: string, next: number): Promise<void> {
    await this.#database.sql`update sessions set refund_check_at = ${new Date(next)} where id = ${id}`
  }

  /**
   * Open ones past their end, or unused for their idle time plus the `grace` fraction, without requests in flight;
   * longest idle first.
   */
  async idle(now: number, grace: number, limit: number): Promise<ReadonlyArray<{ id: string; by: 'idle' | 'end' }>> {
    const found = await records({ id: text(), by: text<'idle' | 'end'>() }).all(this.#database.sql`
      select id, case when expires_at <= ${new Date(now)} then 'end' else 'idle' end as by
      from sessions join balances using (id)
      where closed_at is null and held_msat = 0
        and (expires_at <= ${new Date(now)}
          or used_at < ${new Date(now)}::timestamptz - make_interval(secs => idle_ms * ${1 + grace}::float8 / 1000))
      order by used_at limit ${limit}`)
    return found
  }

  /** Closed ones with a due refund and no slices left. */
  async unrefunded(now: number, limit: number): Promise<readonly string[]> {
    const found = await ids.all(this.#database.sql`
      select id from sessions join balances using (id)
      where closed_at is not null and refund_status is null and held_msat = 0
        and (refund_check_at is null or refund_check_at <= ${new Date(now)})
      order by refund_check_at nulls first, closed_at limit ${limit}`)
    return found.map(({ id }) => id)
  }

  /** Refunds to look up, each claimed for `again`. */
  async takeDue(now: number, again: number, limit: number): Promise<readonly string[]> {
    const found = await ids.all(this.#database.sql`
      update sessions set refund_check_at = ${new Date(now + again)} where id in (
        select id from sessions where refund_status in ('pending', 'processing') and refund_check_at <= ${new Date(now)}
        order by refund_check_at limit ${limit} for update skip locked)
      returning id`)
    return found.map(({ id }) => id)
  }

  /** Newest first; stuck ones oldest first. `lostBefore`: unknown refunds begun earlier are lost. */
  async list(view: SessionViewName, lostBefore: number, page: PageRange): Promise<readonly PrepaidSession[]> {
    const { sql } = this.#database
    const which = view === 'open' ? sql`closed_at is null` : view === 'stuck' ? stuck(sql, lostBefore) : sql`true`
    const order = view === 'stuck' ? sql`closed_at, id` : sql`sessions.opened_at desc, id desc`
    return await sessions.all(sql`
      select sessions.*, deposited_msat, spent_msat, refunded_msat, held_msat, expires_at
      from sessions join balances using (id) where ${which} order by ${order} limit ${page.take} offset ${page.skip}`)
  }

  async counts(lostBefore: number): Promise<{ readonly open: number; readonly stuck: number }> {
    const { sql } = this.#database
    const [row] = await records({ open: amount(), stuck: amount() }).all(sql`
      select (select count(*) from sessions where closed_at is null) as open,
        (select count(*) from sessions where ${stuck(sql, lostBefore)}) as stuck`)
    return row ?? { open: 0, stuck: 0 }
  }

  async purge(before: number, limit: number): Promise<number> {
    const gone = await this.#database.sql`
      delete from sessions where id in (
        select id from sessions where opened_at < ${new Date(before)} and closed_at is not null
          and not exists (select from balances where balances.id = sessions.id) limit ${limit})`
    return gone.count
  }
}

/** Refunds since `before` that failed, could not be sent, or lack the provider's acknowledgment. */
export function stuck(sql: Sql, before: number) {
  const since = new Date(before)
  return sql`(refund_status = 'failed'
    or (refund_status = 'pending' and refund_payout_id is null and refund_begun_at < ${since})
    or (refund_status is null and refund_fault is not null and closed_at < ${since}))`
}

function at(time: number | null): Date | null {
  return time === null ? null : new Date(time)
}
