/**
 * The one source of time. Everything that expires, backs off or measures takes a `Clock`, so that tests move time
 * instead of sleeping.
 */
export interface Clock {
  /** Wall-clock milliseconds since the epoch. */
  now(): number
  /** Monotonic milliseconds with a fraction, for durations only. */
  monotonic(): number
  /** Calls `run` once after `ms` milliseconds, unless cancelled. Does not keep the process alive. */
  after(ms: number, run: () => void): Timer
  /** Calls `run` every `ms` milliseconds until cancelled. Does not keep the process alive. */
  every(ms: number, run: () => void): Timer
}

/** A running timer of a `Clock`. Cancelling twice is harmless. */
export interface Timer {
  cancel(): void
}

/** What a timer of Node waits at most; a longer one would ring after a millisecond. */
const LONGEST = 2 ** 31 - 1

/** The machine's own clock and timers. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    let handle: NodeJS.Timeout
    const wait = (left: number): void => {
      handle =
        left <= LONGEST
          ? setTimeout(run, left)
          : setTimeout(() => {
              wait(left - LONGEST)
            }, LONGEST)
      handle.unref()
    }
    wait(ms)
    return {
      cancel: () => {
        clearTimeout(handle)
      }
    }
  },
  every(ms, run) {
    if (ms > LONGEST) return seldom(ms, run)
    const handle = setInterval(run, ms)
    handle.unref()
    return {
      cancel: () => {
        clearInterval(handle)
      }
    }
  }
}

/** `every` for times that no interval of Node can have. */
function seldom(ms: number, run: () => void): Timer {
  let timer: Timer
  const next = (): void => {
    timer = systemClock.after(ms, () => {
      next()
      run()
    })
  }
  next()
  return {
    cancel: () => {
      timer.cancel()
    }
  }
}
