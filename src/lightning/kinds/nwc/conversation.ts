import { createCipheriv, createDecipheriv, randomBytes, createECDH, createHmac } from 'node:crypto'
import { equalBytes } from '../../../platform/keys/secrets.ts'

/** NIP-47. */
export type Encryption = 'nip44_v2' | 'nip04'

export class UndecryptableError extends Error {
  override name = 'UndecryptableError'
}

const IV_BYTES = 16
const NIP04 = /^([A-Za-z0-9+/]+={0,2})\?iv=([A-Za-z0-9+/]{22}==)$/

/** Encrypts messages between two keys, both hex. */
export class Conversation {
  readonly #nip44: Buffer
  readonly #nip04: Buffer

  constructor(secret: string, publicKey: string) {
    this.#nip04 = sharedX(Buffer.from(secret, 'hex'), Buffer.from(publicKey, 'hex'))
    this.#nip44 = conversationKey(this.#nip04)
  }

  encrypt(text: string, encryption: Encryption): string {
    if (encryption === 'nip44_v2') return encrypt(text, this.#nip44)
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv('aes-256-cbc', this.#nip04, iv)
    const hidden = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return `${hidden.toString('base64')}?iv=${iv.toString('base64')}`
  }

  /**
   * Decrypts either form. NIP-04 has no authentication: pass only messages with a verified signature.
   * @throws UndecryptableError
   */
  decrypt(message: string): string {
    try {
      return message.includes('?iv=') ? this.#decryptOld(message) : decrypt(message, this.#nip44)
    } catch (error) {
      throw new UndecryptableError('the message is not encrypted for us', { cause: error })
    }
  }

  #decryptOld(message: string): string {
    const [, hidden = '', iv = ''] = message.length > LONGEST ? [] : (NIP04.exec(message) ?? [])
    const cipher = createDecipheriv('aes-256-cbc', this.#nip04, Buffer.from(iv, 'base64'))
    return Buffer.concat([cipher.update(hidden, 'base64'), cipher.final()]).toString('utf8')
  }
}

/** NIP-44 version 2 encryption between two Nostr keys. */

export class Nip44Error extends Error {
  override name = 'Nip44Error'
}

const VERSION = 2
const NONCE_BYTES = 32
const MAC_BYTES = 32
const MAX_TEXT = 65_535
/** Shortest and longest message, in base64 characters. */
const SHORTEST = 132
const LONGEST = 87_472

/** ECDH secret, 32 bytes, equal from both sides. Keys are 32 bytes. */
export function sharedX(secret: Uint8Array, publicKey: Uint8Array): Buffer {
  const ours = createECDH('secp256k1')
  ours.setPrivateKey(secret)
  // Both points with this x give the same shared x.
  return ours.computeSecret(Buffer.concat([Buffer.of(2), publicKey]))
}

export function conversationKey(shared: Uint8Array): Buffer {
  return hmac(Buffer.from('nip44-v2'), shared)
}

/** Encrypts 1 to 65,535 bytes of text as base64. `nonce`: 32 bytes, never reused. */
export function encrypt(text: string, key: Uint8Array, nonce: Uint8Array = randomBytes(NONCE_BYTES)): string {
  const bytes = Buffer.from(text, 'utf8')
  if (bytes.length < 1 || bytes.length > MAX_TEXT) throw new Nip44Error(`the text has ${bytes.length} bytes`)
  const padded = Buffer.alloc(2 + paddedLength(bytes.length))
  padded.writeUInt16BE(bytes.length)
  bytes.copy(padded, 2)
  const { cipherKey, iv, macKey } = messageKeys(key, nonce)
  const cipher = createCipheriv('chacha20', cipherKey, iv)
  const hidden = Buffer.concat([cipher.update(padded), cipher.final()])
  return Buffer.concat([Buffer.of(VERSION), nonce, hidden, hmac(macKey, nonce, hidden)]).toString('base64')
}

/**
 * Decrypts a message after verifying its MAC.
 * @throws Nip44Error
 */
export function decrypt(message: string, key: Uint8Array): string {
  if (message.length < SHORTEST || message.length > LONGEST) throw new Nip44Error('the message has no length of one')
  const bytes = Buffer.from(message, 'base64')
  // Node skips invalid characters; only a round trip proves that all was read.
  if (bytes.toString('base64') !== message) throw new Nip44Error('the message is not base64')
  if (bytes[0] !== VERSION) throw new Nip44Error('the message has another version')
  const nonce = bytes.subarray(1, 1 + NONCE_BYTES)
  const hidden = bytes.subarray(1 + NONCE_BYTES, -MAC_BYTES)
  const { cipherKey, iv, macKey } = messageKeys(key, nonce)
  if (!equalBytes(hmac(macKey, nonce, hidden), bytes.subarray(-MAC_BYTES)))
    throw new Nip44Error('the message has another code')
  const cipher = createDecipheriv('chacha20', cipherKey, iv)
  const padded = Buffer.concat([cipher.update(hidden), cipher.final()])
  const length = padded.readUInt16BE()
  if (length < 1 || padded.length !== 2 + paddedLength(length)) throw new Nip44Error('the message is padded wrongly')
  return padded.toString('utf8', 2, 2 + length)
}

/** Padded length in bytes, which hides the exact length. */
export function paddedLength(length: number): number {
  if (length <= 32) return 32
  const next = 2 ** (Math.floor(Math.log2(length - 1)) + 1)
  const step = next <= 256 ? 32 : next / 8
  return step * (Math.floor((length - 1) / step) + 1)
}

/** Message keys: HKDF-Expand (RFC 5869) to 76 bytes, which Node offers only with Extract. */
function messageKeys(key: Uint8Array, nonce: Uint8Array) {
  const one = hmac(key, nonce, Buffer.of(1))
  const two = hmac(key, one, nonce, Buffer.of(2))
  const three = hmac(key, two, nonce, Buffer.of(3))
  return {
    cipherKey: one,
    // OpenSSL's IV starts with the counter.
    iv: Buffer.concat([Buffer.alloc(4), two.subarray(0, 12)]),
    macKey: Buffer.concat([two.subarray(12), three.subarray(0, 12)])
  }
}

function hmac(key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer {
  const created = createHmac('sha256', key)
  for (const part of parts) created.update(part)
  return created.digest()
}
