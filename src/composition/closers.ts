import type { Log } from '../telemetry/log.ts'

type Close = () => void | Promise<void>

/** Parts that were opened, ended in the reverse order; one that fails or hangs does not keep the others open. */
export class Closers {
  readonly #log: Log
  readonly #patience: number
  readonly #list: Close[] = []

  /** @param patience milliseconds that one part may take, of the machine's own time: others' clocks may stand still */
  constructor(log: Log, patience = 30_000) {
    this.#log = log
    this.#patience = patience
  }

  add<T>(part: T, close: (part: T) => void | Promise<void>): T {
    this.#list.push(() => close(part))
    return part
  }

  async close(): Promise<void> {
    const all = this.#list.splice(0)
    for (const [at, close] of [...all.entries()].toReversed()) {
      const late = Promise.withResolvers<never>()
      const timer = setTimeout(() => {
        late.reject(new Error(`it did not close within ${this.#patience / 1000} s`))
      }, this.#patience)
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
