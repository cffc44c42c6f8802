import { accountLimits } from '../../provider-calls/budgets.ts'
import { LRUCache } from 'lru-cache'
import { Type } from 'typebox'
import { fitting, orNull, readResponse } from '../../../engine/formats/response-schema.ts'
import type { ReadonlyHeaders } from '../../../engine/message/headers.ts'
import { Secret } from '../../../platform/keys/secrets.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import {
  AddressKeyError,
  addressKeyFault,
  addressKeyHost,
  readAddressKey,
  type AddressKeyForm
} from '../../provider-calls/address-key.ts'
import { ProviderRefused, unusableResponse, Hash, requireResponse } from '../../provider-calls/errors.ts'
import {
  KeyedCalls,
  type KeyedCall,
  type KeyedKind,
  type KeyedOptions,
  type KeyedServer
} from '../../provider-calls/keyed-calls.ts'
import { lightningCharge, PAYMENT_HASH } from '../../provider-calls/lightning-charge.ts'
import { hasToken, parseNotification, receiverToken, requireSubject } from '../../provider-calls/notifications.ts'
import { payable, type LightningSend, type Sending, type SentPayment } from '../../provider-calls/pay-once.ts'
import type { CallProvider, ProviderResponse } from '../../provider-calls/provider-call.ts'
import type {
  Capabilities,
  Charge,
  ChargeRequest,
  ChargeState,
  KeyVerdict,
  Payout,
  PayoutRequest,
  Provider,
  ProviderNotification,
  SettledList,
  SettledSince
} from '../../provider-calls/provider.ts'
import { goodKey, KEY_CHECK, PayingProvider } from '../../provider-calls/wallet-provider.ts'
import {
  lnbitsMessage,
  lnbitsPayout,
  lnbitsState,
  LnbitsLookUp,
  LnbitsPage,
  LnbitsPayment,
  LnbitsWallet
} from './responses.ts'
import type { ProviderKind } from '../kind.ts'

interface LnbitsOptions extends KeyedOptions {
  receiver(): string | null
}

const capabilities: Capabilities = Object.freeze({
  onchain: false,
  hostedCheckout: false,
  // Webhooks are unsigned and sent once or twice, so polling stays authoritative.
  notifies: false,
  // Refuses a hash it has a payment for, whatever its outcome.
  payout: Object.freeze({ lightning: true, chain: false, once: true, mostFee: { sats: 2, percent: 1 } })
})

const ADMIN_KEY = 'Admin key'

const calls: KeyedKind<LnbitsKey> = {
  kind: 'lnbits',
  server: 'LNbits',
  read: readLnbitsKey,
  secretOf: ({ apiKey }) => apiKey,
  authorize: key => ({ 'x-api-key': key }),
  messageOf: lnbitsMessage,
  // LNbits returns 520 for every invoice and payment it refuses.
  refusals: [520],
  meaningOf,
  untrusted: {
    pinned: 'LNbits shows another TLS certificate than the one in the key.',
    public: 'No authority that is trusted here signed the TLS certificate of the LNbits.'
  }
}

const PAGE = 100
const MAX_PAGES = 5
/** Milliseconds without webhooks after an LNbits refused our receiver's address. */
const UNHEARD = 3_600_000
const BEFORE_SENDING =
  /you must reserve|insufficient balance|amountless invoices|invalid bolt11|bolt11|expired|not allowed|too (?:low|high|small|large)/i

interface Place {
  readonly asOf: number
  readonly offset: number
}

/**
 * One wallet of an LNbits instance. The key is its address with the invoice key, or the admin key for refunds; charge
 * ids are payment hashes (decision 116).
 *
 * Known gaps; tried at 1.6:
 * - LNbits discloses a paid invoice's preimage to anyone with its hash, so credentials also need the challenge;
 * - an invoice paid while LNbits was down and expired since stays failed there;
 * - only invoices show the instance's network;
 * - payments take no fee limit, reserve 1 %, and need an invoice with an amount.
 */
export class LnbitsProvider extends PayingProvider<KeyedCall<LnbitsKey>> implements Provider {
  readonly kind = 'lnbits'
  readonly capabilities = capabilities
  readonly #options: LnbitsOptions
  /** Origins that refuse our receiver, with the time of the next try. */
  readonly #unheard = new LRUCache<string, number>({ max: 1000 })

  constructor(options: LnbitsOptions) {
    super(new KeyedCalls(calls, options))
    this.#options = options
  }

  async lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    if (!PAYMENT_HASH.test(chargeId)) return null
    return await this.calls.within(key, async call => {
      const payment = await paymentOf(call, chargeId, 'in')
      return payment === null ? null : lnbitsState(payment)
    })
  }

  override async createPayout(key: Secret<string> | null, request: PayoutRequest): Promise<Payout> {
    const { destination } = request
    if (destination.type === 'ln' && payable(destination.invoice).isAmountless)
      throw new ProviderRefused(
        'request',
        'LNbits pays no Lightning invoice without an amount; ask the payer for one with an amount.'
      )
    return await super.createPayout(key, request)
  }

  /** Incoming payments by last change, newest first. A shifted page repeats entries, never skips. */
  async listSettled(key: Secret<string>, { since, position }: SettledSince): Promise<SettledList> {
    // Written by this file alone.
    const place = position === null ? null : (JSON.parse(position) as Place)
    const { asOf, offset: first } = place ?? { asOf: this.#options.clock.now(), offset: 0 }
    return await this.calls.within(key, async call => {
      const charges = []
      for (let offset = first; offset < first + MAX_PAGES * PAGE; offset += PAGE) {
        const page = await pageOf(
          call,
          `limit=${PAGE}&offset=${offset}&sortby=updated_at&direction=desc&status=success&amount%5Bgt%5D=0`
        )
        // Versions silently ignore filters they do not know.
        const settled = fitting(page).filter(({ amountMsat, status }) => amountMsat > 0 && status === 'success')
        for (const payment of settled)
          if ((payment.updatedAt ?? Infinity) >= since)
            charges.push({ chargeId: payment.paymentHash, state: lnbitsState(payment) })
        const isOlder = fitting(page).some(({ updatedAt }) => updatedAt !== null && updatedAt < since)
        if (page.length < PAGE || isOlder) return { charges, reach: 'whole', asOf, position: null }
      }
      const next: Place = { asOf, offset: first + MAX_PAGES * PAGE }
      return { charges, reach: 'more', asOf, position: JSON.stringify(next) }
    })
  }

  /** Unsigned: the callback address holds a token that names the payment. */
  readNotification(_headers: ReadonlyHeaders, body: Uint8Array, token: string | null): ProviderNotification {
    const event = parseNotification(Type.Object({ payment_hash: orNull(Hash) }), body)
    return {
      chargeId: requireSubject(event.payment_hash, 'payment'),
      verify: key => {
        const apiKey = apiKeyOf(key)
        return apiKey !== null && hasToken(token, apiKey)
      }
    }
  }

  protected async makeCharge(
    request: ChargeRequest,
    call: CallProvider,
    { origin, apiKey }: LnbitsKey
  ): Promise<Charge> {
    const receiver = (this.#unheard.get(origin) ?? 0) > this.#options.clock.now() ? null : this.#options.receiver()
    if (receiver === null) return await newInvoice(call, request, null)
    try {
      return await newInvoice(call, request, `${receiver}?token=${receiverToken(apiKey)}`)
    } catch (error) {
      if (!(error instanceof ProviderRefused && /callback url/i.test(error.message))) throw error
      this.#unheard.set(origin, this.#options.clock.now() + UNHEARD)
      return await newInvoice(call, request, null)
    }
  }

  protected async tryKey(call: CallProvider): Promise<KeyVerdict> {
    const { id } = requireResponse(LnbitsWallet, (await call({ method: 'GET', path: '/api/v1/wallet' })).body)
    const { network } = await newInvoice(call, KEY_CHECK, null)
    return goodKey('LNbits', network, id !== null ? null : `the ${ADMIN_KEY} of the wallet`)
  }

  protected async findPayment(invoice: string, call: CallProvider): Promise<SentPayment | null> {
    const payment = await paymentOf(call, payable(invoice).paymentHash, 'out')
    return payment === null ? null : lnbitsPayout(payment)
  }

  protected async sendPayment({ invoice }: LightningSend, call: CallProvider): Promise<Sending> {
    return await send(call, invoice)
  }
}

/** LNbits returns 404 for an unknown key and 403 for one that may not pay. */
function meaningOf({ status, said }: ProviderResponse): ProviderRefused | null {
  if (status === 404 && said !== null && /wallet not found/i.test(said))
    return new ProviderRefused(
      'key',
      `LNbits knows no wallet with this key: take the invoice key of one, or its ${ADMIN_KEY} if it is to refund.`
    )
  if (status === 403 && said !== null)
    return new ProviderRefused(
      'scope',
      `The key is an invoice key, which only receives: refunds need the ${ADMIN_KEY} of the wallet.`,
      ADMIN_KEY
    )
  return null
}

async function newInvoice(
  call: CallProvider,
  { amountSats, description, expirySeconds, hashed }: ChargeRequest,
  webhook: string | null
): Promise<Charge> {
  const response = await call({
    method: 'POST',
    path: '/api/v1/payments',
    body: {
      out: false,
      amount: amountSats,
      unit: 'sat',
      // Over Core Lightning it takes no hash without the text.
      ...(hashed === undefined
        ? { memo: shortDescription(description) }
        : { unhashed_description: Buffer.from(hashed.text).toString('hex') }),
      expiry: expirySeconds,
      ...(webhook === null ? {} : { webhook })
    }
  })
  const made = requireResponse(LnbitsPayment, response.body)
  if (made.invoice === null) throw unusableResponse('no invoice in the response')
  return lightningCharge(made.invoice, made.paymentHash, amountSats)
}

async function paymentOf(call: CallProvider, paymentHash: string, way: 'in' | 'out'): Promise<LnbitsPayment | null> {
  const response = await call({ method: 'GET', path: `/api/v1/payments/${paymentHash}`, accepts: [404] })
  if (response.status === 404) {
    if (response.said !== null && /does not exist/i.test(response.said)) return null
    throw unusableResponse('status 404 of something else')
  }
  const found = requireResponse(LnbitsLookUp, response.body)
  if (found === 'keyless') throw new ProviderRefused('key', 'LNbits no longer knows the key.')
  if (found.paymentHash !== paymentHash) throw unusableResponse('a payment of another hash')
  const isWanted = (payment: LnbitsPayment): boolean => payment.amountMsat > 0 === (way === 'in')
  if (isWanted(found)) return found
  // A wallet that pays its own invoice has both and returns the outgoing one.
  if (way === 'out') return null
  const page = await pageOf(call, `limit=10&payment_hash=${paymentHash}`)
  return page.find(payment => payment?.paymentHash === paymentHash && isWanted(payment)) ?? null
}

async function pageOf(call: CallProvider, query: string): Promise<ReadonlyArray<LnbitsPayment | null>> {
  const { body } = await call({ method: 'GET', path: `/api/v1/payments/paginated?${query}` })
  return requireResponse(LnbitsPage, body).data
}

async function send(call: CallProvider, invoice: string): Promise<Sending> {
  const response = await call({
    method: 'POST',
    path: '/api/v1/payments',
    body: { out: true, bolt11: invoice },
    scope: ADMIN_KEY,
    accepts: [400, 520]
  })
  if (response.status >= 400) {
    // A proxy may answer this way too.
    if (response.said === null) return { outcome: 'unclear', cause: unusableResponse(`status ${response.status}`) }
    return {
      outcome: 'refused',
      message: `LNbits did not pay: ${response.said}`,
      isBefore: response.status === 400 || BEFORE_SENDING.test(response.said)
    }
  }
  const payment = readResponse(LnbitsPayment, response.body)
  if (payment?.paymentHash !== payable(invoice).paymentHash || payment.amountMsat >= 0)
    return { outcome: 'unclear', cause: unusableResponse('no outcome of a payment') }
  return payment.status === 'failed'
    ? { outcome: 'refused', message: 'LNbits could not pay the Lightning invoice.', isBefore: false }
    : { outcome: 'sent', payment: lnbitsPayout(payment) }
}

function apiKeyOf(key: Secret<string>): Secret<string> | null {
  try {
    return readLnbitsKey(key.reveal().trim()).apiKey
  } catch (error) {
    if (error instanceof AddressKeyError) return null
    throw error
  }
}

interface LnbitsKey extends KeyedServer {
  /** The wallet's invoice or admin key: 32 hex characters. */
  readonly apiKey: Secret<string>
}

const form: AddressKeyForm<'key'> = {
  kind: 'lnbits',
  example: 'lnbits+https://host/path?key=<invoice or admin key>',
  schemes: { 'lnbits+https': 'https:', 'lnbits+http': 'http:' },
  hasPath: true,
  needsPort: false,
  required: ['key'],
  optional: []
}

/**
 * Reads `lnbits+https://host/path?key=…`, or `lnbits+http://…` without TLS.
 * @throws AddressKeyError
 */
export function readLnbitsKey(text: string): LnbitsKey {
  const { origin, base, parameters } = readAddressKey(text, form)
  const { key = '' } = parameters
  if (!/^[0-9a-f]{32}$/i.test(key))
    throw new AddressKeyError(
      'key in the lnbits key is not 32 hex characters; it must be the invoice key or the admin key of the wallet.'
    )
  return { origin, base, certificate: null, servername: null, apiKey: new Secret(key) }
}

/** By default an instance takes 200 calls a minute from one address. */
export const lnbits: ProviderKind = {
  name: 'lnbits',
  isSandbox: false,
  calls: {
    address: null,
    counted: 'key',
    limits: accountLimits({ burst: 40, perMinute: 150 }),
    polling: () => ({ perMinute: 30, isShared: false, costs: { list: 1, lookUp: 1 } }),
    hostOf: addressKeyHost('lnbits', readLnbitsKey)
  },
  scopes: [
    { scope: 'Invoice/read key', purpose: 'Make invoices, and see whether they were paid' },
    { scope: 'Admin key', purpose: 'Refunds; it may do the other things too' }
  ],
  wantsAmounts: true,
  hashesDescriptions: 'shared',
  keyHint: form.example,
  keyFault: addressKeyFault(readLnbitsKey),
  open: options => new LnbitsProvider(options)
}
