import { CONFIG_FLAG } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { adminKeyOf } from '../cli/admin-call.ts'
import { loadNamed } from '../cli/configuration.ts'
import { callGateway, payAtSandbox, type WholeResponse } from '../cli/gateway-call.ts'
import { challengeIn, credentialFor, fieldOf, isScheme, paidHeaders } from './mint.ts'
import { AdminKey } from '../../accounts/merchants/admin-key.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import { TEST_BOUND, TEST_HEADER } from '../../selling/minting/probes.ts'
import { decodeInvoice } from '../../lightning/codecs/bolt11.ts'
import { nwc } from '../../lightning/kinds/nwc/nwc.ts'
import { payFromWallet } from '../../lightning/kinds/nwc/wallet.ts'
import { CodedError } from '../../platform/system/errors.ts'
import { OTHER_RESPONSE, UsageError, type Output } from '../cli/output.ts'
import { addressOption, readHeaders, readMethod } from '../cli/request-options.ts'

/** Milliseconds that the mark of a test is valid. */
const TEST_MS = 60_000

/** Satoshis that a real wallet pays without being told to. */
export const MOST_SATS = '1000'

export const pay = defineCommand(
  {
    about: 'Pays for a request and prints each step',
    takes: '<url>',
    details:
      'Requests the URL, pays the invoice of its 402 response, and repeats the request with the proof of payment.',
    flags: {
      '-X, --request <method>': 'HTTP method (default: GET, or POST with --data)',
      '-d, --data <body>': 'Request body',
      '-H, --header <header>...': "Request header, such as 'Accept: text/plain'; repeatable",
      '--scheme <scheme>': 'l402 or payment (default: l402)',
      '--wallet <wallet>': `Wallet that pays: a Nostr Wallet Connect address (nostr+walletconnect://…), which spends real
money, or the /sandbox/pay of a gateway (default: $BOLTGATE_WALLET, else the sandbox at the URL)`,
      '--max <sats>': `Most that a real wallet pays (default: ${MOST_SATS})`,
      '--test':
        'Keep this payment out of the figures of your own gateway; signed with the admin key of its configuration',
      ...CONFIG_FLAG
    },
    examples: [
      'boltgate pay http://127.0.0.1:8080/demo/quote',
      'boltgate pay https://api.example.com/v1/a --wallet "$BOLTGATE_WALLET" --max 50'
    ]
  },
  async (values, words, out) => {
    const [url = ''] = words
    const { scheme = 'l402' } = values
    if (!isScheme(scheme)) throw new UsageError(`--scheme must be l402 or payment, not "${scheme}".`)
    // Validate everything first: a mistake must not leave an unpaid invoice.
    const target = addressOption('URL', url)
    const wallet = walletOf(values.wallet ?? ownWallet(), url, values.max)
    const body = values.data ?? null
    const method = readMethod(values.request ?? (body === null ? 'GET' : 'POST'))
    const headers = readHeaders(values.header ?? [])
    if (body !== null && headers['content-type'] === undefined) headers['content-type'] = 'application/json'

    out.print(`> ${method} ${url}`)
    const test = values.test ? { [TEST_HEADER]: await testToken(values.config) } : {}
    const first = await callGateway(target, { method, headers: { ...headers, ...test }, body })
    show(first, out)
    if (first.status !== 402) return first.status < 300 ? 0 : 1

    const challenge = challengeIn(first.headers, scheme)
    const invoice = challenge.parameters.get('invoice')
    out.print('')
    out.print(`Paying ${(invoice ?? '').slice(0, 40)}… ${wallet.name}`)
    const preimage = await wallet.pay(invoice)
    out.print(`Paid; the preimage is ${preimage}`)

    const credential = credentialFor(challenge, preimage)
    out.print('')
    out.print(`> ${method} ${url}`)
    out.print(`> ${fieldOf(challenge)}: ${credential.length > 100 ? `${credential.slice(0, 100)}…` : credential}`)
    const paid = paidHeaders(headers, challenge, credential)
    const second = await callGateway(target, { method, headers: paid, body })
    show(second, out)
    return second.status < 300 ? 0 : 1
  }
)

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

/** Only the request that makes the invoice has it: the next one reaches the upstream. */
async function testToken(file: string | undefined): Promise<string> {
  const { config } = await loadNamed(file)
  return new AdminKey(new Secret(adminKeyOf(config))).session(Date.now() + TEST_MS, TEST_BOUND)
}

export interface Wallet {
  readonly name: string
  pay(invoice: string | undefined): Promise<string>
}

/** Of the environment. */
export function ownWallet(): string | undefined {
  return process.env['BOLTGATE_WALLET'] || undefined
}

/**
 * `url`: where the sandbox is if no wallet is given.
 * @throws UsageError
 */
export function walletOf(given: string | undefined, url: string, max = MOST_SATS): Wallet {
  if (given === undefined || !/^nostr/i.test(given)) {
    const sandbox = addressOption('--wallet', given ?? '/sandbox/pay', given === undefined ? url : undefined)
    return { name: `at ${sandbox.href}`, pay: invoice => payAtSandbox(sandbox, invoice) }
  }
  const fault = nwc.keyFault(given)
  if (fault !== undefined) throw new UsageError(`--wallet: ${fault}`)
  if (!/^[1-9][0-9]{0,9}$/.test(max)) throw new UsageError(`--max must be a whole number of satoshis, not "${max}".`)
  return {
    name: 'with your wallet',
    async pay(invoice = '') {
      const { amountMsat } = decodeInvoice(invoice)
      if (amountMsat === null || amountMsat > BigInt(max) * 1000n)
        throw new CodedError(
          OTHER_RESPONSE,
          `The invoice asks for ${amountMsat === null ? 'no fixed amount' : `${amountMsat / 1000n} sats`}, more than --max allows (${max} sats). Nothing was paid.`
        )
      return await payFromWallet(given, invoice)
    }
  }
}

/** A challenge repeats its macaroon and invoice several times. */
function shortened(text: string, isChallenge: boolean): string {
  return isChallenge && text.length > 160 ? `${text.slice(0, 160)}…` : text
}

function show(response: WholeResponse, out: Output): void {
  const isChallenge = response.status === 402
  out.print(`< ${response.status}`)
  for (const [name, value] of Object.entries(response.headers)) {
    if (!SHOWN.has(name)) continue
    for (const line of Array.isArray(value) ? value : [value])
      out.print(`< ${name}: ${shortened(line ?? '', isChallenge)}`)
  }
  if (response.text !== '') out.print(shortened(response.text, isChallenge))
}
