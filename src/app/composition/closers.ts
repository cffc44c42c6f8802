import type { Log } from '../../platform/telemetry/log.ts'

interface Opened {
  close(): void | Promise<void>
  /** Milliseconds. */
  readonly patience: number
}

/** Parts that were opened, ended in the reverse order; one that fails or hangs does not keep the others open. */
export class Closers {
  readonly #log: Log
  readonly #patience: number
  readonly #list: Opened[] = []

  /** @param patience milliseconds that one part may take, of the machine's own time: others' clocks may stand still */
  constructor(log: Log, patience = 30_000) {
    this.#log = log
    this.#patience = patience
  }

  /** @param patience where this part may take less than others */
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
