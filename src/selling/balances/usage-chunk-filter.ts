import type { BodyFilter } from '../../engine/message/context.ts'
import type { EventUsage } from '../usage/events.ts'

/** A longer event is no usage report and passes in pieces. */
const LONGEST = 16_384

export class UsageChunkFilter implements BodyFilter {
  readonly #reader: EventUsage
  readonly #take: (bytes: Uint8Array) => void | Promise<void>
  readonly #out: (bytes: Uint8Array) => void
  #kept: Buffer[] = []
  #size = 0
  /** The start of this event has passed. */
  #isPassing = false

  /** `take` feeds the reader and returns a promise for back-pressure. */
  constructor(reader: EventUsage, take: (bytes: Uint8Array) => void | Promise<void>, out: (bytes: Uint8Array) => void) {
    this.#reader = reader
    this.#take = take
    this.#out = out
  }

  write(bytes: Uint8Array): void | Promise<void> {
    // Passed bytes begin at `from`, the current event at `at`.
    let [from, at] = [0, 0]
    this.#reader.onEvent = end => {
      if (this.#reader.isUsageChunk && !this.#isPassing) {
        if (at > from) this.#pass(bytes.subarray(from, at))
        this.#kept = []
        this.#size = 0
        from = end
      } else this.#flush()
      this.#isPassing = false
      at = end
    }
    const pending = this.#take(bytes)
    this.#reader.onEvent = null
    if (at > from) this.#pass(bytes.subarray(from, at))
    const rest = bytes.subarray(at)
    if (rest.byteLength === 0) return pending
    this.#size += rest.byteLength
    if (this.#isPassing) this.#out(rest)
    else this.#kept.push(Buffer.from(rest))
    if (this.#size > LONGEST) {
      this.#flush()
      this.#isPassing = true
    }
    return pending
  }

  end(): void {
    this.#flush()
  }

  #pass(bytes: Uint8Array): void {
    this.#flush()
    this.#out(bytes)
  }

  #flush(): void {
    for (const piece of this.#kept) this.#out(piece)
    this.#kept = []
    this.#size = 0
  }
}
