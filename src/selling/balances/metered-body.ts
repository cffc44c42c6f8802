import { EventReader } from '../../engine/formats/event-reader.ts'
import type { Head } from '../../engine/message/reply.ts'
import type { Usage, UsageReader } from '../usage/usage.ts'
import { EventCount, EventUsage } from '../usage/events.ts'
import type { MeteredReading } from './meter.ts'
import { codingOf, isEventStream } from './metered-head.ts'
import { ByteCount, JsonUsage } from '../usage/json.ts'

/** The body must come uncompressed. */
export function readsBody({ usage, form }: MeteredReading): boolean {
  return form !== null || usage === 'events' || usage === 'pieces'
}

export class MeteredBody {
  /** An event stream that can be parsed, and so cut between events. */
  readonly isStream: boolean
  /** Bills bytes or seconds as they flow, not the final report. */
  readonly isCounted: boolean
  readonly events: EventUsage | null = null
  readonly #usage: UsageReader | null
  readonly #boundaries: { readonly isBetween: boolean } | null
  /** Finds event boundaries when bytes or seconds are charged. */
  readonly #reader: EventReader | null = null

  /** Calls `unreadable` with a content coding that the upstream was asked not to use. */
  constructor(head: Head, meter: MeteredReading, input: number, unreadable: (coding: string) => void) {
    const { usage, form } = meter
    const coding = codingOf(head)
    const reads = readsBody(meter)
    this.isStream = coding === null && isEventStream(head)
    this.isCounted = usage === 'bytes' || usage === 'seconds' || (reads && form === null && coding === null)
    if (!reads) {
      this.#usage = usage === 'bytes' ? new ByteCount() : null
      this.#boundaries = this.#reader = this.isStream ? new EventReader({ boundary() {} }) : null
    } else if (coding !== null) {
      this.#usage = this.#boundaries = null
      unreadable(coding)
    } else if (form === null) this.#usage = this.#boundaries = new EventCount(usage === 'pieces')
    else if (this.isStream) this.#usage = this.#boundaries = this.events = new EventUsage(form, input)
    else {
      this.#usage = new JsonUsage(form)
      this.#boundaries = null
    }
  }

  get hasUnits(): boolean {
    return this.#usage !== null
  }

  get isBetweenEvents(): boolean {
    return this.#boundaries?.isBetween === true
  }

  take(bytes: Uint8Array): void {
    this.#reader?.feed(bytes)
    this.#usage?.chunk(bytes)
  }

  read(isWhole: boolean): Usage | null {
    return this.#usage?.read(isWhole) ?? null
  }

  get unitsOut(): number {
    return this.isCounted ? (this.read(false)?.output ?? 0) : this.seen
  }

  get seen(): number {
    return this.#usage?.seen ?? 0
  }
}
