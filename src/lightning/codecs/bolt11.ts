/**
 * BOLT 11 invoices. Decoding is strict: ambiguous invoices and those another wallet would reject are errors. Encoding
 * signs, for the sandbox and demos.
 */
import { recover, verify } from 'tiny-secp256k1'
import { Bech32Error, bytesOf, decodeBech32 } from './bech32.ts'
import { sha256 } from './hmac.ts'

/** Networks by prefix: `lnbc`, `lntb`, `lntbs`, `lnbcrt`. */
export type InvoiceNetwork = 'mainnet' | 'testnet' | 'signet' | 'regtest'

type InvoiceErrorCode =
  | 'bech32'
  | 'prefix'
  | 'amount'
  | 'length'
  | 'field'
  | 'description'
  | 'missing'
  | 'features'
  | 'signature'

export class InvoiceError extends Error {
  override readonly name = 'InvoiceError'
  readonly code: InvoiceErrorCode
  constructor(code: InvoiceErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

/** Hex is lower case. */
export interface Invoice {
  readonly text: string
  readonly network: InvoiceNetwork
  /** Null for an open amount. */
  readonly amountMsat: bigint | null
  /** Whole satoshis, rounded down; null without an amount. */
  readonly amountSats: number | null
  readonly paymentHash: string
  readonly paymentSecret: string
  /** Creation in Unix seconds. */
  readonly timestamp: number
  readonly expirySeconds: number
  /** Unix seconds: `timestamp` plus `expirySeconds`. */
  readonly expiresAt: number
  readonly description: string | null
  readonly descriptionHash: string | null
  /**
   * Compressed public key, 66 hex characters; null only when the signature was not checked and no `n` field names it.
   */
  readonly payee: string | null
  /** Blocks. */
  readonly minFinalCltvExpiry: number
  /** Feature bits that are set, ascending. */
  readonly features: readonly number[]
}

const MAX_INVOICE_CHARS = 7_089 // A QR code's capacity; real ones have 200 to 1,500.

export const DEFAULT_EXPIRY = 3600
export const DEFAULT_CLTV = 18
export const TIMESTAMP_WORDS = 7
const SIGNATURE_WORDS = 104
const HASH_WORDS = 52
const PUBLIC_KEY_WORDS = 53

export const FIELD_PAYMENT_HASH = 1
export const FIELD_FEATURES = 5
export const FIELD_EXPIRY = 6
export const FIELD_DESCRIPTION = 13
export const FIELD_SECRET = 16
const FIELD_PAYEE = 19
export const FIELD_DESCRIPTION_HASH = 23
export const FIELD_CLTV = 24

// BOLT 9's invoice bits. An even bit elsewhere is a requirement that no wallet here knows.
const KNOWN_FEATURES: ReadonlySet<number> = new Set([8, 14, 16, 24, 36, 48])

const PREFIXES: Readonly<Record<string, InvoiceNetwork>> = Object.freeze({
  bc: 'mainnet',
  tb: 'testnet',
  tbs: 'signet',
  bcrt: 'regtest'
})
const HUMAN_PART = /^ln(bcrt|bc|tbs|tb)(?:(0|[1-9][0-9]{0,19})([munp]?))?$/
export const MAX_MSAT = 2_100_000_000_000_000_000n

// Tenths of a millisatoshi per unit.
export const UNITS: Readonly<Record<string, bigint>> = Object.freeze({
  '': 10n ** 12n,
  m: 10n ** 9n,
  u: 10n ** 6n,
  n: 10n ** 3n,
  p: 1n
})

/**
 * Decodes an invoice without the `lightning:` prefix.
 * @param options.signature `recover` finds the payee's key in a third of a millisecond and fails for half of wrong
 *   signatures (the others match another key); `named` verifies only where field n names the payee, else leaves `payee`
 *   null; `none` skips it
 * @param options.zeroAmount `true` reads an amount of zero as open, as some write it
 * @throws InvoiceError
 */
export function decodeInvoice(
  text: string,
  options: { readonly signature?: 'recover' | 'named' | 'none'; readonly zeroAmount?: boolean } = {}
): Invoice {
  if (text.length > MAX_INVOICE_CHARS)
    throw new InvoiceError('length', `The invoice has ${text.length} characters; the limit is ${MAX_INVOICE_CHARS}`)
  const { prefix, words } = readBech32(text)
  const human = HUMAN_PART.exec(prefix)
  const network = PREFIXES[human?.[1] ?? '']
  const isZero = human?.[2] === '0'
  if (human === null || network === undefined || (isZero && options.zeroAmount !== true)) {
    if (!/^ln(?:bc|tb)/.test(prefix))
      throw new InvoiceError('prefix', 'An invoice begins with lnbc, lntb, lntbs or lnbcrt')
    throw new InvoiceError(
      'amount',
      'The amount must be a positive whole number without leading zeros, followed by m, u, n, p or nothing'
    )
  }
  const amountMsat = isZero ? null : readAmount(human[2], human[3] ?? '')

  if (words.length < TIMESTAMP_WORDS + SIGNATURE_WORDS)
    throw new InvoiceError('length', 'The invoice is too short for a timestamp and a signature')
  const end = words.length - SIGNATURE_WORDS
  const timestamp = readNumber(words.subarray(0, TIMESTAMP_WORDS))
  const fields = readFields(words.subarray(TIMESTAMP_WORDS, end))

  const paymentHash = fields.hex(FIELD_PAYMENT_HASH)
  if (paymentHash === null) throw new InvoiceError('missing', 'The invoice has no payment hash (field p)')
  const paymentSecret = fields.hex(FIELD_SECRET)
  if (paymentSecret === null) throw new InvoiceError('missing', 'The invoice has no payment secret (field s)')
  const description = fields.text(FIELD_DESCRIPTION)
  const descriptionHash = fields.hex(FIELD_DESCRIPTION_HASH)
  if ((description === null) === (descriptionHash === null)) {
    throw new InvoiceError('description', 'The invoice must have either a description (field d) or its hash (field h)')
  }
  const features = fields.features()
  const unknown = features.find(bit => bit % 2 === 0 && !KNOWN_FEATURES.has(bit))
  if (unknown !== undefined) throw new InvoiceError('features', `The invoice demands the unknown feature ${unknown}`)
  const expirySeconds = fields.number(FIELD_EXPIRY) ?? DEFAULT_EXPIRY
  const named = fields.hex(FIELD_PAYEE)
  const { signature = 'recover' } = options
  const isChecked = signature === 'recover' || (signature === 'named' && named !== null)
  const payee = isChecked ? checkSignature(prefix, words, end, named) : named

  return {
    text: text.toLowerCase(),
    network,
    amountMsat,
    amountSats: amountMsat === null ? null : Number(amountMsat / 1000n),
    paymentHash,
    paymentSecret,
    timestamp,
    expirySeconds,
    expiresAt: timestamp + expirySeconds,
    description,
    descriptionHash,
    payee,
    minFinalCltvExpiry: fields.number(FIELD_CLTV) ?? DEFAULT_CLTV,
    features
  }
}

function readBech32(text: string): ReturnType<typeof decodeBech32> {
  try {
    return decodeBech32(text)
  } catch (error) {
    if (error instanceof Bech32Error) throw new InvoiceError('bech32', `The invoice is not bech32: ${error.message}`)
    throw error
  }
}

// Library messages may repeat the input; the log needs one line.
function reason(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, 60) : 'unknown reason'
}

function readAmount(digits: string | undefined, unit: string): bigint | null {
  if (digits === undefined) return null
  const tenths = BigInt(digits) * (UNITS[unit] ?? 0n)
  if (tenths % 10n !== 0n)
    throw new InvoiceError('amount', 'An amount in p must end in 0: there is nothing below a millisatoshi')
  const msat = tenths / 10n
  if (msat > MAX_MSAT) throw new InvoiceError('amount', 'The amount is more than all bitcoin there will be')
  return msat
}

// Safe integers hold at most ten words (50 bits); callers check.
function readNumber(words: Uint8Array): number {
  let value = 0
  for (const word of words) value = value * 32 + word
  return value
}

/** Tagged fields: words of each known type with its proper length. */
class Fields {
  readonly #values = new Map<number, Uint8Array>()

  add(type: number, words: Uint8Array): void {
    if (this.#values.has(type)) {
      const code = type === FIELD_DESCRIPTION || type === FIELD_DESCRIPTION_HASH ? 'description' : 'field'
      throw new InvoiceError(code, `The field ${fieldName(type)} is there twice`)
    }
    this.#values.set(type, words)
  }

  hex(type: number): string | null {
    const words = this.#values.get(type)
    return words === undefined ? null : toBytes(type, words).toString('hex')
  }

  text(type: number): string | null {
    const words = this.#values.get(type)
    if (words === undefined) return null
    try {
      return utf8.decode(toBytes(type, words))
    } catch (error) {
      if (error instanceof InvoiceError) throw error
      throw new InvoiceError('field', 'The description (field d) is not UTF-8')
    }
  }

  number(type: number): number | null {
    const words = this.#values.get(type)
    if (words === undefined) return null
    if (words[0] === 0 && words.length > 1)
      throw new InvoiceError('field', `The field ${fieldName(type)} begins with a zero`)
    if (words.length > 10) throw new InvoiceError('field', `The field ${fieldName(type)} is too large`)
    return readNumber(words)
  }

  features(): number[] {
    const words = this.#values.get(FIELD_FEATURES)
    if (words === undefined) return []
    if (words[0] === 0) throw new InvoiceError('field', 'The field 9 begins with a zero')
    const bits: number[] = []
    for (let index = words.length - 1; index >= 0; index--) {
      const word = words[index] ?? 0
      for (let bit = 0; bit < 5; bit++) {
        if ((word >> bit) & 1) bits.push((words.length - 1 - index) * 5 + bit)
      }
    }
    return bits
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function fieldName(type: number): string {
  return 'qpzry9x8gf2tvdw0s3jn54khce6mua7l'[type] ?? '?'
}

// Zero for any length.
const FIELD_LENGTHS: Readonly<Record<number, number>> = Object.freeze({
  [FIELD_PAYMENT_HASH]: HASH_WORDS,
  [FIELD_SECRET]: HASH_WORDS,
  [FIELD_DESCRIPTION_HASH]: HASH_WORDS,
  [FIELD_PAYEE]: PUBLIC_KEY_WORDS,
  [FIELD_DESCRIPTION]: 0,
  [FIELD_EXPIRY]: 0,
  [FIELD_CLTV]: 0,
  [FIELD_FEATURES]: 0
})

function readFields(words: Uint8Array): Fields {
  const fields = new Fields()
  let offset = 0
  while (offset < words.length) {
    const type = words[offset] ?? 0
    const length = (words[offset + 1] ?? 0) * 32 + (words[offset + 2] ?? 0)
    const start = offset + 3
    offset = start + length
    if (offset > words.length)
      throw new InvoiceError('field', `The field ${fieldName(type)} of ${length} words runs past the end`)
    const expected = FIELD_LENGTHS[type]
    // BOLT 11 demands failure on a wrong length, yet its vectors accept such fields beside right ones. Skipping is
    // safe: the right field is required.
    if (expected === undefined || (expected > 0 && expected !== length)) continue
    fields.add(type, words.subarray(start, offset))
  }
  return fields
}

function toBytes(type: number, words: Uint8Array): Buffer {
  try {
    return bytesOf(words)
  } catch {
    throw new InvoiceError('field', `The field ${fieldName(type)} is not padded with zeros to whole bytes`)
  }
}

function checkSignature(prefix: string, words: Uint8Array, end: number, named: string | null): string {
  const hash = signedHash(prefix, words.subarray(0, end))
  const signature = bytesOf(words.subarray(end)) // 104 words are exactly 65 bytes, without padding.
  const compact = signature.subarray(0, 64)
  const recovery = signature[64] ?? 0
  try {
    if (named !== null) {
      // With a named payee only low-S counts; without one BOLT 11 takes both.
      if (verify(hash, Buffer.from(named, 'hex'), compact, true)) return named
    } else if (recovery === 0 || recovery === 1 || recovery === 2 || recovery === 3) {
      const payee = recover(hash, compact, recovery, true)
      if (payee !== null) return Buffer.from(payee).toString('hex')
      throw new Error('it is no signature of any key')
    }
  } catch (error) {
    throw new InvoiceError('signature', `The signature is not valid: ${reason(error)}`)
  }
  throw new InvoiceError(
    'signature',
    named === null
      ? `The recovery id is ${recovery}; it must be 0 to 3`
      : "The signature is not the payee's, or not in low-S form"
  )
}

// BOLT 11's signed hash: the prefix as text, then the words as zero-padded bytes.
export function signedHash(prefix: string, words: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(prefix.length + Math.ceil((words.length * 5) / 8))
  let offset = bytes.write(prefix, 'latin1')
  let bits = 0
  let held = 0
  for (const word of words) {
    held = ((held << 5) | word) & 0xfff
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes[offset++] = (held >> bits) & 0xff
    }
  }
  if (bits > 0) bytes[offset] = (held << (8 - bits)) & 0xff
  return sha256(bytes)
}
