/** Not a list; its members are unknown until they are checked. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Undefined for what is not JSON. Depth is unlimited; invalid UTF-8 reads as U+FFFD. */
export function jsonOrUndefined(json: string | Uint8Array): unknown {
  try {
    return JSON.parse(typeof json === 'string' ? json : Buffer.from(json).toString('utf8'))
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
