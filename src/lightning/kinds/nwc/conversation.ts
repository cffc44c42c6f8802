import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { conversationKey, decrypt, encrypt, sharedX } from './nip44.ts'

/** How messages are encrypted, as NIP-47 names it. */
export type Encryption = 'nip44_v2' | 'nip04'

/** A message that was not encrypted for us. */
export class UndecryptableError extends Error {
  override name = 'UndecryptableError'
}

const IV_BYTES = 16
/** Characters of the longest message of NIP-04: as much as one of NIP-44 holds. */
const LONGEST = 87_472
const NIP04 = /^([A-Za-z0-9+/]+={0,2})\?iv=([A-Za-z0-9+/]{22}==)$/

/** What two keys encrypt their messages to each other with. Both are hex. */
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
   * The text of a message in either form. NIP-04 has no code of its own, so that only messages whose signature was verified
   * may be given. @throws UndecryptableError
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
