import { parseArgs } from 'node:util'
import { callGateway, payAtSandbox, type WholeResponse } from '../cli/gateway-call.ts'
import { challengeIn, credentialFor, isScheme } from './credentials.ts'
import { UsageError, type Output } from '../cli/output.ts'
import { addressOption, readHeaders, readMethod } from '../cli/request-options.ts'

export const payUsage = `boltgate pay URL [-X METHOD] [-d BODY] [-H 'Name: value'] [--scheme l402|payment] [--wallet URL]

Asks for URL, pays the invoice of its 402, asks again with the proof, and prints each step. It pays with the sandbox
of the gateway that URL names; --wallet names another gateway's /sandbox/pay.`

const SHOWN = new Set([
  'www-authenticate',
  'payment-receipt',
  'x-l402-error',
  'x-l402-proxy',
  'x-l402-proxy-id',
  'retry-after',
  'content-type',
  'cache-control'
])

/**
 * Requests, pays the 402 and requests again. Exit code 0 for a final 2xx, else 1.
 * @throws UsageError and CodedError
 */
export async function pay(args: readonly string[], out: Output): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      request: { type: 'string', short: 'X' },
      data: { type: 'string', short: 'd' },
      header: { type: 'string', short: 'H', multiple: true },
      scheme: { type: 'string', default: 'l402' },
      wallet: { type: 'string' }
    }
  })
  const [url, ...more] = positionals
  if (url === undefined || more.length > 0)
    throw new UsageError(
      `pay needs one URL, ${url === undefined ? 'and there is none' : `not "${positionals.join(' ')}"`}.\n\n${payUsage}`
    )
  if (!isScheme(values.scheme)) throw new UsageError(`--scheme is l402 or payment, not "${values.scheme}".`)
  // Validate everything first: a mistake must not leave an unpaid invoice.
  const target = addressOption('URL', url)
  const wallet = addressOption(
    '--wallet',
    values.wallet ?? '/sandbox/pay',
    values.wallet === undefined ? url : undefined
  )
  const body = values.data ?? null
  const method = readMethod(values.request ?? (body === null ? 'GET' : 'POST'))
  const headers = readHeaders(values.header ?? [])
  if (body !== null && headers['content-type'] === undefined) headers['content-type'] = 'application/json'

  out.print(`> ${method} ${url}`)
  const first = await callGateway(target, { method, headers, body })
  show(first, out)
  if (first.status !== 402) return first.status < 300 ? 0 : 1

  const challenge = challengeIn(first.headers, values.scheme)
  const invoice = challenge.parameters.get('invoice')
  out.print('')
  out.print(`Paying ${(invoice ?? '').slice(0, 40)}… at ${wallet.href}`)
  const preimage = await payAtSandbox(wallet, invoice)
  out.print(`Paid; the preimage is ${preimage}`)

  const authorization = credentialFor(challenge, preimage)
  out.print('')
  out.print(`> ${method} ${url}`)
  out.print(`> Authorization: ${authorization.length > 100 ? `${authorization.slice(0, 100)}…` : authorization}`)
  const second = await callGateway(target, { method, headers: { ...headers, authorization }, body })
  show(second, out)
  return second.status < 300 ? 0 : 1
}

function show(response: WholeResponse, out: Output): void {
  out.print(`< ${response.status}`)
  for (const [name, value] of Object.entries(response.headers)) {
    if (!SHOWN.has(name)) continue
    for (const line of Array.isArray(value) ? value : [value]) out.print(`< ${name}: ${line ?? ''}`)
  }
  if (response.text !== '') out.print(response.text)
}
