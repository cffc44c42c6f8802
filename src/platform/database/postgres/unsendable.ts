/** Prefix of an unsendable value's text, before the reason. PostgreSQL accepts a NUL in no value of any type. */
const MARK = '\0cannot be sent: '

export const UNDEFINED = `${MARK}undefined; say null`

/**
 * Makes serializers send a value that they fail on as one that PostgreSQL refuses. postgres.js 3.4 reports an error
 * while writing a statement to the one whose answer is due, and keeps the unwritten one queued: answers then reach the
 * wrong statements, and the connection hangs.
 */
export function guardSerializers(serializers: Record<string, (value: unknown) => unknown>): void {
  for (const [type, serialize] of Object.entries(serializers)) serializers[type] = value => sendable(value, serialize)
}

function sendable(value: unknown, serialize: (value: unknown) => unknown): string {
  if (value === UNDEFINED) return UNDEFINED
  try {
    const text = serialize(value)
    return typeof text === 'string' ? text : `${MARK}${typeof value}`
  } catch (error) {
    return `${MARK}${error instanceof Error ? error.message : String(error)}`
  }
}

export function unsendable(values: readonly unknown[]): string | null {
  for (const value of values) if (typeof value === 'string' && value.startsWith(MARK)) return value.slice(1)
  return null
}
