/**
 * Tokens that Aperture sold. It has a random root key for each, stored under the SHA-256 of the macaroon's identifier
 * (mint.go and aperturedb/secrets.go of lightninglabs/aperture), which has the layout of ours.
 */
import { createHash } from 'node:crypto'
import { verifySignature, type Macaroon } from './macaroon.ts'

const HASH_BYTES = 32
const ROW_BYTES = 64
/** Characters of two hex texts, a space and the end of the line. */
const ROW_CHARACTERS = 2 * ROW_BYTES + 2

/** Root keys by identifier, sorted in one buffer: a gateway has held millions, as each 402 of Aperture made one. */
export class ApertureKeys {
  readonly #rows: Buffer

  /** @param text as `apertureRows` writes it. @throws SyntaxError unless sorted lines of two hex texts */
  constructor(text: string) {
    this.#rows = Buffer.from(text.replaceAll(/[ \n]/g, ''), 'hex')
    if (text.length % ROW_CHARACTERS !== 0 || this.#rows.length * ROW_CHARACTERS !== text.length * ROW_BYTES)
      throw new SyntaxError('each line must have two texts of 64 hex characters')
    for (let row = 1; row < this.size; row++)
      if (this.#compare(row - 1, this.#rows.subarray(row * ROW_BYTES, row * ROW_BYTES + HASH_BYTES)) >= 0)
        throw new SyntaxError(`line ${row + 1} must come after the line before it, sorted and once`)
  }

  get size(): number {
    return this.#rows.length / ROW_BYTES
  }

  /** Whether Aperture made this macaroon. */
  isGenuine(macaroon: Macaroon): boolean {
    const hash = createHash('sha256').update(macaroon.identifier).digest()
    let [from, to] = [0, this.size]
    while (from < to) {
      const middle = (from + to) >>> 1
      const order = this.#compare(middle, hash)
      if (order === 0) {
        const start = middle * ROW_BYTES + HASH_BYTES
        return verifySignature(macaroon, this.#rows.subarray(start, start + HASH_BYTES))
      }
      if (order < 0) from = middle + 1
      else to = middle
    }
    return false
  }

  #compare(row: number, hash: Uint8Array): number {
    const start = row * ROW_BYTES
    return this.#rows.compare(hash, 0, HASH_BYTES, start, start + HASH_BYTES)
  }
}

/** The text of a key file: what Aperture has under each identifier hash, all in lower-case hex. */
export function apertureRows(rows: Iterable<readonly [hash: string, key: string]>): string {
  return Array.from(new Map(rows), row => `${row.join(' ')}\n`)
    .sort()
    .join('')
}

const WHOLE_NUMBER = /^-?\d{1,15}$/

/**
 * Why a genuine token does not cover a service; null if it does. As Aperture judges: the last `services` caveat names
 * the service, or with a dynamic price the service and the path, none widens the one before, `<service>_valid_until` is
 * not past, and all other caveats are left to others.
 * @param now Unix seconds
 */
export function apertureRefusal(
  { caveats }: Macaroon,
  service: string,
  path: string,
  now: number
): { readonly caveat: 'services' | 'expires'; readonly message: string; readonly expires: number } | null {
  const pairs = caveats.map(caveat => {
    const text = Buffer.from(caveat).toString('utf8')
    const equals = text.indexOf('=')
    return equals < 0 ? null : ([text.slice(0, equals), text.slice(equals + 1)] as const)
  })
  const valuesOf = (name: string): string[] => pairs.flatMap(pair => (pair?.[0] === name ? [pair[1]] : []))
  const refused = (message: string) => ({ caveat: 'services' as const, message, expires: 0 })

  let allowed: ReadonlySet<string> | null = null
  for (const value of valuesOf('services')) {
    const names: ReadonlySet<string> = new Set(value.split(',').map(text => text.replace(/:\d{1,3}$/, '')))
    const before = allowed
    if (before !== null && [...names].some(name => !before.has(name)))
      return refused('Repeated caveat services is not equal to or narrower than the one before')
    allowed = names
  }
  const name = [service, service + path].find(each => allowed?.has(each) === true)
  if (name === undefined) return refused('Token not valid for this service')

  let until = Infinity
  for (const value of valuesOf(`${name}_valid_until`)) {
    if (!WHOLE_NUMBER.test(value) || Number(value) > until)
      return refused(`Caveat ${name}_valid_until is no time, or later than the one before`)
    until = Number(value)
  }
  return now < until ? null : { caveat: 'expires', message: 'Token expired', expires: until }
}
