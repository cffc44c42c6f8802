import type { Clock, Timer } from '../../src/system/clock.ts'

interface Pending {
  at: number
  run: () => void
  every: number | null
}

/** A clock that stands still until a test moves it; timers that fall due run in order of their time. */
export class ManualClock implements Clock {
  #now: number
  readonly #start: number
  readonly #pending = new Set<Pending>()

  constructor(start: number | string = '2026-11-21T00:00:00.000Z') {
    this.#now = typeof start === 'number' ? start : Date.parse(start)
    this.#start = this.#now
  }

  now(): number {
    return this.#now
  }

  monotonic(): number {
    return this.#now - this.#start
  }

  after(ms: number, run: () => void): Timer {
    return this.#add({ at: this.#now + ms, run, every: null })
  }

  every(ms: number, run: () => void): Timer {
    return this.#add({ at: this.#now + ms, run, every: ms })
  }

  /** Moves time forward by `ms` milliseconds and runs what falls due on the way. */
  advance(ms: number): void {
    const end = this.#now + ms
    for (let due = this.#next(end); due !== null; due = this.#next(end)) {
      this.#now = due.at
      if (due.every === null) this.#pending.delete(due)
      else due.at += due.every
      due.run()
    }
    this.#now = end
  }

  #next(end: number): Pending | null {
    let first: Pending | null = null
    for (const timer of this.#pending) {
      if (timer.at <= end && (first === null || timer.at < first.at)) first = timer
    }
    return first
  }

  #add(timer: Pending): Timer {
    this.#pending.add(timer)
    return {
      cancel: () => {
        this.#pending.delete(timer)
      }
    }
  }
}
