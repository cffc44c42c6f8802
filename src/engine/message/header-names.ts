/**
 * A token of RFC 9110, section 5.6.2. A test by this expression takes any string alike; a walk by characters does not
 * (see below).
 */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** Whether a text may be a method or the name of a header. */
export function isToken(text: string): boolean {
  return TOKEN.test(text)
}

/** Spellings that are kept; a new one takes the place of another, so that nobody fills memory with names. */
const SLOTS = 512
/** Longest name that is kept, in bytes; nearly all are shorter. */
const WIDTH = 48

const names: string[] = Array.from({ length: SLOTS }, () => '')
const spellings = new Uint8Array(SLOTS * WIDTH)

/**
 * The name that stands in `bytes` from `from` to `to`, as one and the same string object for each spelling: its hash is
 * known, so that a look-up by it costs little, and it does not keep the head alive that it came in. The bytes must be
 * ASCII.
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

/** Spellings that a table remembers before it begins anew. */
const REMEMBERED = 1024

/**
 * What one part of the gateway makes of a header, by its name alone: decided once for each spelling. Walks over headers
 * ask this and neither fold cases nor compare lengths; strings come in many forms inside V8 (whole, sliced, joined),
 * and each property that is read of a string of unknown form, `length` among them, is a call.
 */
export class NameTable<T> {
  readonly #decide: (name: string) => T
  readonly #remembered = new Map<string, T>()

  /** `decide` is given the name as it was spelled. */
  constructor(decide: (name: string) => T) {
    this.#decide = decide
  }

  of(name: string): T {
    const known = this.#remembered.get(name)
    return known === undefined ? this.#look(name) : known
  }

  #look(name: string): T {
    const made = this.#decide(name)
    if (name.length > WIDTH) return made
    // Whoever sends name after name must not push the usual ones out for good.
    if (this.#remembered.size >= REMEMBERED) this.#remembered.clear()
    this.#remembered.set(name, made)
    return made
  }
}

/** A table of kinds by names in lower case; every other name is `otherwise`. */
export function tableOf<T>(kinds: ReadonlyMap<string, T>, otherwise: T): NameTable<T> {
  return new NameTable(name => kinds.get(name.toLowerCase()) ?? otherwise)
}
