import type { Dispatcher } from 'undici'
import { defineCommand } from '../cli/command.ts'
import { callGateway, payAtSandbox, beginningOf } from '../cli/gateway-call.ts'
import { PAYMENT_FIELD } from '../../engine/message/payment-headers.ts'
import { UsageError, type Output, OTHER_RESPONSE } from '../cli/output.ts'
import { addressOption, readMethod } from '../cli/request-options.ts'
import { CodedError } from '../../platform/system/errors.ts'

const MOST_AT_ONCE = 256

export const mint = defineCommand(
  {
    about: 'Prints paid credentials for load tests, one Authorization header value per line',
    details: `Requests the path, pays each invoice at the gateway's sandbox, and waits when a throttle says so. A Payment credential
is valid once, and only for the body it was made for. Sandbox only.`,
    flags: {
      '-n, --count <number>': 'Number of credentials (default: 1)',
      '--path <path>': 'Priced path (default: /demo/quote)',
      '--url <url>': 'Gateway (default: http://127.0.0.1:8080)',
      '-X, --request <method>': 'HTTP method (default: GET, or POST with --data)',
      '-d, --data <body>': 'Request body',
      '--scheme <scheme>': 'l402 or payment (default: l402)',
      '--parallel <number>': `Concurrent requests, 1 to ${MOST_AT_ONCE} (default: 1)`
    },
    examples: ['boltgate mint --count 1000 --parallel 16 > credentials.txt']
  },
  async (values, _words, out) => {
    const { path = '/demo/quote', scheme = 'l402', url = 'http://127.0.0.1:8080' } = values
    const count = wholeNumber('count', values.count ?? '1', 1_000_000)
    const parallel = wholeNumber('parallel', values.parallel ?? '1', MOST_AT_ONCE)
    if (!isScheme(scheme)) throw new UsageError(`--scheme must be l402 or payment, not "${scheme}".`)
    addressOption('--url', url)
    const body = values.data ?? null
    const wanted: Wanted = {
      target: addressOption('--path', path, url),
      method: readMethod(values.request ?? (body === null ? 'GET' : 'POST')),
      body,
      scheme
    }
    let begun = 0
    let made = 0
    const work = async (): Promise<void> => {
      while (begun < count) {
        begun++
        out.print(await one(wanted, out))
        made++
        if (made % 1000 === 0) out.complain(`${made} of ${count}`)
      }
    }
    try {
      await Promise.all(Array.from({ length: Math.min(parallel, count) }, work))
    } finally {
      // Start no more after a failure.
      begun = count
    }
    return 0
  }
)

/** Longest Retry-After that is waited for, in seconds. */
const LONGEST_WAIT = 120

interface Wanted {
  readonly target: URL
  readonly method: Dispatcher.HttpMethod
  readonly body: string | null
  readonly scheme: CliScheme
}

function wholeNumber(name: string, text: string, most: number): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1 || value > most)
    throw new UsageError(`--${name} must be a whole number from 1 to ${most}, not "${text}".`)
  return value
}

/**
 * One paid credential.
 * @throws CodedError when the gateway does not grant it
 */
async function one({ target, method, body, scheme }: Wanted, out: Output): Promise<string> {
  for (;;) {
    const headers: Record<string, string> = body === null ? {} : { 'content-type': 'application/json' }
    const response = await callGateway(target, { method, headers, body })
    if (response.status === 429) {
      const seconds = Number(response.headers['retry-after'] ?? '1')
      if (seconds > LONGEST_WAIT)
        throw new CodedError(
          OTHER_RESPONSE,
          `The gateway asks to wait ${seconds} seconds; raise its policies for load tests.`
        )
      out.complain(`Throttled; going on in ${seconds} s. Raise the policy of the route for load tests.`)
      await new Promise(resolve => {
        setTimeout(resolve, seconds * 1000)
      })
      continue
    }
    if (response.status !== 402)
      throw new CodedError(
        OTHER_RESPONSE,
        `${target.href} answered ${response.status}, not 402: ${beginningOf(response.text)}`
      )
    const challenge = challengeIn(response.headers, scheme)
    const preimage = await payAtSandbox(new URL('/sandbox/pay', target), challenge.parameters.get('invoice'))
    return credentialFor(challenge, preimage)
  }
}

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
    if (challenge?.scheme === scheme && fieldOf(challenge) !== null) return challenge
  }
  throw new CodedError(
    OTHER_RESPONSE,
    `The 402 offers no ${scheme} challenge; the other one is --scheme ${scheme === 'l402' ? 'payment' : 'l402'}.`
  )
}

/** Header that takes the credential of a challenge; null if the draft has no such choice (draft-httpauth-payment-01). */
export function fieldOf({ parameters }: ChallengeLine): 'Authorization' | typeof PAYMENT_FIELD | null {
  const chosen = parameters.get('header')
  if (chosen === undefined) return 'Authorization'
  return chosen.toLowerCase() === PAYMENT_FIELD.toLowerCase() ? PAYMENT_FIELD : null
}

/** Lower-case headers of the paid request: a client's own Authorization stays beside the credential. */
export function paidHeaders(
  headers: Readonly<Record<string, string>>,
  challenge: ChallengeLine,
  credential: string
): Record<string, string | string[]> {
  const name = (fieldOf(challenge) ?? 'Authorization').toLowerCase()
  const own = headers[name]
  return { ...headers, [name]: own === undefined ? credential : [own, credential] }
}

const ECHOED = ['id', 'realm', 'method', 'intent', 'request', 'expires', 'digest', 'header']

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
