import { createCipheriv, createDecipheriv, hkdfSync, hash, timingSafeEqual } from 'node:crypto'
import { inspect } from 'node:util'
import { systemRandom, type Random } from '../system/ids.ts'
import { defineError, CodedError } from '../system/errors.ts'

export const UNSEAL = defineError('BG_UNSEAL', {
  cause: 'An encrypted value cannot be decrypted: its master secret is missing, or the row was modified.',
  fix: 'Restore the former secret under `secrets.previous` or in master.key; otherwise the merchant saves the value again.'
})

export const MASTER_SECRET = defineError('BG_MASTER_SECRET', {
  cause: 'A master secret is too short, or is listed twice.',
  fix: 'Create one with `openssl rand -base64 48`; `boltgate keys rotate` replaces it without invalidating what was sold.'
})

const redacted = '[redacted]'

/** A value that must not be printed: JSON, logs, template strings and inspection show `[redacted]`. */
export class Secret<T> {
  readonly #value: T

  constructor(value: T) {
    this.#value = value
  }

  /** Every call is a place to check when a secret has leaked. */
  reveal(): T {
    return this.#value
  }

  toJSON(): string {
    return redacted
  }

  toString(): string {
    return redacted
  }

  [Symbol.toPrimitive](): string {
    return redacted
  }

  [inspect.custom](): string {
    return redacted
  }
}

/**
 * Where a ciphertext is stored. It is authenticated, so a ciphertext moved to another row, column or table does not
 * open.
 */
export interface SealedPlace {
  table: string
  column: string
  row: string
}

/** A ciphertext and its location, authenticated together. */
export interface SealedValue {
  readonly ciphertext: string
  readonly place: SealedPlace
}

/** A ciphertext that cannot be opened. The message names the failed step, never the content. */
export class UnsealError extends Error {
  override name = 'UnsealError'
  readonly code = UNSEAL.code
}

const leastMasterBytes = 32

/** The master secrets, current first, and keys derived from them, one per purpose: `macaroon`, `payment-id`, `seal`. */
export class KeyRing {
  readonly #masters: readonly [Secret<Buffer>, ...Secret<Buffer>[]]

  /**
   * `master` and `previous` are texts of at least 32 bytes, used as they are.
   * @throws CodedError
   */
  constructor(master: Secret<string>, previous: readonly Secret<string>[] = []) {
    this.#masters = [
      readMaster(master, 'secrets.master'),
      ...previous.map((old, index) => readMaster(old, `secrets.previous[${index}]`))
    ]
  }

  /**
   * From all masters, current first: what was made before a rotation still verifies. HKDF-SHA-256 (RFC 5869), `length`
   * bytes.
   */
  deriveAll(purpose: string, length = 32): [Buffer, ...Buffer[]] {
    const [current, ...previous] = this.#masters
    return [deriveKey(current, purpose, length), ...previous.map(master => deriveKey(master, purpose, length))]
  }
}

function readMaster(master: Secret<string>, where: string): Secret<Buffer> {
  const bytes = Buffer.from(master.reveal(), 'utf8')
  if (bytes.length < leastMasterBytes) {
    throw new CodedError(
      MASTER_SECRET,
      `${where} has ${bytes.length} bytes but needs at least ${leastMasterBytes}; make one with \`openssl rand -base64 48\``
    )
  }
  return new Secret(bytes)
}

function deriveKey(master: Secret<Buffer>, purpose: string, length: number): Buffer {
  return Buffer.from(hkdfSync('sha256', master.reveal(), 'boltgate', purpose, length))
}

interface SealKey {
  id: string
  key: Buffer
}

const nonceBytes = 12
const tagBytes = 16

/**
 * Encrypts secret columns: AES-256-GCM, `v1.<key id>.<nonce>.<ciphertext>.<tag>`, the parts in base64url. The key id
 * names the master, so that masters rotate; table, column and row id are authenticated.
 */
export class Sealer {
  readonly #current: SealKey
  readonly #keys: ReadonlyMap<string, SealKey>
  readonly #random: Random

  constructor(ring: KeyRing, random: Random = systemRandom) {
    const ids = ring.deriveAll('seal-key-id', 6)
    const keys = ring.deriveAll('seal').map((key, index) => ({ id: (ids[index] ?? ids[0]).toString('base64url'), key }))
    // deriveAll gives at least one.
    this.#current = keys[0] as SealKey
    this.#keys = new Map(keys.map(key => [key.id, key]))
    this.#random = random
  }

  seal(plaintext: string, place: SealedPlace): string {
    const nonce = this.#random(nonceBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#current.key, nonce)
    cipher.setAAD(placeBytes(place))
    const sealed = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()])
    return `v1.${this.#current.id}.${Buffer.from(nonce).toString('base64url')}.${sealed.toString('base64url')}.${cipher.getAuthTag().toString('base64url')}`
  }

  /** @throws UnsealError when the text is malformed, its key unknown, or it was changed or moved */
  open(ciphertext: string, place: SealedPlace): Secret<string> {
    const parts = ciphertext.split('.')
    const [version, id = '', nonceText = '', sealedText = '', tagText = ''] = parts
    if (version !== 'v1' || parts.length !== 5) {
      throw new UnsealError(
        `${place.table}.${place.column}: not a ciphertext of the form v1.<key id>.<nonce>.<ciphertext>.<tag>`
      )
    }
    const key = this.#keys.get(id)
    if (key === undefined) {
      throw new UnsealError(
        `${place.table}.${place.column}: sealed with the key ${id}, which neither secrets.master nor secrets.previous gives`
      )
    }
    try {
      const nonce = Buffer.from(nonceText, 'base64url')
      // Without a length, GCM takes shorter tags, which are easier to forge.
      const decipher = createDecipheriv('aes-256-gcm', key.key, nonce, { authTagLength: tagBytes })
      decipher.setAAD(placeBytes(place))
      decipher.setAuthTag(Buffer.from(tagText, 'base64url'))
      return new Secret(
        Buffer.concat([decipher.update(Buffer.from(sealedText, 'base64url')), decipher.final()]).toString('utf8')
      )
    } catch {
      // Node's own text says nothing more, and the actual reason is unknown.
      throw new UnsealError(`${place.table}.${place.column}: the ciphertext was changed, or it belongs to another row`)
    }
  }

  get keyIds(): readonly string[] {
    return [...this.#keys.keys()]
  }

  isStale(ciphertext: string): boolean {
    return !ciphertext.startsWith(`v1.${this.#current.id}.`)
  }
}

// JSON separates the parts: no two places give the same bytes.
function placeBytes(place: SealedPlace): Buffer {
  return Buffer.from(JSON.stringify([place.table, place.column, place.row]), 'utf8')
}

/** Constant time for one length. The length itself is not hidden, so compare digests. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.byteLength === b.byteLength && timingSafeEqual(a, b)
}

/** Compares SHA-256 digests: hides differences and length. */
export function equalText(a: string, b: string): boolean {
  return timingSafeEqual(hash('sha256', a, 'buffer'), hash('sha256', b, 'buffer'))
}
