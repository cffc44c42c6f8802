/** A request as the handler must have seen it. */
export interface Seen {
  /** Method, one space, raw target. */
  readonly line: string
  readonly host?: string
  readonly version?: '1.0' | '1.1'
  readonly body?: string
  /** The complete header list. */
  readonly headers?: readonly string[]
  readonly upgrade?: string
}

/** Raw bytes of a client and what must come of them. */
export interface Vector {
  readonly id: string
  /** The rule that decides. */
  readonly clause: string
  /** Sent in one write; each character one byte. */
  readonly bytes: string
  /** Statuses of all answers, in order. */
  readonly answers: readonly number[]
  /** What reached the handler: nothing, for what is refused. */
  readonly seen: readonly Seen[]
  /** The server ends the connection after the last answer. */
  readonly closes: boolean
  /** It does so only where node:http reads the request. */
  readonly closesWithoutLane?: true
  /** Part of the refusal's message. */
  readonly says?: string
}

/** What is refused with `status`, closed, and not seen. */
export function refused(id: string, clause: string, bytes: string, says?: string, status = 400): Vector {
  return { id, clause, bytes, answers: [status], seen: [], closes: true, ...(says === undefined ? {} : { says }) }
}

/** One request that is let in, on a connection that stays open. */
export function passed(id: string, clause: string, bytes: string, seen: Seen): Vector {
  return { id, clause, bytes, answers: [200], seen: [seen], closes: false }
}

/** A GET with one Host line, the target and further header lines as given. */
export function get(target: string, ...lines: string[]): string {
  return `GET ${target} HTTP/1.1\r\nHost: a.example\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n`
}

/** A POST with the header lines and bytes as given. */
export function post(body: string, ...lines: string[]): string {
  return `POST /in HTTP/1.1\r\nHost: a.example\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n${body}`
}
