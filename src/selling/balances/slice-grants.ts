import { isConnectionFault } from '../../platform/database/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { LeaseTimes, HeldReservation, Refused, Slice, Slices, GrantWaiter } from './slice.ts'
import type { SliceWrites } from './slice-writes.ts'
import type { BalanceState, Grabbed } from './balance.ts'
import type { BalanceStore } from './store.ts'

export interface SliceGrantsParts {
  readonly store: BalanceStore
  readonly slices: Slices
  readonly writes: SliceWrites
  readonly clock: Clock
  readonly gateway: string
  readonly times: LeaseTimes
  /** Asks other gateways to return what they do not need. */
  readonly askOthers: (balanceId: string) => Promise<void>
}

/** Delays in milliseconds of retries while other gateways hold what is missing. */
const ASK_AGAIN = [50, 150, 400] as const

export class SliceGrants {
  readonly #parts: SliceGrantsParts

  constructor(parts: SliceGrantsParts) {
    this.#parts = parts
  }

  /** Reserves beyond the slice's free part. Rejects if the database is down; nothing is known to be reserved then. */
  hold(slice: Slice, msat: number, isPartial: boolean): Promise<HeldReservation | Refused> {
    const { promise, resolve, reject } = Promise.withResolvers<HeldReservation | Refused>()
    slice.waiting.push({ msat, isPartial, resolve, reject })
    if (!slice.isGrabbing) void this.#serve(slice)
    return promise
  }

  /** Serves waiters in order, with as few statements as possible. */
  async #serve(slice: Slice): Promise<void> {
    const { writes } = this.#parts
    slice.isGrabbing = true
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
      let grabbed: Grabbed | null
      try {
        grabbed = await this.#grab(slice, first)
      } catch (error) {
        // They all wait for the same database.
        for (const { reject } of slice.waiting.splice(0)) reject(error)
        break
      }
      if (grabbed !== null && grabbed.granted > 0) {
        tries = 0
        // A partial one takes what there is; another grant would get no more.
        if (first.isPartial && slice.free < first.msat) {
          slice.waiting.shift()
          first.resolve(writes.hold(slice, slice.free))
        }
        continue
      }
      if (grabbed !== null && !first.isPartial && (await this.#othersGive(slice, grabbed, first, tries))) {
        tries++
        continue
      }
      tries = 0
      this.#refuse(slice, grabbed, first)
    }
    slice.isGrabbing = false
    // Without a grant there is nothing to write.
    if (!slice.isGranted && slice.waiting.length === 0) this.#parts.slices.forget(slice)
  }

  async #grab(slice: Slice, first: GrantWaiter): Promise<Grabbed | null> {
    const { store, clock, gateway, times } = this.#parts
    const now = clock.now()
    const { free } = slice
    const wanted = slice.waiting.reduce((sum, { msat }) => sum + msat, 0)
    const keptUntil = now + times.kept
    const grabbed = await store.grab({
      balanceId: slice.balanceId,
      sliceId: slice.id,
      gateway,
      need: first.isPartial ? 1 : first.msat - free,
      want: wanted - free,
      keptUntil,
      now
    })
    if (grabbed === null) return null
    // It includes our concurrent writes, or their own answers will report them.
    slice.leftInDatabase = grabbed.leftMsat
    if (grabbed.granted > 0) {
      slice.amount += grabbed.granted
      slice.keptUntil = keptUntil
    }
    return grabbed
  }

  /** Asks other gateways for what could be enough, and waits a little. */
  async #othersGive(slice: Slice, grabbed: Grabbed, first: GrantWaiter, tries: number): Promise<boolean> {
    const pause = ASK_AGAIN[tries]
    const others = grabbed.heldMsat - slice.amount - (slice.writing?.spent ?? 0) - slice.spent
    if (pause === undefined || others <= 0 || grabbed.state !== 'open') return false
    if (grabbed.leftMsat - slice.reserved - slice.spent < first.msat) return false
    try {
      await this.#parts.askOthers(slice.balanceId)
    } catch (error) {
      if (!isConnectionFault(error)) throw error
      return false
    }
    await new Promise<void>(resolve => {
      this.#parts.clock.after(pause, resolve)
    })
    return true
  }

  /** Refuses the first waiter and all that ask for as much or more. */
  #refuse(slice: Slice, grabbed: Grabbed | null, first: GrantWaiter): void {
    const why: Refused['why'] =
      grabbed === null
        ? 'unknown'
        : (whyNot(grabbed.state, grabbed.expiresAt, this.#parts.clock.now()) ?? 'insufficient')
    // Others have reserved what they hold; else they would have returned it.
    const free = grabbed === null ? 0 : grabbed.leftMsat - grabbed.heldMsat + slice.free
    const leftMsat = Math.max(0, free)
    const all = new Set(
      slice.waiting.filter(
        each => why !== 'insufficient' || each === first || (!each.isPartial && each.msat >= first.msat)
      )
    )
    slice.waiting = slice.waiting.filter(waiting => !all.has(waiting))
    for (const { resolve } of all) resolve({ kind: 'refused', why, leftMsat })
  }
}

function whyNot(state: BalanceState, expiresAt: number, now: number): 'closed' | 'expired' | null {
  if (state !== 'open') return 'closed'
  return expiresAt <= now ? 'expired' : null
}
