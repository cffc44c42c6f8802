import type { Tallied } from '../../platform/telemetry/tallies.ts'
import { add, nothingMeasured, type MeasuredStep } from './measured.ts'

/** Rows of one statement: those of ten thousand proxies at once would hold the process up while they are written out. */
const AT_ONCE = 500
/** Rows that are kept while the database is away; of more proxies and hours nothing is kept. */
const MOST = 20_000

/** What requests of merchants' proxies came to and is not written yet, summed up by proxy and hour. */
export class PendingProxies {
  readonly #rows = new Map<string, MeasuredStep>()

  /** @param at begin of the hour, in milliseconds since the epoch */
  add(at: number, tallied: readonly Tallied[]): void {
    for (const { key, ...counted } of tallied) {
      const id = `${at} ${key}`
      let row = this.#rows.get(id)
      if (row === undefined) {
        if (this.#rows.size >= MOST) continue
        this.#rows.set(id, (row = { at, route: key, ...nothingMeasured() }))
      }
      add(row, { ...counted, sales: 0, sats: 0 })
    }
  }

  /** The rows of the next statement, which are the caller's; none when there are none. */
  take(): MeasuredStep[] {
    const taken: MeasuredStep[] = []
    for (const [id, row] of this.#rows) {
      if (taken.length === AT_ONCE) break
      taken.push(row)
      this.#rows.delete(id)
    }
    return taken
  }
}
