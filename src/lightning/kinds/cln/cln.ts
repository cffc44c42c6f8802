import { Secret } from '../../../platform/keys/secrets.ts'
import { randomToken, systemRandom } from '../../../platform/system/ids.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import {
  readAddressKey,
  readKeyCertificate,
  requireVisible,
  type AddressKeyForm
} from '../../provider-calls/address-key.ts'
import {
  NothingSent,
  ProviderRefused,
  ProviderUnavailable,
  unusableResponse,
  requireResponse
} from '../../provider-calls/errors.ts'
import type { KeyedKind, KeyedServer } from '../../provider-calls/keyed-calls.ts'
import { lightningCharge, agreedNetwork } from '../../provider-calls/lightning-charge.ts'
import { secondsToPay, unclear } from '../../provider-calls/pay-once.ts'
import type { CallProvider } from '../../provider-calls/provider-call.ts'
import type { ChargeRequest, Provider } from '../../provider-calls/provider.ts'
import { goodKey, keyedProvider, KEY_CHECK } from '../../provider-calls/wallet-provider.ts'
import { addressKeyKind, type KindOptions } from '../kind.ts'
import { followPaid, NO_COUNT, paidAfter, paidAtNode } from './news.ts'
import {
  ClnInfo,
  ClnInvoice,
  ClnInvoices,
  ClnInvoiceState,
  readClnFault,
  readClnPaid,
  readClnPays
} from './responses.ts'
import { CLN_CODES, rpc, runeFault } from './rpc.ts'

const http: KeyedKind<ClnKey> = {
  kind: 'cln',
  server: 'Core Lightning node',
  read: readClnKey,
  secretOf: ({ rune }) => rune,
  authorize: rune => ({ rune }),
  messageOf: body => readClnFault(body)?.message ?? null,
  // clnrest returns 500 for every method error.
  refusals: [500],
  meaningOf: runeFault,
  untrusted: {
    pinned:
      'The ca in the cln key did not sign the TLS certificate that the node shows: put its present ca.pem into the key, as ca=<base64url>.',
    public:
      'The cln key holds no ca, and no authority that is trusted here signed the TLS certificate of the node: add its ca.pem to the key, as ca=<base64url>.'
  }
}

/** Failures before anything is sent: no route, fee too high, expired, bad parameters. */
const BEFORE_SENDING = new Set<number>([205, 206, 207, CLN_CODES.badParameters])
const MAX_WARNING = 300

/**
 * A Core Lightning node over clnrest. The key is its address with a rune; charge ids are payment hashes (decision 116).
 * The rune needs `invoice`, `listinvoices`, `waitanyinvoice` and `getinfo`; refunds also need `listpays`, `xpay` and,
 * before 24.11, `pay`.
 *
 * Known gap; read in the node's source at 26.06, never tried: on-chain payments carry no reference to find them by, so
 * there are none.
 */
function open(options: KindOptions): Provider {
  const { clock } = options
  return keyedProvider(http, options, {
    // For a paid hash `pay` returns the first outcome and `xpay` an error; neither restarts a pending payment.
    payout: { lightning: true, chain: false, once: true },
    createCharge: async (request, call) => {
      const { invoice, paymentHash } = await newInvoice(call, request)
      return lightningCharge(invoice, paymentHash, request.amountSats)
    },
    lookUp: async (chargeId, call) => {
      const [found] = await invoicesOf(call, { payment_hash: chargeId })
      if (found === undefined) return null
      const invoice = requireResponse(ClnInvoiceState, found)
      if (invoice.paymentHash !== chargeId) throw unusableResponse('an invoice of another hash')
      return invoice.state
    },
    listSettled: ({ since, position }, call, { origin }) => paidAtNode(call, origin, clock, since, position),
    follow: ({ call }, settled) =>
      followPaid(call, clock, ({ paymentHash, state }) => {
        settled({ chargeId: paymentHash, state })
      }),
    checkKey: async call => {
      const info = requireResponse(ClnInfo, (await rpc(call, 'getinfo', {})).body)
      const { invoice, paymentHash, warnings } = await newInvoice(call, KEY_CHECK)
      const { network } = lightningCharge(invoice, paymentHash, KEY_CHECK.amountSats)
      await invoicesOf(call, { payment_hash: paymentHash })
      await paidAfter(call, NO_COUNT, 0)
      const missing = await missingForRefunds(call, paymentHash)
      return goodKey(
        'The node',
        agreedNetwork(info.network, network),
        missing === null ? null : `a rune with ${missing}`,
        warnings.length === 0 ? [] : [`The node warns: ${shortDescription(warnings.join(' '), MAX_WARNING)}`]
      )
    },
    payments: {
      find: async ({ paymentHash }, call) => {
        const payment = readClnPays((await rpc(call, 'listpays', { payment_hash: paymentHash })).body, paymentHash)
        if (payment === undefined) throw unusableResponse('no list of payments')
        return payment
      },
      send: async ({ invoice, paymentHash, isAmountless, amountSats, feeLimitSats }, call) => {
        const terms = {
          maxfee: feeLimitSats * 1000,
          retry_for: secondsToPay(options.timeout),
          ...(isAmountless ? { amount_msat: amountSats * 1000 } : {})
        }
        const pay = (method: string, name: string) =>
          call({
            method: 'POST',
            path: `/v1/${method}`,
            body: { [name]: invoice, ...terms },
            scope: `method=${method}`,
            accepts: [404, 500]
          })
        let response = await pay('xpay', 'invstring')
        // A node before 24.11.
        if (response.status === 404 && readClnFault(response.body)?.code === CLN_CODES.noMethod)
          response = await pay('pay', 'bolt11')
        if (response.status < 400) {
          const payment = readClnPaid(response.body, paymentHash, clock.now())
          return payment === null ? unclear('no outcome of a payment') : { outcome: 'sent', payment }
        }
        const fault = readClnFault(response.body)
        if (fault === null) return unclear(`status ${response.status} without an error`)
        return {
          outcome: 'refused',
          message: `The node did not pay: ${response.said ?? String(fault.code)}`,
          isBefore: BEFORE_SENDING.has(fault.code)
        }
      }
    }
  })
}

/**
 * Makes an invoice under a unique label, which finds it after a lost response. The node rejects JSON escapes, so the
 * description must need none.
 */
async function newInvoice(
  call: CallProvider,
  { amountSats, description, expirySeconds, hashed }: ChargeRequest
): Promise<ClnInvoice> {
  const label = `boltgate-${randomToken(16, systemRandom)}`
  const plain = description.toWellFormed().replace(/\p{Cc}/gu, ' ')
  let body: unknown
  try {
    body = (
      await rpc(call, 'invoice', {
        amount_msat: amountSats * 1000,
        label,
        // The node hashes the text, whatever its length.
        ...(hashed === undefined
          ? { description: shortDescription(plain) }
          : { description: hashed.text, deschashonly: true }),
        expiry: expirySeconds
      })
    ).body
  } catch (error) {
    const isLost = error instanceof ProviderUnavailable && !(error instanceof NothingSent) && error.fault === 'network'
    const [found] = isLost ? await invoicesOf(call, { label }) : []
    if (found === undefined) throw error
    body = found
  }
  return requireResponse(ClnInvoice, body)
}

async function invoicesOf(
  call: CallProvider,
  by: { readonly label: string } | { readonly payment_hash: string }
): Promise<readonly unknown[]> {
  return requireResponse(ClnInvoices, (await rpc(call, 'listinvoices', { ...by })).body).invoices
}

/** What the rune lacks to pay; null for nothing. Called without parameters, a permitted method rejects them. */
async function missingForRefunds(call: CallProvider, paymentHash: string): Promise<string | null> {
  const lacks = async (
    method: string,
    given: Readonly<Record<string, string>>
  ): Promise<{ readonly scope: string | null; readonly isThere: boolean }> => {
    try {
      const { status } = await rpc(call, method, given, [CLN_CODES.badParameters, CLN_CODES.noMethod])
      return { scope: null, isThere: status !== 404 }
    } catch (error) {
      if (error instanceof ProviderRefused && error.reason === 'scope') return { scope: error.scope, isThere: true }
      throw error
    }
  }
  const asking = await lacks('listpays', { payment_hash: paymentHash })
  const paying = await lacks('xpay', {})
  const older = paying.isThere ? null : await lacks('pay', {})
  const missing = [asking.scope, paying.scope, older?.scope ?? null].filter(scope => scope !== null)
  return missing.length === 0 ? null : missing.join(' and ')
}

interface ClnKey extends KeyedServer {
  readonly rune: Secret<string>
}

const form: AddressKeyForm<'ca' | 'rune'> = {
  kind: 'cln',
  example: 'clnrest://host:port?ca=<base64url>&rune=<rune>',
  schemes: { clnrest: 'https:', 'clnrest+https': 'https:', 'clnrest+http': 'http:' },
  hasPath: true,
  needsPort: true,
  required: ['rune'],
  optional: ['ca']
}

/** Name in every certificate of clnrest, which knows none but this and its host. */
const NAME = 'cln'

/**
 * Reads `clnrest://host:port?ca=…&rune=…`: `ca` is base64url of the node's ca.pem, omitted for a certificate of a
 * public authority. `clnrest+http://` is for a node without TLS.
 * @throws AddressKeyError
 */
export function readClnKey(text: string): ClnKey {
  const { origin, base, parameters } = readAddressKey(text, form)
  const { ca, rune = '' } = parameters
  const certificate = ca === undefined ? null : readKeyCertificate(ca, 'ca', 'cln', 'ca.pem').toString()
  return {
    origin,
    base,
    certificate,
    servername: certificate === null ? null : NAME,
    rune: new Secret(requireVisible(rune, 'rune', 'cln'))
  }
}

/** Core Lightning has no limits of its own: ours spare the node and our database. */
export const cln = addressKeyKind(readClnKey, {
  name: 'cln',
  hashesDescriptions: 'own',
  limits: { burst: 1_000, perMinute: 12_000 },
  // Each call returns one paid invoice.
  polling: { perMinute: 240, costs: { list: 10, lookUp: 1 } },
  scopes: [
    { scope: 'method=invoice', purpose: 'Make invoices' },
    { scope: 'method=listinvoices', purpose: 'See whether invoices were paid' },
    { scope: 'method=waitanyinvoice', purpose: 'Find what was paid' },
    { scope: 'method=getinfo', purpose: 'Check the key' },
    { scope: 'method=listpays', purpose: 'See what became of refunds' },
    { scope: 'method=xpay', purpose: 'Refunds' },
    { scope: 'method=pay', purpose: 'Refunds by nodes before 24.11' }
  ],
  about: 'your Core Lightning node',
  keyHint: form.example,
  open
})
