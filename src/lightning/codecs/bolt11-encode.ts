import { signRecoverable } from 'tiny-secp256k1'
import { encodeBech32, wordsOf } from './bech32.ts'
import { isHex32 } from './hmac.ts'
import {
  type InvoiceNetwork,
  InvoiceError,
  DEFAULT_EXPIRY,
  DEFAULT_CLTV,
  TIMESTAMP_WORDS,
  FIELD_PAYMENT_HASH,
  FIELD_FEATURES,
  FIELD_EXPIRY,
  FIELD_DESCRIPTION,
  FIELD_SECRET,
  FIELD_DESCRIPTION_HASH,
  FIELD_CLTV,
  MAX_MSAT,
  UNITS,
  signedHash
} from './bolt11.ts'

const CURRENCIES: Readonly<Record<InvoiceNetwork, string>> = Object.freeze({
  mainnet: 'bc',
  testnet: 'tb',
  signet: 'tbs',
  regtest: 'bcrt'
})
/** Hex is lower case. */
export interface InvoiceTerms {
  readonly network: InvoiceNetwork
  /** Null or absent for an open amount. */
  readonly amountMsat?: bigint | null
  readonly paymentHash: string
  readonly paymentSecret: string
  readonly timestamp: number
  /** Seconds; BOLT 11's default is 3600. */
  readonly expirySeconds?: number
  /** At most 639 bytes of UTF-8; see `shortDescription`. */
  readonly description: string
  /** 64 lower-case hex characters, instead of the description. */
  readonly descriptionHash?: string
  /** Blocks; 18 by default. */
  readonly minFinalCltvExpiry?: number
  /** Feature bits. By default requires var_onion_optin and payment_secret and supports basic_mpp. */
  readonly features?: readonly number[]
}

/** Capacity of a description field, in bytes of UTF-8. */
export const MAX_DESCRIPTION_BYTES = 639

/** Cuts text to `bytes` bytes of UTF-8 between characters. */
export function shortDescription(text: string, bytes: number = MAX_DESCRIPTION_BYTES): string {
  if (Buffer.byteLength(text) <= bytes) return text
  let length = 0
  let cut = ''
  for (const character of text) {
    length += Buffer.byteLength(character)
    if (length > bytes) break
    cut += character
  }
  return cut
}

/**
 * Writes and signs an invoice.
 * @param privateKey the payee node's key, 32 bytes
 * @throws InvoiceError
 */
export function encodeInvoice(terms: InvoiceTerms, privateKey: Uint8Array): string {
  const { network, paymentHash, paymentSecret, timestamp, description } = terms
  const prefix = `ln${CURRENCIES[network]}${writeAmount(terms.amountMsat ?? null)}`
  if (!Number.isInteger(timestamp) || timestamp < 0 || timestamp >= 2 ** 35)
    throw new InvoiceError('field', `The timestamp must be whole unix seconds, not ${timestamp}`)
  if (!isHex32(paymentHash) || !isHex32(paymentSecret))
    throw new InvoiceError('field', 'Payment hash and payment secret must be 64 lower-case hex characters')
  if (Buffer.byteLength(description) > MAX_DESCRIPTION_BYTES)
    throw new InvoiceError('length', `The description has more than ${MAX_DESCRIPTION_BYTES} bytes`)

  const features = featureWords(terms.features ?? [8, 14, 17])
  const fields = Buffer.concat([
    Buffer.from(numberWords(timestamp, TIMESTAMP_WORDS)),
    ...field(FIELD_SECRET, wordsOf(Buffer.from(paymentSecret, 'hex'))),
    ...field(FIELD_PAYMENT_HASH, wordsOf(Buffer.from(paymentHash, 'hex'))),
    ...(terms.descriptionHash === undefined
      ? field(FIELD_DESCRIPTION, wordsOf(Buffer.from(description, 'utf8')))
      : field(FIELD_DESCRIPTION_HASH, wordsOf(Buffer.from(terms.descriptionHash, 'hex')))),
    ...field(FIELD_EXPIRY, Buffer.from(numberWords(terms.expirySeconds ?? DEFAULT_EXPIRY))),
    ...field(FIELD_CLTV, Buffer.from(numberWords(terms.minFinalCltvExpiry ?? DEFAULT_CLTV))),
    ...(features.length === 0 ? [] : field(FIELD_FEATURES, Buffer.from(features)))
  ])
  const { signature: compact, recoveryId } = signRecoverable(signedHash(prefix, fields), privateKey)
  const signature = wordsOf(Buffer.concat([compact, Buffer.of(recoveryId)]))
  return encodeBech32(prefix, Buffer.concat([fields, signature]))
}

function writeAmount(msat: bigint | null): string {
  if (msat === null) return ''
  if (msat <= 0n || msat > MAX_MSAT)
    throw new InvoiceError('amount', `The amount must be above 0 and at most ${MAX_MSAT} millisatoshis`)
  const tenths = msat * 10n
  for (const [unit, size] of Object.entries(UNITS)) {
    if (tenths % size === 0n) return `${tenths / size}${unit}`
  }
  throw new InvoiceError('amount', 'The amount cannot be written') // Unreachable: p divides everything.
}

function numberWords(value: number, length = 1): number[] {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new InvoiceError('field', `A number of an invoice must be whole and not negative, not ${value}`)
  const words: number[] = []
  for (let rest = value; rest > 0; rest = Math.floor(rest / 32)) words.unshift(rest % 32)
  while (words.length < length) words.unshift(0)
  if (words.length > 10) throw new InvoiceError('field', `The number ${value} is too large for an invoice`)
  return words
}

function featureWords(bits: readonly number[]): number[] {
  const highest = Math.max(-1, ...bits)
  const words: number[] = Array.from({ length: Math.floor(highest / 5) + 1 }, () => 0)
  for (const bit of bits) {
    const index = words.length - 1 - Math.floor(bit / 5)
    words[index] = (words[index] ?? 0) | (1 << (bit % 5))
  }
  return words
}

function field(type: number, data: Uint8Array): readonly Uint8Array[] {
  return [Buffer.of(type, data.length >> 5, data.length & 31), data]
}
