/** The one source of time, injected so that tests move time instead of sleeping. */
export interface Clock {
  /** Wall-clock milliseconds since the epoch. */
  now(): number
  /** Monotonic milliseconds with a fraction, for durations only. */
  monotonic(): number
  after(ms: number, run: () => void): Timer
  /** Does not keep the process alive. */
  every(ms: number, run: () => void): Timer
}

/** Canceling twice is harmless. */
export interface Timer {
  cancel(): void
}

/** The result of `work`, or `late` once it takes longer than `ms`. */
export async function inTime<T, L>(clock: Pick<Clock, 'after'>, ms: number, work: Promise<T>, late: L): Promise<T | L> {
  const over = Promise.withResolvers<L>()
  const timer = clock.after(ms, () => {
    over.resolve(late)
  })
  try {
    return await Promise.race([work, over.promise])
  } finally {
    timer.cancel()
  }
}

export function pause(clock: Pick<Clock, 'after'>, ms: number): Promise<void> {
  return new Promise(resolve => {
    clock.after(ms, resolve)
  })
}

/** Node's longest timer; a longer one fires after a millisecond. */
const LONGEST = 2 ** 31 - 1

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
    if (ms > LONGEST) return longTimer(ms, run)
    const handle = setInterval(run, ms)
    handle.unref()
    return {
      cancel: () => {
        clearInterval(handle)
      }
    }
  }
}

function longTimer(ms: number, run: () => void): Timer {
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
