export type ResponseFaultCode =
  /** The upstream closed before the response was complete, or sent an unsolicited 100 or 101. */
  'UPSTREAM_CLOSED' | 'UPSTREAM_HEAD_TOO_LARGE' | 'UPSTREAM_LENGTH_MISMATCH' | 'UPSTREAM_MALFORMED'

/** A response that cannot be passed on. The message is for the log; clients get the text of `failure.ts`. */
export class ResponseFault extends Error {
  readonly code: ResponseFaultCode

  constructor(code: ResponseFaultCode, message: string) {
    super(message)
    this.name = 'ResponseFault'
    this.code = code
  }
}

export function malformed(why: string): ResponseFault {
  return new ResponseFault('UPSTREAM_MALFORMED', why)
}
