import { isConnectionFault } from '../../platform/database/errors.ts'
import { pause, type Clock } from '../../platform/system/clock.ts'
import type { LeaseTimes, HeldReservation, Refused, Slice, Slices, GrantWaiter } from './slice.ts'
import type { SliceWrites } from './slice-writes.ts'
import type { BalanceState, GrantedSlice } from './balance.ts'
import type { BalanceStore } from './store.ts'

interface SliceGrantsDependencies {
  readonly store: BalanceStore
  readonly slices: Slices
  readonly writes: SliceWrites
  readonly clock: Clock
  readonly gateway: string
  readonly times: LeaseTimes
  /** Asks other gateways to return what they do not need. */
  readonly askOthers: (balanceId: string) => Promise<void>
}

/** Delays of retries while other gateways hold what is missing. */
const ASK_AGAIN = [50, 150, 400] as const

export class SliceGrants {
  readonly #dependencies: SliceGrantsDependencies

  constructor(dependencies: SliceGrantsDependencies) {
    this.#dependencies = dependencies
  }

  /** Reserves beyond the slice's free part. Rejects if the database is down; nothing is known to be reserved then. */
  hold(slice: Slice, msat: number, isPartial: boolean): Promise<HeldReservation | Refused> {
    const { promise, resolve, reject } = Promise.withResolvers<HeldReservation | Refused>()
    slice.waiting.push({ msat, isPartial, resolve, reject })
    if (!slice.isRequesting) void this.#serve(slice)
    return promise
  }

  /** Serves waiters in order, with as few statements as possible. */
  async #serve(slice: Slice): Promise<void> {
    const { writes } = this.#dependencies
    slice.isRequesting = true
    let tries = 0
    while (slice.waiting.length > 0) {
      const [first] = slice.waiting
      if (first === undefined) break
      if (slice.state === 'lost') {
        // Nothing would be charged to a grant now.
        for (const { reject } of slice.waiting.splice(0)) reject(new Error('the slice of the balance was lost'))
        break
      }
      if (slice.isGranted && first.msat <= slice.free) {
        slice.waiting.shift()
        first.resolve(writes.hold(slice, first.msat))
        continue
      }
      let grantedSlice: GrantedSlice | null
      // Later ones may have opened the balance or added to it since.
      const requested = slice.waiting.length
      try {
        grantedSlice = await this.#grab(slice, first)
      } catch (error) {
        // They all wait for the same database.
        for (const { reject } of slice.waiting.splice(0)) reject(error)
        break
      }
      if (grantedSlice !== null && grantedSlice.granted > 0) {
        tries = 0
        // A partial one takes what there is; another grant would get no more.
        if (first.isPartial && slice.free < first.msat) {
          slice.waiting.shift()
          first.resolve(writes.hold(slice, slice.free))
        }
        continue
      }
      if (grantedSlice !== null && !first.isPartial && (await this.#othersGive(slice, grantedSlice, first, tries))) {
        tries++
        continue
      }
      tries = 0
      this.#refuse(slice, grantedSlice, first, requested)
    }
    slice.isRequesting = false
    // Without a grant there is nothing to write.
    if (!slice.isGranted && slice.waiting.length === 0) this.#dependencies.slices.forget(slice)
  }

  async #grab(slice: Slice, first: GrantWaiter, writes = true): Promise<GrantedSlice | null> {
    const { store, clock, gateway, times } = this.#dependencies
    const now = clock.now()
    const { free } = slice
    const wanted = slice.waiting.reduce((sum, { msat }) => sum + msat, 0)
    const keptUntil = now + times.kept
    // Else a gateway that dies loses all that it was granted since its last write, which a busy database delays.
    const hasSpent = slice.spent > 0 || slice.writing !== null
    const stored = writes && hasSpent ? this.#dependencies.writes.flush(slice) : null
    const grantedSlice = await store.grab({
      balanceId: slice.balanceId,
      sliceId: slice.id,
      gateway,
      need: first.isPartial ? 1 : first.msat - free,
      want: wanted - free,
      keptUntil,
      now
    })
    if (grantedSlice === null) return null
    if (stored !== null && grantedSlice.granted === 0) {
      // The answer may count what was being written or not: ask again, now that it is stored.
      await stored
      return this.#grab(slice, first, false)
    }
    // The write's answer is the later one, or says the same.
    if (stored === null) slice.leftInDatabase = grantedSlice.leftMsat
    else await stored
    if (grantedSlice.granted > 0) {
      slice.amount += grantedSlice.granted
      slice.keptUntil = keptUntil
    }
    return grantedSlice
  }

  /** Asks other gateways for what could be enough, and waits a little. */
  async #othersGive(slice: Slice, grantedSlice: GrantedSlice, first: GrantWaiter, tries: number): Promise<boolean> {
    const wait = ASK_AGAIN[tries]
    const others = grantedSlice.heldMsat - slice.amount - (slice.writing?.spent ?? 0) - slice.spent
    if (wait === undefined || others <= 0 || grantedSlice.state !== 'open') return false
    if (grantedSlice.leftMsat - slice.reserved - slice.spent < first.msat) return false
    try {
      await this.#dependencies.askOthers(slice.balanceId)
    } catch (error) {
      if (!isConnectionFault(error)) throw error
      return false
    }
    await pause(this.#dependencies.clock, wait)
    return true
  }

  /** Refuses the first of the `asked` waiters that the answer is for, and those that ask for as much or more. */
  #refuse(slice: Slice, grantedSlice: GrantedSlice | null, first: GrantWaiter, requested: number): void {
    const why: Refused['why'] =
      grantedSlice === null
        ? 'unknown'
        : (whyNot(grantedSlice.state, grantedSlice.expiresAt, this.#dependencies.clock.now()) ?? 'insufficient')
    // Others have reserved what they hold; else they would have returned it.
    const free = grantedSlice === null ? 0 : grantedSlice.leftMsat - grantedSlice.heldMsat + slice.free
    const leftMsat = Math.max(0, free)
    const all = new Set(
      slice.waiting
        .slice(0, requested)
        .filter(each => why !== 'insufficient' || each === first || (!each.isPartial && each.msat >= first.msat))
    )
    slice.waiting = slice.waiting.filter(waiting => !all.has(waiting))
    for (const { resolve } of all) resolve({ kind: 'refused', why, leftMsat })
  }
}

function whyNot(state: BalanceState, expiresAt: number, now: number): 'closed' | 'expired' | null {
  if (state !== 'open') return 'closed'
  return expiresAt <= now ? 'expired' : null
}
