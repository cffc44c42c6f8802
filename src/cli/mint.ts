import { parseArgs } from 'node:util'
import { request } from 'undici'
import { readChallengeLine } from './challenge-lines.ts'
import { UsageError, type Output } from './output.ts'

export const mintUsage = `boltgate mint [--count N] [--path PATH] [--url URL] [-X METHOD]

Prints N paid credentials for load tests, one value of Authorization a line: it asks the gateway at URL (by default
http://127.0.0.1:8080) for PATH (by default /demo/quote), pays each invoice at its sandbox, and goes on when a throttle lets it.
Sandbox only.`

/** Longest wait that a throttle may ask for before the command gives up, in seconds. */
const LONGEST_WAIT = 120

/** Mints credentials. Exit code 1 when the gateway does not give them. Throws `UsageError`. */
export async function mint (args: readonly string[], out: Output): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      count: { type: 'string', short: 'n', default: '1' },
      path: { type: 'string', default: '/demo/quote' },
      url: { type: 'string', default: 'http://127.0.0.1:8080' },
      request: { type: 'string', short: 'X', default: 'GET' }
    }
  })
  const count = Number(values.count)
  if (!Number.isInteger(count) || count < 1 || count > 1_000_000) throw new UsageError(`--count is a whole number from 1 to 1000000, not "${values.count}".`)
  if (!URL.canParse(values.path, values.url)) throw new UsageError(`--url and --path do not make an address: "${values.url}", "${values.path}".`)
  const target = new URL(values.path, values.url)
  for (let made = 0; made < count;) {
    const credential = await one(target, values.request, out)
    if (credential === null) return 1
    if (credential === 'wait') continue
    out.print(credential)
    made++
    if (made % 1000 === 0) out.complain(`${made} of ${count}`)
  }
  return 0
}

async function one (target: URL, method: string, out: Output): Promise<string | 'wait' | null> {
  // Whatever the user typed after -X; undici refuses what is no method.
  const answer = await request(target, { method: method as 'GET' })
  const text = await answer.body.text()
  if (answer.statusCode === 429) {
    const seconds = Number(answer.headers['retry-after'] ?? '1')
    if (seconds > LONGEST_WAIT) {
      out.complain(`The gateway asks to wait ${seconds} seconds; raise its policies for load tests.`)
      return null
    }
    out.complain(`Throttled; going on in ${seconds} s. Raise the policy of the route for load tests.`)
    await new Promise(resolve => { setTimeout(resolve, seconds * 1000) })
    return 'wait'
  }
  if (answer.statusCode !== 402) {
    out.complain(`${target.href} answered ${answer.statusCode}, not 402: ${text.slice(0, 200)}`)
    return null
  }
  const lines = answer.headers['www-authenticate'] ?? []
  for (const line of Array.isArray(lines) ? lines : [lines]) {
    const challenge = readChallengeLine(line)
    if (challenge?.scheme !== 'l402') continue
    const paid = await request(new URL('/sandbox/pay', target), {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ invoice: challenge.parameters.get('invoice') })
    })
    const result = await paid.body.text()
    if (paid.statusCode !== 200) {
      out.complain(`The sandbox did not pay: ${paid.statusCode} ${result}`)
      return null
    }
    // The sandbox's answer has this member.
    const { preimage } = JSON.parse(result) as { preimage: string }
    return `L402 ${challenge.parameters.get('macaroon') ?? ''}:${preimage}`
  }
  out.complain('The 402 offers no L402 challenge.')
  return null
}
