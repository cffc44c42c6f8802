/**
 * Binary macaroons, version 2, first-party caveats only. Layout: `02` · [`01` location] · `02` identifier · `00` · per
 * caveat ([`01` location] `02` caveat `00`) · `00` · `06` signature. Fields are varint type, varint length and bytes.
 *
 * Key chain: k = HMAC(`macaroons-key-generator`, root key); sig = HMAC(k, identifier); sig = HMAC(sig, caveat) for
 * each.
 */
import { equalDigests, hmacChain, hmacSha256 } from '../codecs/hmac.ts'

/** Bytes; even in hex it fits a credential of 64 KB. */
export const MAX_MACAROON_BYTES = 16_384

/** Ours carry six; holders may add some. */
export const MAX_CAVEATS = 64

const VERSION = 2
const FIELD_END = 0
const FIELD_LOCATION = 1
const FIELD_IDENTIFIER = 2
const FIELD_VERIFICATION = 4
const FIELD_SIGNATURE = 6
const SIGNATURE_BYTES = 32
const IDENTIFIER_BYTES = 66
const KEY_GENERATOR = Buffer.from('macaroons-key-generator')

type MacaroonErrorCode = 'encoding' | 'format' | 'third-party' | 'size' | 'identifier'

/** Messages never contain keys or signatures. */
export class MacaroonError extends Error {
  override readonly name = 'MacaroonError'
  readonly code: MacaroonErrorCode
  constructor(code: MacaroonErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

/** `caveats`: the raw signed bytes, in order. */
export interface Macaroon {
  readonly location: string
  readonly identifier: Uint8Array
  readonly caveats: readonly Uint8Array[]
  readonly signature: Uint8Array
}

/** Our 66-byte identifier: `u16be version (0) ‖ payment hash ‖ token id`. */
export interface TokenIdentifier {
  readonly paymentHash: string
  /** 32 bytes; the first four name the key generation, see `KeyRing`. */
  readonly tokenId: Uint8Array
}

/**
 * Exactly 66 raw bytes, since deployed clients reject anything else.
 * @throws MacaroonError `identifier` for an invalid payment hash or token id
 */
export function encodeIdentifier(paymentHash: string, tokenId: Uint8Array): Uint8Array {
  const hash = Buffer.from(paymentHash, 'hex')
  if (hash.length !== 32 || paymentHash.length !== 64)
    throw new MacaroonError('identifier', 'A payment hash has 64 hex characters')
  if (tokenId.length !== 32) throw new MacaroonError('identifier', `A token id has 32 bytes, not ${tokenId.length}`)
  const identifier = Buffer.alloc(IDENTIFIER_BYTES)
  identifier.set(hash, 2)
  identifier.set(tokenId, 34)
  return identifier
}

/** @throws MacaroonError `identifier` unless 66 bytes of version 0 */
export function decodeIdentifier(identifier: Uint8Array): TokenIdentifier {
  if (identifier.length !== IDENTIFIER_BYTES) {
    throw new MacaroonError(
      'identifier',
      `The identifier has ${identifier.length} bytes; an L402 token has ${IDENTIFIER_BYTES}`
    )
  }
  if (identifier[0] !== 0 || identifier[1] !== 0)
    throw new MacaroonError('identifier', 'The identifier is not of version 0')
  const bytes = Buffer.from(identifier.buffer, identifier.byteOffset, identifier.length)
  return { paymentHash: bytes.toString('hex', 2, 34), tokenId: bytes.subarray(34) }
}

function signatureOf(rootKey: Uint8Array, identifier: Uint8Array, caveats: readonly Uint8Array[]): Uint8Array {
  return hmacChain(KEY_GENERATOR, [rootKey, identifier, ...caveats])
}

/** Verifies in constant time. */
export function verifySignature(macaroon: Macaroon, rootKey: Uint8Array): boolean {
  return equalDigests(signatureOf(rootKey, macaroon.identifier, macaroon.caveats), macaroon.signature)
}

/** Caveats are written as UTF-8. */
export function mintMacaroon(
  rootKey: Uint8Array,
  location: string,
  identifier: Uint8Array,
  caveats: readonly string[]
): Macaroon {
  const bytes = caveats.map(caveat => Buffer.from(caveat, 'utf8'))
  return { location, identifier, caveats: bytes, signature: signatureOf(rootKey, identifier, bytes) }
}

/** Needs no root key: any holder can narrow a token. */
export function addCaveat(macaroon: Macaroon, caveat: string): Macaroon {
  const bytes = Buffer.from(caveat, 'utf8')
  return { ...macaroon, caveats: [...macaroon.caveats, bytes], signature: hmacSha256(macaroon.signature, bytes) }
}

/** @throws MacaroonError `size` above `MAX_MACAROON_BYTES` or `MAX_CAVEATS`: readers would reject it */
export function encodeMacaroon(macaroon: Macaroon): Buffer {
  if (macaroon.caveats.length > MAX_CAVEATS)
    throw new MacaroonError('size', `A macaroon carries at most ${MAX_CAVEATS} caveats`)
  const { identifier, caveats, signature } = macaroon
  const location = macaroon.location === '' ? NOTHING : Buffer.from(macaroon.location, 'utf8')
  let length = ENDS_AND_VERSION + (location.length === 0 ? 0 : fieldLength(location))
  length += fieldLength(identifier) + fieldLength(signature)
  for (const caveat of caveats) length += fieldLength(caveat) + 1
  if (length > MAX_MACAROON_BYTES)
    throw new MacaroonError('size', `The macaroon has ${length} bytes; the limit is ${MAX_MACAROON_BYTES}`)
  const bytes = Buffer.allocUnsafe(length)
  bytes[0] = VERSION
  let at = location.length === 0 ? 1 : writeField(bytes, 1, FIELD_LOCATION, location)
  at = writeField(bytes, at, FIELD_IDENTIFIER, identifier)
  bytes[at++] = FIELD_END
  for (const caveat of caveats) {
    at = writeField(bytes, at, FIELD_IDENTIFIER, caveat)
    bytes[at++] = FIELD_END
  }
  bytes[at++] = FIELD_END
  writeField(bytes, at, FIELD_SIGNATURE, signature)
  return bytes
}

/** Standard base64 with padding, as in challenges. */
export function macaroonToBase64(macaroon: Macaroon): string {
  return encodeMacaroon(macaroon).toString('base64')
}

// Version byte and two section ends.
const ENDS_AND_VERSION = 3

function fieldLength({ length }: Uint8Array): number {
  let head = 2
  for (let rest = length >>> 7; rest > 0; rest >>>= 7) head++
  return head + length
}

/** Returns the next offset. */
function writeField(bytes: Uint8Array, from: number, type: number, value: Uint8Array): number {
  let at = from
  bytes[at++] = type
  let { length } = value
  for (; length > 0x7f; length >>>= 7) bytes[at++] = (length & 0x7f) | 0x80
  bytes[at++] = length
  bytes.set(value, at)
  return at + value.length
}

/**
 * Strict: known fields in ascending order, minimal varints, no third-party caveats, no trailing bytes. Parts are views
 * of `bytes`, which must stay unchanged.
 * @throws MacaroonError
 */
export function decodeMacaroon(bytes: Uint8Array): Macaroon {
  if (bytes.length > MAX_MACAROON_BYTES)
    throw new MacaroonError('size', `The macaroon has ${bytes.length} bytes; the limit is ${MAX_MACAROON_BYTES}`)
  if (bytes[0] !== VERSION) throw new MacaroonError('format', 'Not a macaroon of version 2: the first byte must be 02')
  const reader = new FieldReader(bytes, 1)

  let location = ''
  let type = reader.next()
  if (type === FIELD_LOCATION) {
    location = readLocation(reader.value)
    type = reader.next()
  }
  if (type !== FIELD_IDENTIFIER) throw reader.unexpected('the identifier')
  const identifier = reader.value
  if (reader.next() !== FIELD_END) throw reader.unexpected('the end of the header')

  const caveats: Uint8Array[] = []
  for (;;) {
    type = reader.next()
    if (type === FIELD_END) break
    if (type === FIELD_LOCATION) {
      readLocation(reader.value)
      type = reader.next()
    }
    if (type !== FIELD_IDENTIFIER) throw reader.unexpected('a caveat')
    if (caveats.length === MAX_CAVEATS)
      throw new MacaroonError('size', `A macaroon carries at most ${MAX_CAVEATS} caveats`)
    caveats.push(reader.value)
    type = reader.next()
    if (type === FIELD_VERIFICATION) throw new MacaroonError('third-party', 'Third-party caveats are not accepted')
    if (type !== FIELD_END) throw reader.unexpected('the end of a caveat')
  }

  if (reader.next() !== FIELD_SIGNATURE) throw reader.unexpected('the signature')
  const signature = reader.value
  if (signature.length !== SIGNATURE_BYTES)
    throw new MacaroonError('format', `The signature has ${signature.length} bytes, not ${SIGNATURE_BYTES}`)
  if (!reader.atEnd) throw new MacaroonError('format', 'Bytes follow the signature')
  return { location, identifier, caveats, signature }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function readLocation(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new MacaroonError('format', 'A location is not UTF-8')
  }
}

const NOTHING = new Uint8Array(0)

class FieldReader {
  readonly #bytes: Uint8Array
  #offset: number
  #type = -1
  /** Bytes of the field that `next` read; empty at a section's end. */
  value: Uint8Array

  constructor(bytes: Uint8Array, offset: number) {
    this.#bytes = bytes
    this.#offset = offset
    this.value = NOTHING
  }

  get atEnd(): boolean {
    return this.#offset === this.#bytes.length
  }

  next(): number {
    this.#type = this.#varint()
    if (this.#type === FIELD_END) {
      this.value = NOTHING
      return FIELD_END
    }
    const length = this.#varint()
    const end = this.#offset + length
    if (end > this.#bytes.length)
      throw new MacaroonError('format', `A field of ${length} bytes at ${this.#offset} runs past the end`)
    this.value = this.#bytes.subarray(this.#offset, end)
    this.#offset = end
    return this.#type
  }

  unexpected(wanted: string): MacaroonError {
    return new MacaroonError(
      'format',
      `Expected ${wanted} before byte ${this.#offset}, found a field of type ${this.#type}`
    )
  }

  #varint(): number {
    let value = 0
    // Three groups of seven bits exceed the longest macaroon.
    for (let shift = 0; shift <= 14; shift += 7) {
      const byte = this.#bytes[this.#offset]
      if (byte === undefined)
        throw new MacaroonError('format', `The macaroon ends at byte ${this.#offset}, in the middle of a field`)
      this.#offset++
      value |= (byte & 0x7f) << shift
      if (byte < 0x80) {
        if (byte === 0 && shift > 0)
          throw new MacaroonError('format', `A varint before byte ${this.#offset} is not minimal`)
        return value
      }
    }
    throw new MacaroonError('format', `A varint before byte ${this.#offset} is too large`)
  }
}

/**
 * Reads standard or url-safe base64, padded or not.
 * @throws MacaroonError
 */
export function decodeMacaroonBase64(text: string): Macaroon {
  if (text.length > (MAX_MACAROON_BYTES * 4) / 3 + 4) throw new MacaroonError('size', 'The macaroon is too long')
  if (!BASE64.test(text)) throw new MacaroonError('encoding', 'The macaroon is not base64')
  const bytes = Buffer.from(text, 'base64')
  const characters = text.length - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0)
  if (characters % 4 === 1 || (characters !== text.length && text.length % 4 !== 0)) {
    throw new MacaroonError('encoding', 'The macaroon has a length that base64 cannot have')
  }
  return decodeMacaroon(bytes)
}

const BASE64 = /^(?:[A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}$/

/**
 * Reads hex in any case, as `Grpc-Metadata-Macaroon` has it.
 * @throws MacaroonError
 */
export function decodeMacaroonHex(text: string): Macaroon {
  if (text.length > MAX_MACAROON_BYTES * 2) throw new MacaroonError('size', 'The macaroon is too long')
  if (text.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(text))
    throw new MacaroonError('encoding', 'The macaroon is not hex')
  return decodeMacaroon(Buffer.from(text, 'hex'))
}
