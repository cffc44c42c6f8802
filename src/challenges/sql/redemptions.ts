import { Batch, isUndone } from '../../database/batch.ts'
import type { Database, Sql } from '../../database/database.ts'
import type { Row } from '../../database/rows.ts'
import type { LeaseKey, Sale } from '../store.ts'
import { Claiming } from './claiming.ts'
import { sales } from './rows.ts'
import { BRIEF_ROW, LEASE_AND_SPEND, leaseRows, SPEND_LEASES, type LeaseRow, type SpendRow } from './statements.ts'

/**
 * The two writes of a redemption: its lease, which its request waits for, and its spend, which nobody does. The spends
 * of the redemptions before go along with the leases of the next, so that they share a statement and a commit; where no
 * lease is asked for they go by themselves, and a lease never waits for spends that are under way.
 */
export class Redemptions extends Claiming<LeaseRow, Sale> {
  readonly #own: Sql
  readonly #spends: Batch<SpendRow, boolean>

  constructor(database: Database) {
    super(database, sales, leaseRows(BRIEF_ROW))
    this.#own = database.sql
    this.#spends = new Batch({
      key: row => row.paymentHash,
      write: async given => (await SPEND_LEASES.one(database.sql, given)).map(row => row !== null),
      carrier: this.shared
    })
  }

  /** @returns whether it is spent by this lease now */
  spend({ paymentHash, leaseId }: LeaseKey, now: number): Promise<boolean> {
    return this.#spends.add({ paymentHash, leaseId, now })
  }

  override async write(sql: Sql, given: readonly LeaseRow[]): Promise<Array<Row | null>> {
    const ride = sql === this.#own ? this.#spends.board() : null
    if (ride === null) return await super.write(sql, given)
    try {
      const [leased, spent] = await LEASE_AND_SPEND.run(sql, given, ride.items)
      ride.done(spent.map(row => row !== null))
      return leased
    } catch (error) {
      ride.failed(error)
      // Perhaps it was the others' row that was at fault, or held.
      if (isUndone(error)) return await super.write(sql, given)
      throw error
    }
  }

  override async drained(): Promise<void> {
    await Promise.all([super.drained(), this.#spends.drained()])
  }
}
