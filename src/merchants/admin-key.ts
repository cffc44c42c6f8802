import { equalText } from '../platform/constant-time.ts'
import type { Secret } from '../platform/secrets.ts'

declare module '../gateway/services.ts' {
  interface Services { readonly adminKey: AdminKey }
}

/** The operator's own key (contract, Authentication 2). */
export class AdminKey {
  readonly #key: Secret<string> | null

  /** Null or empty: none is configured, and nothing matches. */
  constructor (key: Secret<string> | null) {
    this.#key = key === null || key.reveal() === '' ? null : key
  }

  get configured (): boolean {
    return this.#key !== null
  }

  /** Whether the text is the key, in constant time; never when none is configured. */
  matches (text: string): boolean {
    return this.#key !== null && equalText(text, this.#key.reveal())
  }
}
