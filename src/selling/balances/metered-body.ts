import type { UsageConfig } from '../../engine/checks/meter.ts'
import { EventReader } from '../../engine/formats/event-reader.ts'
import type { Head } from '../../engine/message/reply.ts'
import { ByteCount } from '../usage/bytes.ts'
import { EventCount, EventUsage } from '../usage/events.ts'
import type { UsageForm } from '../usage/forms.ts'
import { JsonUsage } from '../usage/json.ts'
import type { Usage, UsageReader } from '../usage/usage.ts'
import { codingOf, isEventStream } from './metered-head.ts'

/** How a response reports its usage. */
export interface ReadParts {
  readonly usage: UsageConfig | 'pieces'
  /** How usage is read from a body; null where it is elsewhere or is counted. */
  readonly form: UsageForm | null
  /** Units that go in by the estimate. */
  readonly input: number
}

/** Whether the body must come uncompressed. */
export function readsBody({ usage, form }: Pick<ReadParts, 'usage' | 'form'>): boolean {
  return form !== null || usage === 'events' || usage === 'pieces'
}

/** Reads the body of one response. */
export class MeteredBody {
  /** An event stream that can be read, and ended between its events. */
  readonly isStream: boolean
  /** Everything that flows is worth something, and not only what a response reports at its end. */
  readonly isCounted: boolean
  /** The usage of an event stream that reports it; null of any other. */
  readonly events: EventUsage | null = null
  readonly #usage: UsageReader | null
  /** Tells where an event stream can be cut. */
  readonly #boundaries: { readonly isBetween: boolean } | null
  /** Finds the boundaries of an event stream that is charged by bytes or seconds. */
  readonly #reader: EventReader | null = null

  /** Calls `unreadable` with a content coding that the upstream was asked not to use. */
  constructor(head: Head, { usage, form, input }: ReadParts, unreadable: (coding: string) => void) {
    const coding = codingOf(head)
    const reads = readsBody({ usage, form })
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

  /** Whether the units of the body are known as it flows. */
  get hasUnits(): boolean {
    return this.#usage !== null
  }

  /** Whether the body is between two events. */
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

  /** Units that came out by now. */
  get unitsOut(): number {
    return this.isCounted ? (this.read(false)?.output ?? 0) : this.seen
  }

  /** As of `UsageReader`. */
  get seen(): number {
    return this.#usage?.seen ?? 0
  }
}
