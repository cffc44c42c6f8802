import { isConnectionFault } from '../../platform/database/errors.ts'
import { inTime, pause, type Clock, type Timer } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { Entries } from './entries.ts'
import type { LeaseTimes, HeldReservation, Slice, Slices } from './slice.ts'
import type { SliceWrite } from './balance.ts'
import type { BalanceStore } from './store.ts'

interface SliceWritesDependencies {
  readonly store: BalanceStore
  readonly slices: Slices
  readonly clock: Clock
  readonly log: Log
  readonly gateway: string
  readonly times: LeaseTimes
}

/** Milliseconds that charges may wait for their write: what a dying gateway may lose. */
const WRITE_EVERY = 100
const RETRY = 1_000
const FLUSH_WITHIN = 1_000

/**
 * Writes what slices have spent and reserved and returns the rest: one write per slice at a time, retried until
 * answered.
 */
export class SliceWrites {
  readonly #dependencies: SliceWritesDependencies
  #dirty = new Set<Slice>()
  readonly #running = new Map<Slice, Promise<void>>()
  #timer: Timer | null = null
  #isClosed = false

  constructor(dependencies: SliceWritesDependencies) {
    this.#dependencies = dependencies
  }

  hold(slice: Slice, msat: number): HeldReservation {
    this.soon(slice)
    return slice.hold(msat, this.#dependencies.clock.now())
  }

  /** Schedules a batched write within `WRITE_EVERY`. */
  soon(slice: Slice): void {
    slice.isDirty = true
    this.#dirty.add(slice)
    if (this.#isClosed) return
    this.#timer ??= this.#dependencies.clock.after(WRITE_EVERY, () => {
      this.#timer = null
      this.#write()
    })
  }

  now(slice: Slice): void {
    if (slice.writing === null) this.#begin(slice)
    else this.soon(slice)
  }

  async written(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  /** Writes a slice now; resolves when all its earlier charges are stored, or after a second. */
  async flush(slice: Slice): Promise<void> {
    await inTime(this.#dependencies.clock, FLUSH_WITHIN, this.#flush(slice), undefined)
  }

  async #flush(slice: Slice): Promise<void> {
    // The running write may lack the latest charges.
    await this.#running.get(slice)
    if (slice.isDirty && slice.writing === null) this.#begin(slice)
    await this.#running.get(slice)
  }

  /** Writes all charges and returns what is not reserved. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.cancel()
    this.#timer = null
    for (const slice of this.#dependencies.slices.all) {
      if (!slice.isGranted) continue
      this.#dependencies.slices.retire(slice)
      this.#dirty.add(slice)
    }
    // Twice, for slices with a write in flight.
    for (let time = 0; time < 2; time++) {
      this.#write()
      await this.written()
    }
    await this.#dependencies.store.drained()
  }

  #write(): void {
    const dirty = this.#dirty
    this.#dirty = new Set()
    for (const slice of dirty) {
      if (slice.writing === null) this.#begin(slice)
      else this.#dirty.add(slice)
    }
  }

  #begin(slice: Slice): void {
    const writing = this.#writeSlice(slice).finally(() => this.#running.delete(slice))
    this.#running.set(slice, writing)
  }

  async #writeSlice(slice: Slice): Promise<void> {
    const { clock, slices, times } = this.#dependencies
    const now = clock.now()
    const isUnused = slice.reserved === 0 && slice.waiting.length === 0 && !slice.isRequesting
    const isLast = isUnused && (slice.state !== 'current' || now - slice.usedAt >= times.idle)
    const back = slice.state !== 'current' || isLast || slice.isAskedFor ? slice.free : 0
    const keptUntil = now + times.kept
    const write: SliceWrite = {
      balanceId: slice.balanceId,
      sliceId: slice.id,
      nth: ++slice.writes,
      spent: slice.spent,
      back,
      reserved: slice.reserved,
      isLast,
      keptUntil,
      entries: slice.entries
    }
    slice.writing = write
    slice.isDirty = slice.isAskedFor = false
    slice.amount -= back
    slice.spent = 0
    slice.entries = new Entries()
    // New requests begin another slice.
    if (isLast) slices.retire(slice)
    const left = await this.#answered(slice, write)
    slice.writing = null
    if (isLast) this.#forget(slice)
    else if (left === null) this.#lose(slice, write)
    else {
      slice.leftInDatabase = left
      slice.keptUntil = keptUntil
      if (slice.isDirty) this.soon(slice)
    }
  }

  /** Retries a write until it is answered; null if the slice is gone or the database refuses it. */
  async #answered(slice: Slice, write: SliceWrite): Promise<number | null> {
    const { store, clock, log } = this.#dependencies
    for (;;) {
      try {
        return await store.write(write)
      } catch (error) {
        const failed = { balance: slice.balanceId, msat: write.spent, err: error }
        if (!isConnectionFault(error)) {
          log.error(failed, 'The database refused what was spent of a balance')
          return null
        }
        if (this.#isClosed) {
          log.error(failed, 'What was spent of a balance could not be written before the gateway ended')
          return null
        }
      }
      await pause(clock, RETRY)
    }
  }

  /** Marks a slice swept, or its write refused: nothing more is spent from it. */
  #lose(slice: Slice, write: SliceWrite): void {
    this.#dependencies.log.error(
      { balance: slice.balanceId, gateway: this.#dependencies.gateway, msat: write.spent + slice.spent },
      'A slice of a balance was lost; what was served from it since its last write is not charged'
    )
    slice.state = 'lost'
    slice.entries = new Entries()
    this.#forget(slice)
  }

  #forget(slice: Slice): void {
    this.#dirty.delete(slice)
    this.#dependencies.slices.forget(slice)
  }
}
