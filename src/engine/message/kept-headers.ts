/** Specific to one message or set on every response; a replay gets its own. */
const NOT_KEPT = new Set([
  'content-length',
  'date',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'x-correlation-id',
  'x-api-version',
  'x-idempotency-replayed'
])

/** The header fields to store with a response body for a replay. `pairs` as in `HeaderList`. */
export function keptHeaders(pairs: readonly string[]): (readonly [name: string, value: string])[] {
  const headers: (readonly [string, string])[] = []
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    const name = pairs[at] ?? ''
    if (!NOT_KEPT.has(name.toLowerCase())) headers.push([name, pairs[at + 1] ?? ''])
  }
  return headers
}
