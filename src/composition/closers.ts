import type { Log } from '../telemetry/log.ts'

type Close = () => void | Promise<void>

/** Parts that were opened, ended in the reverse order; one that fails does not keep the others open. */
export class Closers {
  readonly #log: Log
  readonly #list: Close[] = []

  constructor(log: Log) {
    this.#log = log
  }

  add<T>(part: T, close: (part: T) => void | Promise<void>): T {
    this.#list.push(() => close(part))
    return part
  }

  async close(): Promise<void> {
    for (const close of this.#list.splice(0).toReversed()) {
      try {
        await close()
      } catch (error) {
        this.#log.error({ err: error }, 'a part of the gateway failed to close')
      }
    }
  }
}
