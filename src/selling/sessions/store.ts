import type { Database, Sql } from '../../platform/database/database.ts'
import { amount, moment, optional, records, text, type Records } from '../../platform/database/rows.ts'
import type { InvoiceNetwork } from '../../lightning/codecs/bolt11.ts'
import type { SessionRefund as ToldRefund } from '../../lightning/payment-scheme/session-messages.ts'
import type { KindName } from '../../lightning/providers/provider.ts'
import type { PaidOut, RefundStatus } from '../../lightning/providers/payout-states.ts'

/** Times here are milliseconds since the epoch; satoshis where it says so, else millisatoshis. */

/** Who closed a session: its client, nobody's using it, the end of its return invoice, or the operator. */
export type ClosedBy = 'client' | 'idle' | 'end' | 'operator'

/** What a session is opened with. */
export interface NewSession {
  /** Payment hash of the first deposit, which is its balance's id too. */
  readonly id: string
  /** Id of the challenge that opened it. */
  readonly openChallenge: string
  readonly network: InvoiceNetwork
  /** Of the first deposit, at the provider that pays back what is left. */
  readonly chargeId: string
  readonly providerSlot: string
  readonly providerKind: KindName
  readonly openedAt: number
  /** How long it may rest. */
  readonly idleMs: number
  /** BOLT 11 without an amount, in lower case. */
  readonly returnInvoice: string
  readonly returnHash: string
}

/** A session's row, with what its balance says. */
export interface PrepaidSession extends NewSession {
  readonly usedAt: number
  readonly closedAt: number | null
  readonly closedBy: ClosedBy | null
  /** Id of the challenge that closed it, where a client did; and what that was told. */
  readonly closeChallenge: string | null
  readonly toldSats: number | null
  readonly toldStatus: ToldRefund['refundStatus'] | null
  /** Null until the refund has begun, and between attempts; `skipped` where too little was left to send. */
  readonly refundStatus: RefundStatus | 'skipped' | null
  readonly refundReference: string | null
  readonly refundSats: number
  readonly refundFeeSats: number
  /** The provider's own id; null while it is not known whether it took the request. */
  readonly refundPayoutId: string | null
  readonly refundBegunAt: number | null
  /** When the provider was last asked to send it. */
  readonly refundAskedAt: number | null
  readonly refundEndedAt: number | null
  /** When it is looked up next; while it has not begun, when it is sent at the earliest. */
  readonly refundCheckAt: number | null
  /** How often the provider has refused to send it to this invoice. */
  readonly refundRefusals: number
  /** Why it failed, or why it waits for another attempt. */
  readonly refundFault: string | null
  /** Who said what became of it, and why, where only the provider's records showed that. */
  readonly settledBy: string | null
  readonly settledWhy: string | null
  readonly depositedMsat: number
  readonly spentMsat: number
  readonly refundedMsat: number
  readonly heldMsat: number
  /** When it is closed at the latest. */
  readonly expiresAt: number
}

/** A refund that has begun. */
export interface Refunding extends PaidOut {
  /** When the provider was last asked to send it; when it began, where it was asked once. */
  readonly askedAt: number
  readonly reference: string
  readonly amountSats: number
}

const columns = {
  id: text(),
  openChallenge: text(),
  network: text<InvoiceNetwork>(),
  chargeId: text(),
  providerSlot: text(),
  providerKind: text<KindName>(),
  openedAt: moment(),
  idleMs: amount(),
  usedAt: moment(),
  closedAt: optional(moment()),
  closedBy: optional(text<ClosedBy>()),
  closeChallenge: optional(text()),
  toldSats: optional(amount()),
  toldStatus: optional(text<ToldRefund['refundStatus']>()),
  returnInvoice: text(),
  returnHash: text(),
  refundStatus: optional(text<RefundStatus | 'skipped'>()),
  refundReference: optional(text()),
  refundSats: amount(),
  refundFeeSats: amount(),
  refundPayoutId: optional(text()),
  refundBegunAt: optional(moment()),
  refundAskedAt: optional(moment()),
  refundEndedAt: optional(moment()),
  refundCheckAt: optional(moment()),
  refundRefusals: amount(),
  refundFault: optional(text()),
  settledBy: optional(text()),
  settledWhy: optional(text()),
  depositedMsat: amount(),
  spentMsat: amount(),
  refundedMsat: amount(),
  heldMsat: amount(),
  expiresAt: moment()
}
const sessions: Records<PrepaidSession> = records(columns)
const ids = records({ id: text() })

/** Which sessions an administrator lists; `stuck`: money is left that nobody sends by itself. */
export const SESSION_VIEWS = ['all', 'open', 'stuck'] as const
export type SessionViewName = (typeof SESSION_VIEWS)[number]

/** The rows of sessions, on PostgreSQL or the embedded database. */
export class SessionStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** @throws a unique violation of `sessions_return_hash` where another session is paid back to the same invoice */
  async open(sql: Sql, session: NewSession): Promise<void> {
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

  /** The same, both rows locked until the transaction ends; the balance's first, as everywhere. */
  async lock(sql: Sql, id: string): Promise<PrepaidSession | null> {
    await sql`select from balances where id = ${id} for update`
    await sql`select from sessions where id = ${id} for update`
    return this.find(id, sql)
  }

  /** Notes that it was used. */
  async touch(id: string, now: number, sql: Sql = this.#database.sql): Promise<void> {
    await sql`update sessions set used_at = greatest(used_at, ${new Date(now)}) where id = ${id} and closed_at is null`
  }

  /** Marks it closed, once. */
  async close(sql: Sql, id: string, by: ClosedBy, challenge: string | null, now: number): Promise<boolean> {
    const done = await sql`
      update sessions set closed_at = ${new Date(now)}, closed_by = ${by}, close_challenge = ${challenge}
      where id = ${id} and closed_at is null`
    return done.count > 0
  }

  /** Notes and returns what a client that closes it is told: the refund as it is now, and the same for good once it has ended well. */
  async tell(id: string, { refundSats, refundStatus }: ToldRefund): Promise<ToldRefund> {
    const told = records({
      refundSats: amount('told_sats'),
      refundStatus: text<ToldRefund['refundStatus']>('told_status')
    })
    const [row] = await told.all(this.#database.sql`
      update sessions set
        told_sats = case when coalesce(told_status, 'failed') = 'failed' then ${refundSats} else told_sats end,
        told_status = case when coalesce(told_status, 'failed') = 'failed' then ${refundStatus} else told_status end
      where id = ${id} returning told_sats, told_status`)
    return row ?? { refundSats, refundStatus }
  }

  /** Writes how the refund stands; the row is locked. `checkAt` null: nobody looks it up. */
  async refund(sql: Sql, id: string, refund: Refunding, fault: string | null, checkAt: number | null): Promise<void> {
    await sql`
      update sessions set refund_status = ${refund.status}, refund_reference = ${refund.reference},
        refund_sats = ${refund.amountSats}, refund_fee_sats = ${refund.feeSats}, refund_payout_id = ${refund.providerRefundId},
        refund_begun_at = ${new Date(refund.createdAt)}, refund_asked_at = ${new Date(refund.askedAt)},
        refund_ended_at = ${at(refund.processedAt)}, refund_check_at = ${at(checkAt)}, refund_fault = ${fault}
      where id = ${id}`
  }

  /** Nothing is left that could be sent. The row is locked. */
  async skip(sql: Sql, id: string, now: number): Promise<void> {
    await sql`update sessions set refund_status = 'skipped', refund_ended_at = ${new Date(now)} where id = ${id}`
  }

  /** Another invoice for a refund that is not under way. The row is locked. @throws as `open` */
  async returnTo(sql: Sql, id: string, invoice: string, hash: string): Promise<void> {
    await sql`update sessions set return_invoice = ${invoice}, return_hash = ${hash} where id = ${id}`
  }

  /** Makes a refund that was certainly not sent one that begins at `retryAt`. The row is locked. */
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
   * Open ones that nobody has used for their idle time and `grace` of it, or whose end has come, while no request of
   * theirs is under way; the longest idle first.
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

  /** Closed ones whose refund is due: no gateway holds a part of the balance any more. */
  async unrefunded(now: number, limit: number): Promise<readonly string[]> {
    const found = await ids.all(this.#database.sql`
      select id from sessions join balances using (id)
      where closed_at is not null and refund_status is null and held_msat = 0
        and (refund_check_at is null or refund_check_at <= ${new Date(now)})
      order by refund_check_at nulls first, closed_at limit ${limit}`)
    return found.map(({ id }) => id)
  }

  /** Refunds to look up, each taken for as long as `again`. */
  async takeDue(now: number, again: number, limit: number): Promise<readonly string[]> {
    const found = await ids.all(this.#database.sql`
      update sessions set refund_check_at = ${new Date(now + again)} where id in (
        select id from sessions where refund_status in ('pending', 'processing') and refund_check_at <= ${new Date(now)}
        order by refund_check_at limit ${limit} for update skip locked)
      returning id`)
    return found.map(({ id }) => id)
  }

  /** Newest first; those that are stuck oldest first. `lostBefore`: refunds begun before are lost if still unknown. */
  async list(
    view: SessionViewName,
    lostBefore: number,
    page: { skip: number; take: number }
  ): Promise<readonly PrepaidSession[]> {
    const { sql } = this.#database
    const which = view === 'open' ? sql`closed_at is null` : view === 'stuck' ? stuck(sql, lostBefore) : sql`true`
    const order = view === 'stuck' ? sql`closed_at, id` : sql`sessions.opened_at desc, id desc`
    return await sessions.all(sql`
      select sessions.*, deposited_msat, spent_msat, refunded_msat, held_msat, expires_at
      from sessions join balances using (id) where ${which} order by ${order} limit ${page.take} offset ${page.skip}`)
  }

  /** How many are open and how many refunds have failed or were lost, for measurements. */
  async counts(lostBefore: number): Promise<{ readonly open: number; readonly stuck: number }> {
    const { sql } = this.#database
    const [row] = await records({ open: amount(), stuck: amount() }).all(sql`
      select (select count(*) from sessions where closed_at is null) as open,
        (select count(*) from sessions where ${stuck(sql, lostBefore)}) as stuck`)
    return row ?? { open: 0, stuck: 0 }
  }

  /** Deletes rows of sessions whose balances are gone. */
  async purge(before: number, limit: number): Promise<number> {
    const gone = await this.#database.sql`
      delete from sessions where id in (
        select id from sessions where opened_at < ${new Date(before)} and closed_at is not null
          and not exists (select from balances where balances.id = sessions.id) limit ${limit})`
    return gone.count
  }
}

/** Refunds that failed, that the provider has not acknowledged, or that could not be sent, since `before`. */
function stuck(sql: Sql, before: number) {
  const since = new Date(before)
  return sql`(refund_status = 'failed'
    or (refund_status = 'pending' and refund_payout_id is null and refund_begun_at < ${since})
    or (refund_status is null and refund_fault is not null and closed_at < ${since}))`
}

function at(time: number | null): Date | null {
  return time === null ? null : new Date(time)
}
