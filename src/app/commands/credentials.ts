import type { Dispatcher } from 'undici'
import { readChallengeLine, type ChallengeLine } from '../cli/challenge-lines.ts'
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
