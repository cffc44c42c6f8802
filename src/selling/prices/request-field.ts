import type { FieldSelector } from '../../engine/checks/price.ts'
import type { Context } from '../../engine/message/context.ts'
import { UNSUPPORTED_MEDIA_TYPE, VALIDATION } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { otherCharset, requireJson, readUnpaidBody } from '../../engine/message/unpaid-body.ts'
import type { Maybe } from '../../platform/state/state.ts'
import { JsonText, type FieldRead, type RequestItems, type Scalar } from './json-text.ts'
import { headerValue, queryParameter } from '../../engine/message/request-values.ts'

/** Default body limit in bytes. */
const MAX_BODY = 1_048_576

/**
 * Members by which OpenRouter and LiteLLM take other models than `model`. They would serve one at the price of another.
 */
const FALLBACK_MODELS = ['models', 'fallbacks', 'context_window_fallbacks', 'content_policy_fallbacks'] as const

export function nameOf(field: FieldSelector): string {
  if ('json' in field) return field.json
  if ('header' in field) return field.header
  return 'query' in field ? field.query : field.path
}

/**
 * Reads a request's field; null if missing. Refuses what the upstream could read differently. Returns a promise only if
 * it must read the body, which is kept for the upstream.
 * @throws LongError 400 that names the field, 413, 415
 */
export function readField(field: FieldSelector, ctx: Context): Maybe<Scalar | null> {
  if ('json' in field) return bodyField(field, ctx)
  if ('header' in field) return taken(headerValue(ctx.headers, field.header))
  if ('query' in field) return taken(queryParameter(ctx.query, field.query))
  return taken(pathParameter(ctx.params[field.path], ctx.path, field.path))
}

/**
 * Counts a JSON member's items; null if missing.
 * @throws as `readField`
 */
export async function readItems(name: string, ctx: Context): Promise<RequestItems | null> {
  const read = await ofBody(name, ctx, text => text.items(name))
  if (read === null || read.kind === 'missing') return null
  if (read.kind === 'fault') throw unreadable(read.message)
  return read
}

/**
 * Refuses a body with a value in one of these members.
 * @throws as `readField`
 */
export async function requireMissing(names: readonly string[], ctx: Context): Promise<void> {
  const read = await ofBody(String(names[0]), ctx, text => text.refuseFilled(names))
  if (read !== null) taken(read)
}

function bodyField({ json }: { readonly json: string }, ctx: Context): Maybe<Scalar | null> {
  const read = ofBody(json, ctx, text => {
    const names = json.split('.')
    const other = json === 'model' ? text.refuseFilled(FALLBACK_MODELS) : null
    return other ?? text.overridden(names) ?? text.member(names)
  })
  if (read instanceof Promise) return read.then(later => (later === null ? null : taken(later)))
  return read === null ? null : taken(read)
}

/**
 * Reads a JSON body; null without one. `name`: the member that is looked for.
 * @throws as `readField`
 */
export function ofBody<R>(name: string, ctx: Context, read: (text: JsonText) => R): Maybe<R | null> {
  const { body } = ctx
  if (body.length === 0) return null
  requireJson(ctx.headers)
  requireUtf8(ctx)
  const readBytes = (bytes: Uint8Array): R | null => {
    if (bytes.byteLength === 0) return null
    const text = JsonText.of(bytes)
    if (typeof text === 'string') throw unreadable(`the body ${text}, so that ${JSON.stringify(name)} cannot be read`)
    return read(text)
  }
  if (body.collected !== null && ctx.bodyUnits !== null) return readBytes(body.collected)
  body.limit = Math.min(body.limit, Number.isFinite(body.limit) ? body.limit : MAX_BODY)
  return readUnpaidBody(ctx).then(readBytes)
}

/** JSON is UTF-8 (RFC 8259, 8.1); with another charset an upstream would read other names. */
function requireUtf8(ctx: Context): void {
  if (ctx.headers.all('content-type').length > 1 || otherCharset(ctx.headers) !== null)
    throw new LongError(
      UNSUPPORTED_MEDIA_TYPE,
      'Unsupported media type',
      'The body must be JSON in UTF-8, with one Content-Type.'
    )
}

function taken(read: FieldRead): Scalar | null {
  if (read.kind === 'fault') throw unreadable(read.message)
  if (read.kind === 'missing') return null
  // C string readers would take `large\0` for `large`.
  if (typeof read.value === 'string' && read.value.includes('\0'))
    throw unreadable('its value contains a NUL character')
  return read.value
}

/** 400: the price cannot be determined, and why. */
export function unreadable(message: string): LongError {
  return new LongError(
    VALIDATION,
    'Price unknown',
    `What this request costs cannot be told: ${message}. Nothing was charged.`
  )
}

/**
 * A route path's parameter: decoded `value`, raw `path`. A semicolon is a fault: some servers drop what follows as a
 * segment parameter (RFC 3986, 3.3).
 */
function pathParameter(value: string | undefined, path: string, name: string): FieldRead {
  if (value === undefined) return { kind: 'missing' }
  if (value.includes(';') && path.includes(';'))
    return { kind: 'fault', message: `${JSON.stringify(name)} of the path has a semicolon; write it as %3B` }
  return { kind: 'value', value }
}
