import { errors } from 'undici'
import { AddressRefused, NameUnresolved } from '../../engine/upstream/guard.ts'
import type { OutboundCall, OutboundResponse } from '../../engine/upstream/outbound.ts'
import { UnsealError, type Secret } from '../../platform/keys/secrets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { WebhookTarget } from './endpoints.ts'
import { createRequire } from 'node:module'
import { createHmac } from 'node:crypto'
import { moment, optional, records, type RecordOf } from '../../platform/database/rows.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import type { Pace } from '../../platform/jobs/jobs.ts'
import type { AddedDelivery } from './store.ts'

export interface Sent {
  /** Null on delivery; else the reason for the merchant. */
  readonly error: string | null
  readonly responseStatus: number | null
  readonly responseBody: string | null
}

/** Stored bytes of a response (decision 161). */
const KEPT_RESPONSE_BYTES = 1024

/** Codes of a connection that closed before a response. */
const CLOSED = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** 2xx is delivered, everything else has failed (decision 160). */
export function answered({ status, body }: OutboundResponse): Sent {
  return { error: refusalOf(status), responseStatus: status, responseBody: responseText(body) }
}

function refusalOf(status: number): string | null {
  if (status >= 200 && status <= 299) return null
  return status >= 300 && status <= 399
    ? `The endpoint answered ${status}. Redirects are not followed.`
    : `The endpoint answered ${status}.`
}

/** Result of an attempt without a response. Never names a resolved address. */
export function unanswered(error: unknown): Sent {
  return { error: reasonOf(error), responseStatus: null, responseBody: null }
}

function reasonOf(error: unknown): string {
  if (error instanceof AddressRefused) return `The address was refused: ${error.message}`
  if (error instanceof NameUnresolved) return 'The name in the address could not be resolved.'
  if (error instanceof errors.HTTPParserError) return 'What the endpoint answered is not HTTP.'
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || (error instanceof Error && error.name === 'TimeoutError'))
    return 'No answer came within 10 seconds.'
  if (CLOSED.has(code)) return 'The endpoint closed the connection without an answer.'
  return `The endpoint could not be reached (${code === '' ? 'no answer' : code}).`
}

/** Response bytes as storable text: invalid UTF-8 and NUL become U+FFFD. */
export function responseText(bytes: Uint8Array): string {
  // Streaming drops a character that was cut at the end.
  return new TextDecoder().decode(bytes.subarray(0, KEPT_RESPONSE_BYTES), { stream: true }).replaceAll('\0', '\ufffd')
}

export interface Verdict extends Sent {
  readonly url: string | null
  /** Retries cannot fix it. */
  readonly final: boolean
  /** Duration of the call; null without one. */
  readonly took: number | null
}

interface SendDependencies {
  readonly call: OutboundCall
  readonly clock: Clock
  readonly log: Log
  /** In milliseconds. */
  readonly timeout: number
}

/**
 * Sends one signed request to a merchant's server.
 * @throws the reason of `signal`
 */
export async function sendWebhook(
  { call, clock, log, timeout }: SendDependencies,
  { url, secret: read }: WebhookTarget,
  { id, merchantId, body }: { readonly id: string; readonly merchantId: number; readonly body: string },
  signal: AbortSignal | null = null
): Promise<Verdict> {
  const bytes = Buffer.from(body, 'utf8')
  let signature: string
  try {
    const secret = read()
    if (secret === null) return given('No webhook secret is set any more.', url, true)
    signature = signatureHeader(secret, clock.now(), bytes)
  } catch (error) {
    if (!(error instanceof UnsealError)) throw error
    log.error({ err: error, merchantId }, 'a webhook secret cannot be opened')
    return given('The webhook secret cannot be read.', url, false)
  }
  const headers = [
    'Content-Type',
    'application/json',
    'User-Agent',
    USER_AGENT,
    'X-Service-Signature',
    signature,
    'X-Correlation-Id',
    id
  ]
  const startedAt = clock.now()
  try {
    const answer = await call({
      method: 'POST',
      url,
      headers,
      body: bytes,
      timeout,
      keep: KEPT_RESPONSE_BYTES,
      ...(signal === null ? {} : { signal })
    })
    return { ...answered(answer), url, final: false, took: clock.now() - startedAt }
  } catch (error) {
    signal?.throwIfAborted()
    return { ...unanswered(error), url, final: false, took: clock.now() - startedAt }
  }
}

export function given(error: string, url: string | null, final: boolean): Verdict {
  return { error, url, final, took: null, responseStatus: null, responseBody: null }
}

// Resolved by package name, which works in the checkout and in the build.
const manifest: unknown = createRequire(import.meta.url)('boltgate/package.json')
const version =
  typeof manifest === 'object' && manifest !== null && 'version' in manifest ? String(manifest.version) : 'unknown'

const USER_AGENT = `boltgate/${version}`

/**
 * X-Service-Signature: `t=<unix seconds>,v1=<hex>`, the hex being HMAC-SHA256 of `<t>.<raw body>`, keyed with the UTF-8
 * bytes of the webhook secret (contract, Events 4).
 */
export function signatureHeader(secret: Secret<string>, now: number, body: Uint8Array): string {
  const t = Math.floor(now / 1000)
  const v1 = createHmac('sha256', secret.reveal()).update(`${t}.`).update(body).digest('hex')
  return `t=${t},v1=${v1}`
}

/** Last quick and last slow or failed response of an endpoint. */
export const timeColumns = { quickAt: optional(moment()), slowAt: optional(moment()) }
export type EndpointTimes = RecordOf<typeof timeColumns>
const timeRows = records(timeColumns)

/** Milliseconds from which an attempt is slow, including timeouts. */
const SLOW = 2_000
/** Milliseconds that an endpoint stays slow after one slow attempt; else it could stall all others. */
const PROBATION = 60_000

export function groupOf({ merchantId, endpointId }: Omit<AddedDelivery, 'id'>): string {
  return endpointId ?? String(merchantId)
}

export function paceOf({ quickAt, slowAt }: EndpointTimes, now: number): Pace {
  if (slowAt !== null && (quickAt === null || slowAt >= quickAt || slowAt + PROBATION > now)) return 'slow'
  return quickAt === null ? 'unproven' : 'quick'
}

/**
 * Records an attempt's milliseconds (null: no call) and returns the endpoint's new pace. Locks its row, so that
 * concurrent attempts agree.
 */
export async function recordAttempt(
  sql: TransactionSql,
  endpoint: string,
  before: Pace,
  took: number | null,
  endedAt: number
): Promise<Pace> {
  const isSlow = took !== null && took >= SLOW
  // The usual case writes nothing.
  if (took === null || (!isSlow && before === 'quick')) return before
  const at = new Date(endedAt)
  const times = await timeRows.one(sql`
    insert into webhook_paces as kept (endpoint, quick_at, slow_at)
    values (${endpoint}, ${isSlow ? null : at}, ${isSlow ? at : null})
    on conflict (endpoint) do update set
      quick_at = greatest(kept.quick_at, excluded.quick_at), slow_at = greatest(kept.slow_at, excluded.slow_at)
    returning quick_at, slow_at`)
  return times === null ? before : paceOf(times, endedAt)
}
