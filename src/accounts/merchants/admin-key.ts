import { createHmac } from 'node:crypto'
import { equalText } from '../../platform/keys/constant-time.ts'
import type { Secret } from '../../platform/keys/secrets.ts'

declare module '../../engine/pipeline/services.ts' {
  interface Services {
    readonly adminKey: AdminKey
  }
}

/** The operator's own key (contract, Authentication 2). */
export class AdminKey {
  readonly #key: Secret<string> | null

  /** Null or empty: none is configured, and nothing matches. */
  constructor(key: Secret<string> | null) {
    this.#key = key === null || key.reveal() === '' ? null : key
  }

  get configured(): boolean {
    return this.#key !== null
  }

  /** Whether the text is the key, in constant time; never when none is configured. */
  matches(text: string): boolean {
    return this.#key !== null && equalText(text, this.#key.reveal())
  }

  /**
   * What tells this key from another, to be stored with sessions that were opened with it: another key ends them.
   * @throws TypeError when no key is configured
   */
  get mark(): string {
    if (this.#key === null) throw new TypeError('there is no admin key')
    return createHmac('sha256', this.#key.reveal()).update('boltgate admin key of sessions').digest('base64url')
  }

  /**
   * A text that stands for the key until a time, in milliseconds since the epoch, for a browser to keep in its place:
   * it cannot be made into the key, and another key ends it.
   * @throws TypeError when no key is configured
   */
  session(until: number): string {
    if (this.#key === null) throw new TypeError('there is no admin key')
    return `${until}.${createHmac('sha256', this.#key.reveal()).update(`boltgate admin session until ${until}`).digest('base64url')}`
  }

  /** Whether the text is what `session` gave, and its time is not over. */
  holdsSession(text: string, now: number): boolean {
    const until = Number(/^([1-9]\d{0,15})\./.exec(text)?.[1])
    return this.#key !== null && until > now && equalText(text, this.session(until))
  }
}
