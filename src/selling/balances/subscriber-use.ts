import type { Head, Outcome } from '../../engine/message/reply.ts'
import type { UpstreamRequest } from '../../engine/pipeline/plugin.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Usage } from '../usage/usage.ts'
import type { MeteredReading } from './meter.ts'
import { MeteredBody, readsBody } from './metered-body.ts'
import { dropOurHeaders, usageOfHead } from './metered-head.ts'
import type { MeteredRequest } from './metered-request.ts'

/** What the plugin `meter` does with a request. */
export type Metered = Pick<MeteredRequest, 'forwarding' | 'head' | 'chunk' | 'last' | 'done'>

/** Counts what a request uses that pays nothing here. A stream without a report counts what it delivered. */
export class SubscriberUse implements Metered {
  readonly #meter: MeteredReading
  readonly #clock: Clock
  readonly #method: string
  readonly #report: (usage: Pick<Usage, 'input' | 'output'>) => void
  #forwardedAt: number | null = null
  #known: Usage | null = null
  #body: MeteredBody | null = null

  constructor(
    meter: MeteredReading,
    clock: Clock,
    method: string,
    report: (usage: Pick<Usage, 'input' | 'output'>) => void
  ) {
    this.#meter = meter
    this.#clock = clock
    this.#method = method
    this.#report = report
  }

  forwarding({ headers }: UpstreamRequest): void {
    this.#forwardedAt = this.#clock.monotonic()
    if (readsBody(this.#meter)) headers.set('Accept-Encoding', 'identity')
  }

  head(head: Head): void {
    dropOurHeaders(head)
    if (head.source !== 'upstream' || head.status >= 400) return
    this.#known = usageOfHead(head, this.#meter.usage, this.#method)
    if (this.#method !== 'HEAD') this.#body = new MeteredBody(head, this.#meter, 0, () => {})
  }

  chunk(bytes: Uint8Array): void {
    this.#body?.take(bytes)
  }

  last(): null {
    return null
  }

  done({ delivered }: Outcome): void {
    const body = this.#body
    if (body === null && this.#known === null) return
    if (this.#meter.usage === 'seconds') {
      const seconds = (this.#clock.monotonic() - (this.#forwardedAt ?? this.#clock.monotonic())) / 1000
      this.#report({ input: 0, output: Math.ceil(seconds) })
      return
    }
    const { input, output } = this.#known ?? body?.read(delivered) ?? { input: 0, output: body?.seen ?? 0 }
    this.#report({ input, output })
  }
}
