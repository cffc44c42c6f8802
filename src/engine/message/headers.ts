export interface ReadonlyHeaders {
  readonly pairs: readonly string[]
  /** The first value under `name` (lower case). */
  get(name: string): string | undefined
  all(name: string): string[]
  has(name: string): boolean
}

/**
 * Header fields in one flat list, the form of Node and undici, so that a head is never converted to an object. Names
 * match case-insensitively; `name` arguments are lower case.
 */
export class HeaderList implements ReadonlyHeaders {
  readonly pairs: string[]

  constructor(pairs: string[] = []) {
    this.pairs = pairs
  }

  get(name: string): string | undefined {
    const at = this.#find(name, 0)
    return at < 0 ? undefined : this.pairs[at + 1]
  }

  all(name: string): string[] {
    const values: string[] = []
    for (let at = this.#find(name, 0); at >= 0; at = this.#find(name, at + 2)) values.push(this.pairs[at + 1] ?? '')
    return values
  }

  has(name: string): boolean {
    return this.#find(name, 0) >= 0
  }

  /** Replaces all values under `name`; writes `name` as given. */
  set(name: string, value: string): void {
    const lower = name.toLowerCase()
    const at = this.#find(lower, 0)
    if (at < 0) {
      this.pairs.push(name, value)
      return
    }
    this.pairs[at] = name
    this.pairs[at + 1] = value
    this.#removeFrom(lower, at + 2)
  }

  append(name: string, value: string): void {
    this.pairs.push(name, value)
  }

  /** Adds `token` to a comma-separated field such as Vary, unless present. */
  addToken(name: string, token: string): void {
    const lower = name.toLowerCase()
    if (!this.has(lower)) {
      this.pairs.push(name, token)
      return
    }
    // Several lines of a list field mean the same as one (RFC 9110, 5.3).
    const present = this.all(lower)
      .filter(line => line !== '')
      .join(', ')
    const wanted = token.toLowerCase()
    for (const item of present.split(',')) {
      const token = trimmed(item).toLowerCase()
      if (token === wanted || token === '*') return
    }
    this.set(name, present === '' ? token : `${present}, ${token}`)
  }

  delete(name: string): void {
    this.#removeFrom(name, 0)
  }

  #find(name: string, from: number): number {
    const pairs = this.pairs
    for (let at = from; at < pairs.length; at += 2) {
      const candidate = pairs[at]
      if (candidate?.length === name.length && (candidate === name || candidate.toLowerCase() === name)) return at
    }
    return -1
  }

  #removeFrom(name: string, from: number): void {
    for (let at = this.#find(name, from); at >= 0; at = this.#find(name, at)) this.pairs.splice(at, 2)
  }
}

/**
 * Trims spaces and tabs only (RFC 9110, 5.6.3). `String.trim` also removes bytes such as A0, which an upstream reads as
 * part of the value.
 */
export function trimmed(text: string): string {
  let start = 0
  let end = text.length
  while (isBlank(text.charCodeAt(start))) start++
  while (start < end && isBlank(text.charCodeAt(end - 1))) end--
  return text.slice(start, end)
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09
}
