import type { Clock, Timer } from '../../src/platform/system/clock.ts'

interface Pending {
  at: number
  run: () => void
  every: number | null
}

/** A clock that is paused until a test moves it; timers that fall due run in order of their time. */
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

  /**
   * Moves time forward by `ms` milliseconds in one step, as for a process that was asleep: what falls due on the way runs
   * at the end, once, however often it would have. A gateway looks ten times a second: forty days take it seconds.
   */
  leap(ms: number): void {
    this.#now += ms
    const due = [...this.#pending].filter(timer => timer.at <= this.#now).sort((one, other) => one.at - other.at)
    for (const timer of due) {
      // One that ran before it may have canceled it.
      if (!this.#pending.has(timer)) continue
      if (timer.every === null) this.#pending.delete(timer)
      else timer.at = this.#now + timer.every
      timer.run()
    }
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
