import { Batch } from '../../../platform/database/batch.ts'
import type { Sql } from '../../../platform/database/database.ts'
import { overRows } from '../../../platform/database/given-rows.ts'
import { moment, optional, records, text, type Records } from '../../../platform/database/rows.ts'

/** Where to verify an invoice. After payment, `verify` discloses the preimage. */
interface LnurlCharge {
  /** `LnurlKey.account` of its owner. */
  readonly account: string
  readonly paymentHash: string
  readonly verify: string
  /** Milliseconds since the epoch, as `settledAt`. */
  readonly expiresAt: number
  /** First seen paid; null before. */
  readonly settledAt: number | null
}

type NewCharge = Omit<LnurlCharge, 'settledAt'>

const rows: Records<LnurlCharge> = records({
  account: text(),
  paymentHash: text(),
  verify: text(),
  expiresAt: moment(),
  settledAt: optional(moment())
})

const INSERT = overRows<NewCharge>(
  {
    account: ['text', row => row.account],
    payment_hash: ['text', row => row.paymentHash],
    verify: ['text', row => row.verify],
    expires_at: ['timestamptz', row => row.expiresAt]
  },
  (given, columns) => `with wanted as (select * from ${given}),
    made as (
      insert into lnurl_charges (${columns}) select ${columns} from wanted
      on conflict do nothing returning account, payment_hash)
    select wanted.nth from wanted join made using (account, payment_hash)`
)

export class LnurlStore {
  readonly #sql: Sql
  readonly #inserts: Batch<NewCharge, boolean>

  constructor(sql: Sql) {
    this.#sql = sql
    this.#inserts = new Batch({
      key: ({ account, paymentHash }) => `${account} ${paymentHash}`,
      write: async charges => (await INSERT.one(sql, charges)).map(row => row !== null)
    })
  }

  /** @returns false for an invoice the account already has */
  async insert(charge: NewCharge): Promise<boolean> {
    return await this.#inserts.add(charge)
  }

  async find(account: string, paymentHash: string): Promise<LnurlCharge | null> {
    const sql = this.#sql
    return await rows.one(sql`select * from lnurl_charges where account = ${account} and payment_hash = ${paymentHash}`)
  }

  /**
   * Records payment seen at `now` (milliseconds).
   * @returns when it was first seen
   */
  async settled({ account, paymentHash }: LnurlCharge, now: number): Promise<number> {
    const sql = this.#sql
    const row = await rows.one(sql`
      update lnurl_charges set settled_at = coalesce(settled_at, ${new Date(now)})
      where account = ${account} and payment_hash = ${paymentHash} returning *`)
    return row?.settledAt ?? now
  }

  /**
   * Deletes up to `limit` rows that expired before `before` (milliseconds).
   * @returns the count
   */
  async purge(before: number, limit: number): Promise<number> {
    const sql = this.#sql
    const gone = await sql`
      delete from lnurl_charges where (account, payment_hash) in (
        select account, payment_hash from lnurl_charges where expires_at < ${new Date(before)} order by expires_at limit ${limit})`
    return gone.count
  }
}
