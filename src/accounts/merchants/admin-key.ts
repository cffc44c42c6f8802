import { createHmac } from 'node:crypto'
import { equalText, type Secret } from '../../platform/keys/secrets.ts'

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly adminKey: AdminKey
  }
}

/** The operator's key (contract, Authentication 2). */
export class AdminKey {
  readonly #key: Secret<string> | null

  /** Null or empty: unset, nothing matches. */
  constructor(key: Secret<string> | null) {
    this.#key = key === null || key.reveal() === '' ? null : key
  }

  get configured(): boolean {
    return this.#key !== null
  }

  /** Constant-time. */
  matches(text: string): boolean {
    return this.#key !== null && equalText(text, this.#key.reveal())
  }

  /**
   * Fingerprint stored with sessions: replacing the key ends them.
   * @throws TypeError without a key
   */
  get mark(): string {
    if (this.#key === null) throw new TypeError('there is no admin key')
    return createHmac('sha256', this.#key.reveal()).update('boltgate admin key of sessions').digest('base64url')
  }

  /**
   * Session token until a time in milliseconds since the epoch, for whom `bound` names. It does not reveal the key, and
   * replacing the key ends it.
   * @throws TypeError without a key
   */
  session(until: number, bound = ''): string {
    if (this.#key === null) throw new TypeError('there is no admin key')
    const signed = `boltgate admin session until ${until}${bound === '' ? '' : `\n${bound}`}`
    return `${until}.${createHmac('sha256', this.#key.reveal()).update(signed).digest('base64url')}`
  }

  holdsSession(text: string, now: number, bound = ''): boolean {
    const until = Number(/^([1-9]\d{0,15})\./.exec(text)?.[1])
    return this.#key !== null && until > now && equalText(text, this.session(until, bound))
  }
}
