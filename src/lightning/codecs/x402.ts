/**
 * x402 v2, scheme `exact` on `lnbtc` (x402-foundation/x402, scheme_exact_lnbtc.md): the binding of an invoice to its
 * request, the requirements of a 402 and the checks of a settlement.
 */
import { jsonOrUndefined } from '../../platform/system/json.ts'
import { decodeInvoice, InvoiceError, type Invoice, type InvoiceNetwork } from './bolt11.ts'
import { isHex32, preimageMatches, sha256 } from './hmac.ts'
import { canonicalize, type JcsValue } from '../payment-scheme/jcs.ts'
import { asObject, type JsonFields } from '../payment-scheme/payment-credential.ts'

/** Genesis blocks, as in BIP 122. The specification names the first two only; tests and the sandbox need the others. */
const NETWORKS: Readonly<Record<InvoiceNetwork, string>> = Object.freeze({
  mainnet: 'lnbtc:000000000019d6689c085ae165831e93',
  testnet: 'lnbtc:000000000933ea01ad0ee984209779ba',
  signet: 'lnbtc:00000008819873e925422c1ff0f99f7c',
  regtest: 'lnbtc:0f9188f13cb7b2c71f2a335e3a4fc328'
})

const LIGHTNING = 'lightning'
/** Allowed clock difference in seconds, also between an invoice's end and its settlement. */
const SKEW = 60
/** Maximum characters of a credential: an invoice and little else. */
const MAX_CHARS = 16_384

/** What an invoice is bound to: its description hash is the `requestHash`. */
export interface RequestBinding {
  /** Of the resource. */
  readonly url: string
  readonly profile: 'http:1' | 'mcp:1'
  /** What the client must know to compute the hash. */
  readonly params: { readonly [name: string]: JcsValue }
  /** Canonical JSON, whose digest is `requestHash`. */
  readonly description: string
  readonly requestHash: string
}

interface BoundRequest {
  readonly method: string
  /** Absolute, with the query byte for byte. */
  readonly url: string
  /** SHA-256 of the body in hex; of nothing for none. */
  readonly bodyHash: string
  /** Sorted names with their values; null for an absent one. */
  readonly headers: ReadonlyArray<readonly [name: string, value: string | null]>
}

export const EMPTY_BODY_HASH = sha256(new Uint8Array()).toString('hex')

/** Binds to one HTTP request, by the profile `http:1`. */
export function httpBinding({ method, url, bodyHash, headers }: BoundRequest): RequestBinding {
  const bound = headers.map(([name, value]) => ({
    name,
    valueHash: sha256(value === null ? Buffer.of(0) : Buffer.from(`\x01${value}`, 'latin1')).toString('hex')
  }))
  const description = canonicalize({ bodyHash, domain: 'x402:exact:lnbtc:bolt11:http:1', headers: bound, method, url })
  return bindingOf('http:1', url, { headers: headers.map(([name]) => name) }, description)
}

interface BoundCall {
  /** Public address of the MCP endpoint. */
  readonly server: string
  readonly name: string
  /** Canonical JSON of the arguments. */
  readonly argumentsText: string
}

export function mcpBinding({ server, name, argumentsText }: BoundCall): RequestBinding {
  const rest = canonicalize({
    domain: 'x402:exact:lnbtc:bolt11:mcp:1',
    metadata: [],
    method: 'tools/call',
    name,
    server
  })
  const description = `{"arguments":${argumentsText},${rest.slice(1)}`
  return bindingOf('mcp:1', `mcp://tool/${encodeURIComponent(name)}`, { metadata: [], server }, description)
}

function bindingOf(
  profile: RequestBinding['profile'],
  url: string,
  params: RequestBinding['params'],
  description: string
): RequestBinding {
  return { url, profile, params, description, requestHash: sha256(Buffer.from(description)).toString('hex') }
}

export function requirementsOf(invoice: Invoice, { params, profile, requestHash }: RequestBinding) {
  return {
    scheme: 'exact',
    network: NETWORKS[invoice.network],
    amount: String(invoice.amountMsat),
    asset: 'BTC',
    payTo: invoice.payee,
    maxTimeoutSeconds: invoice.expirySeconds,
    extra: {
      assetTransferMethod: 'bolt11',
      paymentFlow: 'upfront',
      requestHash,
      requestBindingProfile: profile,
      requestBindingParams: params,
      // Clients of the older dialect look for it.
      ...(profile === 'http:1' ? { paymentMethod: LIGHTNING } : {}),
      invoice: invoice.text
    }
  }
}

type Requirements = ReturnType<typeof requirementsOf>

/** PaymentRequired. Recovers the node's key from the signature, which takes a third of a millisecond. */
export function exactRequired(invoice: string, binding: RequestBinding, error: string | null): object {
  const accepts = [requirementsOf(decodeInvoice(invoice), binding)]
  return { x402Version: 2, ...(error === null ? {} : { error }), resource: { url: binding.url }, accepts }
}

export function settlement(paymentHash: string, network: string): object {
  return { success: true, transaction: paymentHash, network }
}

export function refusedSettlement(errorReason: string, invoice: string): object {
  const { network } = decodeInvoice(invoice, { signature: 'none' })
  return { success: false, errorReason, transaction: '', network: NETWORKS[network] }
}

/** As in PAYMENT-REQUIRED and PAYMENT-RESPONSE. */
export function x402Header(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64')
}

/** A readable credential; untrusted until `settlementFault` finds nothing. */
export interface ExactCredential {
  readonly accepted: JsonFields
  readonly extra: JsonFields
  /** The invoice that the client says it paid; empty for none. */
  readonly invoice: string
  readonly preimage: unknown
  /**
   * Of the older dialect (Alby's lightning-tools), which names the invoice again instead of a preimage: proves no
   * payment.
   */
  readonly isUnproven: boolean
}

/** Reads PAYMENT-SIGNATURE; a string is the `errorReason` of a refusal. */
export function readExactCredential(value: string): ExactCredential | string {
  const text = value.trim()
  if (text.length > MAX_CHARS || !/^[A-Za-z0-9+/_-]+={0,2}$/.test(text)) return 'invalid_payload'
  return exactCredential(jsonOrUndefined(Buffer.from(text, 'base64')))
}

/** Reads PaymentPayload; a string is the `errorReason` of a refusal. */
export function exactCredential(value: unknown): ExactCredential | string {
  const parsed = asObject(value)
  const accepted = asObject(parsed?.['accepted'])
  if (parsed === null || accepted === null) return 'invalid_payload'
  if (parsed['x402Version'] !== 2) return 'invalid_x402_version'
  const extra = asObject(accepted['extra']) ?? {}
  const invoice = typeof extra['invoice'] === 'string' ? extra['invoice'] : ''
  const payload = asObject(parsed['payload']) ?? {}
  const isOlder = extra['paymentMethod'] === LIGHTNING && payload['invoice'] === invoice
  return {
    accepted,
    extra,
    invoice,
    preimage: payload['preimage'],
    isUnproven: isOlder && payload['preimage'] === undefined
  }
}

const PREFIX = 'invalid_exact_lnbtc_'
/** Compared member by member, in the specification's order, each with its reason. */
const CORE = [
  ['scheme', 'unsupported_scheme'],
  ['network', 'network_mismatch'],
  ['amount', `${PREFIX}amount_mismatch`],
  ['asset', `${PREFIX}asset`],
  ['payTo', `${PREFIX}pay_to_mismatch`],
  ['maxTimeoutSeconds', `${PREFIX}max_timeout_mismatch`]
] as const

/**
 * The `errorReason` of a credential that does not settle these requirements; null if it does, but for the payment of an
 * unproven one. They are of the request that will run, never of the echo. `now` in Unix seconds.
 */
export function settlementFault(
  { accepted, extra, invoice, preimage, isUnproven }: ExactCredential,
  wanted: Requirements,
  now: number
): string | null {
  for (const [name, reason] of CORE) if (accepted[name] !== wanted[name]) return reason
  const { assetTransferMethod, paymentFlow, requestHash, requestBindingProfile, requestBindingParams } = extra
  if (assetTransferMethod !== undefined && assetTransferMethod !== 'bolt11') return `${PREFIX}asset_transfer_method`
  if (paymentFlow !== 'upfront') return `${PREFIX}payment_flow`
  if (!isRequestHash(requestHash) || !isOfProfile(requestBindingProfile, requestBindingParams))
    return `${PREFIX}request_binding`
  const mine = wanted.extra
  if (
    requestHash !== mine.requestHash ||
    requestBindingProfile !== mine.requestBindingProfile ||
    // It was read from JSON.
    canonicalize(requestBindingParams as JcsValue) !== canonicalize(mine.requestBindingParams)
  )
    return `${PREFIX}request_mismatch`
  if (mine.paymentMethod !== undefined && extra['paymentMethod'] !== mine.paymentMethod)
    return `${PREFIX}extra_mismatch`
  return (
    invoiceFault(invoice, wanted, now) ??
    (isUnproven ? null : preimageFault(invoice, preimage)) ??
    expiryFault(invoice, now)
  )
}

function isRequestHash(value: unknown): value is string {
  return typeof value === 'string' && isHex32(value)
}

/** An absolute URI in ASCII, without user information or a fragment. */
const SERVER = /^[a-z][a-z0-9+.-]*:(?!\/\/[^/?]*@)[!-"$-~]+$/i

function isOfProfile(profile: unknown, value: unknown): boolean {
  const params = asObject(value)
  if (params === null) return false
  const names = Object.keys(params).sort().join()
  if (profile === 'http:1')
    return names === 'headers' && isSortedList(params['headers'], /^[a-z0-9!#$%&'*+.^_`|~-]+$/, ['payment-signature'])
  return (
    profile === 'mcp:1' &&
    names === 'metadata,server' &&
    typeof params['server'] === 'string' &&
    SERVER.test(params['server']) &&
    isSortedList(params['metadata'], /^\P{Cs}+$/u, ['x402/payment', 'progressToken'])
  )
}

function isSortedList(value: unknown, form: RegExp, forbidden: readonly string[]): boolean {
  if (!Array.isArray(value)) return false
  const list: readonly unknown[] = value
  return list.every((name, at) => {
    const before = list[at - 1]
    return (
      typeof name === 'string' &&
      form.test(name) &&
      !forbidden.includes(name) &&
      (typeof before !== 'string' || before < name)
    )
  })
}

function invoiceFault(text: string, wanted: Requirements, now: number): string | null {
  if (text === '') return `${PREFIX}invoice_missing`
  let invoice: Invoice
  try {
    invoice = decodeInvoice(text)
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
    return error.code === 'description' ? `${PREFIX}invoice_description` : `${PREFIX}invoice_decode_failed`
  }
  if (invoice.descriptionHash === null) return `${PREFIX}invoice_description`
  if (invoice.descriptionHash !== wanted.extra.requestHash) return `${PREFIX}invoice_request_mismatch`
  if (invoice.payee !== wanted.payTo) return `${PREFIX}invoice_payee_mismatch`
  if (NETWORKS[invoice.network] !== wanted.network) return `${PREFIX}invoice_currency_mismatch`
  if (String(invoice.amountMsat) !== wanted.amount) return `${PREFIX}invoice_amount_mismatch`
  if (invoice.expirySeconds !== wanted.maxTimeoutSeconds) return `${PREFIX}invoice_expiry_mismatch`
  return invoice.timestamp > now + SKEW ? `${PREFIX}invoice_created_in_future` : null
}

function preimageFault(invoice: string, preimage: unknown): string | null {
  if (typeof preimage !== 'string') return `${PREFIX}preimage_missing`
  if (!/^[0-9a-f]*$/.test(preimage)) return `${PREFIX}preimage_malformed`
  if (preimage.length !== 64) return `${PREFIX}preimage_length`
  const { paymentHash } = decodeInvoice(invoice, { signature: 'none' })
  return preimageMatches(preimage, paymentHash) ? null : `${PREFIX}preimage_hash_mismatch`
}

/** A payment that completed just before its invoice's end is still good for a minute. */
function expiryFault(invoice: string, now: number): string | null {
  return now > decodeInvoice(invoice, { signature: 'none' }).expiresAt + SKEW ? `${PREFIX}invoice_expired` : null
}
