/**
 * RFC 9110, section 5.6.2. A regular expression is equally fast for every string; a walk by characters is not (see
 * below).
 */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

export function isToken(text: string): boolean {
  return TOKEN.test(text)
}

/** Spellings kept; a new one replaces another, which bounds memory. */
const SLOTS = 512
/** Longest name kept, in bytes; nearly all are shorter. */
const WIDTH = 48

const names: string[] = Array.from({ length: SLOTS }, () => '')
const spellings = new Uint8Array(SLOTS * WIDTH)

/**
 * The ASCII name at `from` to `to`, interned per spelling. Its hash is known, so look-ups are cheap, and it does not
 * keep the head alive.
 */
export function nameIn(bytes: Buffer, from: number, to: number): string {
  const length = to - from
  if (length > WIDTH) return bytes.toString('latin1', from, to)
  let hash = length
  // Every index below is within its array.
  for (let at = from; at < to; at++) hash = (Math.imul(hash, 31) + (bytes[at] as number)) | 0
  const slot = (hash ^ (hash >>> 15)) & (SLOTS - 1)
  const known = names[slot] as string
  const base = slot * WIDTH
  if (known.length === length) {
    let same = 0
    while (same < length && spellings[base + same] === bytes[from + same]) same++
    if (same === length) return known
  }
  const name = bytes.toString('latin1', from, to)
  names[slot] = name
  for (let at = 0; at < length; at++) spellings[base + at] = bytes[from + at] as number
  return name
}

/** Spellings a table remembers before it is cleared. */
const REMEMBERED = 1024

/**
 * Maps header names to values, decided once per spelling. Avoids case folding and length comparisons: V8 strings come
 * in many forms, and each property read of one, such as `length`, is a call.
 */
export class NameTable<T> {
  readonly #decide: (name: string) => T
  readonly #remembered = new Map<string, T>()

  /** `decide` receives the name as spelled. */
  constructor(decide: (name: string) => T) {
    this.#decide = decide
  }

  of(name: string): T {
    const known = this.#remembered.get(name)
    return known === undefined ? this.#look(name) : known
  }

  #look(name: string): T {
    const created = this.#decide(name)
    if (name.length > WIDTH) return created
    // A flood of new names must not evict the usual ones for good.
    if (this.#remembered.size >= REMEMBERED) this.#remembered.clear()
    this.#remembered.set(name, created)
    return created
  }
}

export function tableOf<T>(kinds: ReadonlyMap<string, T>, otherwise: T): NameTable<T> {
  return new NameTable(name => kinds.get(name.toLowerCase()) ?? otherwise)
}
