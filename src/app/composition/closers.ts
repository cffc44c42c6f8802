import type { Log } from '../../platform/telemetry/log.ts'

interface Opened {
  close(): void | Promise<void>
  readonly patience: number
}

/** Closes opened parts in reverse order; a failing or hanging one does not block the others. */
export class Closers {
  readonly #log: Log
  readonly #patience: number
  readonly #list: Opened[] = []

  /** @param patience milliseconds per part, in real time: test clocks may not advance */
  constructor(log: Log, patience = 30_000) {
    this.#log = log
    this.#patience = patience
  }

  /** @param patience overrides the limit for this part */
  add<T>(part: T, close: (part: T) => void | Promise<void>, patience = this.#patience): T {
    this.#list.push({ close: () => close(part), patience })
    return part
  }

  async close(): Promise<void> {
    const all = this.#list.splice(0)
    for (const [at, { close, patience }] of [...all.entries()].toReversed()) {
      const late = Promise.withResolvers<never>()
      const timer = setTimeout(() => {
        late.reject(new Error(`it did not close within ${patience / 1000} s`))
      }, patience)
      try {
        await Promise.race([close(), late.promise])
      } catch (error) {
        this.#log.error({ err: error, opened: `${at + 1} of ${all.length}` }, 'a part of the gateway failed to close')
      } finally {
        clearTimeout(timer)
      }
    }
  }
}
