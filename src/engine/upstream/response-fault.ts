/** What is wrong with a response, or with the connection that it should have come on. */
export type ResponseFaultCode =
  /**
   * The upstream closed before its response was whole, or answered what nobody can go on from: an unasked 100 or 101.
   */
  | 'UPSTREAM_CLOSED'
  /** The head, or the trailers, are larger than is read. */
  | 'UPSTREAM_HEAD_TOO_LARGE'
  /** The body ends before its announced length. */
  | 'UPSTREAM_LENGTH_MISMATCH'
  /** It is not HTTP, or could be read in two ways. */
  | 'UPSTREAM_MALFORMED'

/**
 * A response of an upstream that cannot be passed on. The message is for the log; clients get the text of `failure.ts`.
 */
export class ResponseFault extends Error {
  readonly code: ResponseFaultCode

  constructor(code: ResponseFaultCode, message: string) {
    super(message)
    this.name = 'ResponseFault'
    this.code = code
  }
}
