import type { Reply } from '../../engine/message/reply.ts'

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error'
}

/**
 * The refusal of a paid key with a body in the shape of the API that is sold, since its clients show no other. Keeps
 * status and headers. `type` defaults to the status' one.
 */
export function inShapeOf(
  api: 'openai' | 'anthropic',
  { status, headers }: Reply,
  message: string,
  type = TYPES[status] ?? 'invalid_request_error'
): Reply {
  const error =
    api === 'openai'
      ? { error: { message, type, param: null, code: type } }
      : { type: 'error', error: { type, message } }
  const kept: string[] = ['Content-Type', 'application/json; charset=utf-8']
  for (let at = 0; at < headers.length; at += 2)
    if (headers[at]?.toLowerCase() !== 'content-type') kept.push(headers[at] ?? '', headers[at + 1] ?? '')
  return { status, headers: kept, body: JSON.stringify(error) }
}
