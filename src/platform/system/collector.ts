import v8 from 'node:v8'
import vm from 'node:vm'
import type { Clock, Timer } from './clock.ts'

/** Bytes of buffers that may gather before they are collected. */
const GATHERED = 8 * 1024 * 1024
const LOOK_MS = 5
/**
 * Looks without any request under way after which nothing is looked at until one begins: starting a timer for each
 * costs more.
 */
const IDLE_LOOKS = 20

/** Collects what has become garbage lately; a few hundred microseconds where little is alive. */
export type CollectYoung = () => void

/**
 * V8's own collector of the young, made reachable while the process runs. V8 counts a buffer as the few bytes of its
 * handle: a stream of 64 KiB pieces fills a hundred megabytes with dead buffers before it finds a reason to look.
 *
 * The V8 of Node 24 makes a collection of the young into one of everything, at once, where it is asked for while the
 * heap is being marked: 40 to 60 ms in the place of one. The second flag lets both go on together, as in Node 20.
 */
export function youngCollector(): CollectYoung {
  v8.setFlagsFromString('--expose-gc')
  v8.setFlagsFromString('--no-separate-gc-phases')
  // The global of a new context is made after the flag was set; that of this one was made before.
  const collect = vm.runInNewContext('gc') as (options: { type: 'minor'; execution: 'sync' }) => void
  return () => {
    collect({ type: 'minor', execution: 'sync' })
  }
}

/**
 * What a gateway sets in V8 before its first request, for the whole process.
 *
 * - Every object is made among the young. V8 learns which literals outlive collections and then makes them old from the
 *   start. While a gateway warms up, requests under way make up most of what is young, so it learns that of headers and
 *   offers; and whatever such a dead literal points to, such as the bytes of a head, is kept and copied until the next
 *   full collection. With this a minor collection under load takes 1.4 ms in the place of 10, and copies next to
 *   nothing.
 * - Compiled code is kept while the process rests. Some seconds after the last request V8 collects twice
 *   to make the process small, and with the garbage goes code: the next 20,000 requests take two to three times as
 *   long. It still collects then, but keeps the code, and the pages that it will need again.
 */
export function collectorFlags(): readonly string[] {
  return ['--no-allocation-site-pretenuring', '--no-memory-reducer-favors-memory']
}

/** Sets them. */
export function setCollectorFlags(): void {
  for (const flag of collectorFlags()) v8.setFlagsFromString(flag)
}

/**
 * `process.memoryUsage` gives the same, and asks the kernel for the resident set as well: in a busy process 2 % of its
 * time.
 */
function bufferBytes(): number {
  return v8.getHeapStatistics().external_memory
}

/**
 * Keeps dead buffers of streams from gathering: whenever 8 MiB more of them are there than after the last collection,
 * the young are collected. It looks while requests are under way and a moment longer, so a gateway at rest costs
 * nothing.
 */
export class BufferCollector {
  readonly #clock: Clock
  readonly #collect: CollectYoung
  readonly #active: () => number
  readonly #used: () => number
  #kept: number
  #idle = 0
  #timer: Timer | null = null

  /** `active` gives the requests under way, `used` the bytes of all buffers. */
  constructor(clock: Clock, collect: CollectYoung, active: () => number, used: () => number = bufferBytes) {
    this.#clock = clock
    this.#collect = collect
    this.#active = active
    this.#used = used
    this.#kept = used()
  }

  /** A request begins. */
  begun(): void {
    this.#timer ??= this.#clock.every(LOOK_MS, () => {
      this.#look()
    })
  }

  /** Looks no more until the next request. */
  cancel(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  #look(): void {
    const now = this.#used()
    if (now < this.#kept) this.#kept = now
    if (now - this.#kept >= GATHERED) {
      this.#collect()
      this.#kept = this.#used()
    }
    this.#idle = this.#active() === 0 ? this.#idle + 1 : 0
    if (this.#idle < IDLE_LOOKS) return
    this.#idle = 0
    this.cancel()
  }
}
