import v8 from 'node:v8'
import vm from 'node:vm'
import type { Clock, Timer } from './clock.ts'

/** Bytes of buffers that may accumulate before a collection. */
const NURSERY = 8 * 1024 * 1024
const LOOK_MS = 5
/** Idle checks after which the timer stops until the next request: starting one per request costs more. */
const IDLE_CHECKS = 20

type CollectGarbage = () => void

/**
 * V8's minor collector, exposed at runtime. V8 counts a buffer as its small handle: a stream of 64 KiB pieces
 * accumulates 100 MB of dead buffers before a collection.
 *
 * The V8 of Node 24 turns a minor collection requested during marking into a full one of 40 to 60 ms instead of one.
 * The second flag allows both together, as in Node 20.
 */
export function garbageCollector(): CollectGarbage {
  v8.setFlagsFromString('--expose-gc')
  v8.setFlagsFromString('--no-separate-gc-phases')
  // The global of a new context is made after the flag was set; that of this one was made before.
  const collect = vm.runInNewContext('gc') as (options: { type: 'minor'; execution: 'sync' }) => void
  return () => {
    collect({ type: 'minor', execution: 'sync' })
  }
}

/**
 * V8 flags of a gateway, set before its first request, for the whole process.
 *
 * - Allocates every object in the young generation. V8 otherwise pretenures literals that survive collections. During
 * warm-up it learns that of headers and offers in flight; what such a dead literal references, such as the bytes of a
 * head, is kept and copied until the next full collection. With this flag a minor collection under load takes 1.4 ms
 * instead of 10.
 * - Keeps compiled code while idle. Some seconds after the last request V8 collects twice to shrink the process and
 * drops code: the next 20,000 requests take two to three times as long. It still collects then, but keeps the code and
 * the pages it will need again.
 */
export function collectorFlags(): readonly string[] {
  return ['--no-allocation-site-pretenuring', '--no-memory-reducer-favors-memory']
}

export function setCollectorFlags(): void {
  for (const flag of collectorFlags()) v8.setFlagsFromString(flag)
}

/** `process.memoryUsage` also queries the kernel for the resident set: 2% of a busy process's time. */
function bufferBytes(): number {
  return v8.getHeapStatistics().external_memory
}

/**
 * Runs a minor collection after every 8 MiB of growth in buffers. Checks only while requests are running and shortly
 * after, so an idle gateway costs nothing.
 */
export class BufferCollector {
  readonly #clock: Clock
  readonly #collect: CollectGarbage
  readonly #active: () => number
  readonly #used: () => number
  #kept: number
  #idle = 0
  #timer: Timer | null = null

  constructor(clock: Clock, collect: CollectGarbage, active: () => number, used: () => number = bufferBytes) {
    this.#clock = clock
    this.#collect = collect
    this.#active = active
    this.#used = used
    this.#kept = used()
  }

  begun(): void {
    this.#timer ??= this.#clock.every(LOOK_MS, () => {
      this.#look()
    })
  }

  cancel(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  #look(): void {
    const now = this.#used()
    if (now < this.#kept) this.#kept = now
    if (now - this.#kept >= NURSERY) {
      this.#collect()
      this.#kept = this.#used()
    }
    this.#idle = this.#active() === 0 ? this.#idle + 1 : 0
    if (this.#idle < IDLE_CHECKS) return
    this.#idle = 0
    this.cancel()
  }
}
