import type { UsageConfig } from '../../engine/checks/meter.ts'
import { LongError, Unavailable } from '../../engine/operations/errors.ts'
import { encodeEvent } from '../../engine/formats/event-stream.ts'
import { tableOf } from '../../engine/message/header-names.ts'
import { trimmed } from '../../engine/message/headers.ts'
import type { Head } from '../../engine/message/reply.ts'
import { units, type Usage } from '../usage/usage.ts'
import type { Settled } from './ledger.ts'
import { defineError } from '../../platform/system/errors.ts'

const BALANCE_USED_UP = defineError('BG_BALANCE_USED_UP', {
  status: 402,
  title: 'Balance used up',
  cause: 'A metered response used up the balance while it was sent, and was cut off.',
  fix: 'Buy another bundle and send the request again.'
})

/** Response headers of metered requests, in millisatoshis. */
export const BALANCE_HEADER = 'X-Balance-Msat'
const CHARGED_HEADER = 'X-Charged-Msat'
/** Charge of the previous request, if its own head could not have it. */
export const LAST_CHARGED_HEADER = 'X-Last-Charged-Msat'

const OUR_HEADERS = [BALANCE_HEADER, CHARGED_HEADER, LAST_CHARGED_HEADER].map(name => name.toLowerCase())
const OURS = tableOf(new Map(OUR_HEADERS.map(name => [name, true])), false)

/** Deletes headers that only the gateway may set. */
export function dropOurHeaders({ headers }: Head): void {
  if (headers.pairs.some((name, at) => at % 2 === 0 && OURS.of(name)))
    for (const name of OUR_HEADERS) headers.delete(name)
}

export function reportCharge(head: Head, settled: Settled): void {
  head.headers.append(CHARGED_HEADER, String(settled.chargedMsat))
  head.headers.append(BALANCE_HEADER, String(Math.max(0, settled.leftMsat)))
}

/** Usage known with the head of a response to `method`; null if only the body tells. */
export function usageOfHead(head: Head, usage: UsageConfig | 'pieces', method: string): Usage | null {
  if (usage === 'requests' || (usage === 'pieces' && (method === 'HEAD' || !isEventStream(head))))
    return { input: 0, output: 1 }
  if (typeof usage === 'object' && 'header' in usage) {
    const said = units(head.headers.get(usage.header.toLowerCase()))
    return said === null ? null : { input: 0, output: said }
  }
  if (usage !== 'bytes' || method === 'HEAD') return null
  // Its Content-Length is that of the omitted body.
  if (head.status === 304) return { input: 0, output: 0 }
  const length = units(head.headers.get('content-length'))
  return length === null ? null : { input: 0, output: length }
}

/** A successful response has a body, which may break off. */
export function hasBody({ status }: Head, method: string): boolean {
  return status >= 200 && status <= 299 && status !== 204 && method !== 'HEAD'
}

export function isEventStream(head: Head): boolean {
  return /^\s*text\/event-stream\s*(?:;|$)/i.test(head.headers.get('content-type') ?? '')
}

export function codingOf(head: Head): string | null {
  const coding = head.headers.get('content-encoding')
  return coding === undefined || trimmed(coding).toLowerCase() === 'identity' ? null : coding
}

/** An `event: balance` for clients that read the stream. */
export function balanceEvent(facts: object): Uint8Array {
  return Buffer.from(encodeEvent({ event: 'balance', data: JSON.stringify(facts) }))
}

export function usedUp(): LongError {
  return new LongError(BALANCE_USED_UP, 'Balance used up', 'The balance was used up while the response was sent.')
}

export function balanceUnavailable(): Unavailable {
  return new Unavailable(
    'Balance unavailable',
    'The balance could not be asked for more while the response was sent.',
    5
  )
}
