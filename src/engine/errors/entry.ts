/** What an operator or a client needs to know of one error. */
export interface ErrorEntry {
  /** What has happened, in a sentence. */
  readonly cause: string
  /** What to do about it. */
  readonly cure: string
}

/** An error that a client is answered with. */
export interface ResponseEntry extends ErrorEntry {
  /** HTTP status; null where it is whatever a plugin says. */
  readonly status: number | null
  /** The `error` of the body, or the `title` of a problem; left out where the text differs from case to case. */
  readonly error?: string
}
