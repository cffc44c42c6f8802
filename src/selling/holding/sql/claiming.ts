import { Batch } from '../../../platform/database/batch.ts'
import type { Database, Sql } from '../../../platform/database/database.ts'
import type { OverRows } from '../../../platform/database/given-rows.ts'
import type { Records, Row } from '../../../platform/database/rows.ts'
import type { Challenge, ClaimIn, ClaimedChallenge, OnPaid, Sale } from '../challenge.ts'
import { challengeRows, claimCounts } from './rows.ts'

export class Claiming<R extends { readonly paymentHash: string }, C extends Sale> {
  readonly #database: Database
  readonly #rows: Records<C>
  readonly #statement: OverRows<R>
  readonly #batch: Batch<R, Row | null>

  constructor(database: Database, rows: Records<C>, statement: OverRows<R>) {
    this.#database = database
    this.#rows = rows
    this.#statement = statement
    this.#batch = new Batch({ key: row => row.paymentHash, write: given => this.write(database.sql, given) })
  }

  /** On its own and batched with the database's handle, else within a transaction. */
  async claim(sql: Sql, row: R): Promise<ClaimedChallenge<C> | null> {
    const found = sql === this.#database.sql ? await this.#batch.add(row) : (await this.write(sql, [row]))[0]
    // Outside the batch: the claims are committed, and an unreadable row must not repeat them.
    return this.read(found ?? null)
  }

  async write(sql: Sql, given: readonly R[]): Promise<Array<Row | null>> {
    return await this.#statement.one(sql, given)
  }

  read(row: Row | null): ClaimedChallenge<C> | null {
    if (row === null) return null
    const { verifications, returns } = claimCounts.read(row)
    return { challenge: this.#rows.read(row), first: verifications === 1, returns }
  }

  drained(): Promise<void> {
    return this.#batch.drained()
  }
}

export class NotifyingClaiming<R extends { readonly paymentHash: string }> extends Claiming<R, Challenge> {
  readonly #told: Batch<{ readonly row: R; readonly onPaid: OnPaid }, ClaimedChallenge | null>

  constructor(database: Database, statement: OverRows<R>) {
    super(database, challengeRows, statement)
    this.#told = new Batch({
      key: ({ row }) => row.paymentHash,
      write: given =>
        database.transaction(async tx => {
          const rows = await this.write(
            tx,
            given.map(({ row }) => row)
          )
          const claimed = rows.map(row => this.read(row))
          const told = new Map<OnPaid, Challenge[]>()
          for (const [at, { onPaid }] of given.entries()) {
            const one = claimed[at]
            if (one?.first !== true) continue
            const others = told.get(onPaid)
            if (others === undefined) told.set(onPaid, [one.challenge])
            else others.push(one.challenge)
          }
          for (const [onPaid, firsts] of told) await onPaid(tx, firsts)
          return claimed
        })
    })
  }

  async claimIn(where: ClaimIn, row: R): Promise<ClaimedChallenge | null> {
    return 'onPaid' in where ? await this.#told.add({ row, onPaid: where.onPaid }) : await this.claim(where, row)
  }

  override async drained(): Promise<void> {
    await Promise.all([super.drained(), this.#told.drained()])
  }
}
