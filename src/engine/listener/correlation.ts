const ACCEPTED = /^[A-Za-z0-9._:-]{1,128}$/

/** The client's correlation id where it is safe to log and forward, else a fresh one (decision 14). */
export function acceptedCorrelationId(offered: string | null, fresh: () => string): string {
  return offered !== null && ACCEPTED.test(offered) ? offered : fresh()
}

/** Finds the correlation id in a head that was refused unread; null for none or several. */
export function offeredCorrelation(rawHeaders: readonly string[]): string | null {
  let found: string | null = null
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== 'x-correlation-id') continue
    if (found !== null) return null
    found = rawHeaders[at + 1] ?? null
  }
  return found
}
