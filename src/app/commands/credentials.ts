import type { Dispatcher } from 'undici'
import { OTHER_RESPONSE } from '../cli/output.ts'
import { CodedError } from '../../platform/system/errors.ts'

export type CliScheme = 'l402' | 'payment'

export function isScheme(text: string): text is CliScheme {
  return text === 'l402' || text === 'payment'
}

/**
 * Challenge of a scheme in the WWW-Authenticate lines of a 402.
 * @throws CodedError when it is missing
 */
export function challengeIn(headers: Dispatcher.ResponseData['headers'], scheme: CliScheme): ChallengeLine {
  const lines = headers['www-authenticate'] ?? []
  for (const line of Array.isArray(lines) ? lines : [lines]) {
    const challenge = readChallengeLine(line)
    if (challenge?.scheme === scheme) return challenge
  }
  throw new CodedError(
    OTHER_RESPONSE,
    `The 402 offers no ${scheme} challenge; the other one is --scheme ${scheme === 'l402' ? 'payment' : 'l402'}.`
  )
}

const ECHOED = ['id', 'realm', 'method', 'intent', 'request', 'expires', 'digest']

/** Authorization value for a paid challenge. */
export function credentialFor(challenge: ChallengeLine, preimage: string): string {
  const { parameters } = challenge
  if (challenge.scheme === 'l402') return `L402 ${parameters.get('macaroon') ?? ''}:${preimage}`
  const echoed = Object.fromEntries(
    ECHOED.flatMap(name => {
      const value = parameters.get(name)
      return value === undefined ? [] : [[name, value]]
    })
  )
  return `Payment ${Buffer.from(JSON.stringify({ challenge: echoed, payload: { preimage } })).toString('base64url')}`
}

export interface ChallengeLine {
  /** Scheme in lower case. */
  readonly scheme: string
  readonly parameters: ReadonlyMap<string, string>
}

const PARAMETER = /([A-Za-z][A-Za-z0-9_-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))/y

/** Parses a WWW-Authenticate line (RFC 9110, 11.6.1) with a single challenge; null for any other. */
export function readChallengeLine(line: string): ChallengeLine | null {
  const scheme = /^\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s+/.exec(line)
  if (scheme?.[1] === undefined) return null
  const parameters = new Map<string, string>()
  let at = scheme[0].length
  while (at < line.length) {
    PARAMETER.lastIndex = at
    const match = PARAMETER.exec(line)
    if (match?.[1] === undefined) return null
    parameters.set(match[1].toLowerCase(), match[2]?.replaceAll(/\\(.)/g, '$1') ?? match[3] ?? '')
    at = PARAMETER.lastIndex
    while (at < line.length && (line[at] === ',' || line[at] === ' ')) at++
  }
  return { scheme: scheme[1].toLowerCase(), parameters }
}
