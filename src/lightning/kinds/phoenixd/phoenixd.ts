import { accountLimits } from '../../provider-calls/budgets.ts'
import { Type } from 'typebox'
import { jsonOrUndefined } from '../../../engine/formats/json-reader.ts'
import { orNull, readResponse } from '../../../engine/formats/response-schema.ts'
import type { ReadonlyHeaders } from '../../../engine/message/headers.ts'
import { Secret } from '../../../platform/keys/secrets.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import {
  AddressKeyError,
  addressKeyFault,
  addressKeyHost,
  readAddressKey,
  requireVisible,
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
import { lightningCharge, PAYMENT_HASH, agreedNetwork } from '../../provider-calls/lightning-charge.ts'
import { isSigned, parseNotification, requireSubject } from '../../provider-calls/notifications.ts'
import {
  payable,
  sentPayment,
  type LightningSend,
  type Sending,
  type SentPayment
} from '../../provider-calls/pay-once.ts'
import type { CallProvider, ProviderResponse } from '../../provider-calls/provider-call.ts'
import type {
  Capabilities,
  Charge,
  ChargeRequest,
  ChargeState,
  KeyVerdict,
  Provider,
  ProviderNotification,
  SettledCharge,
  SettledList,
  SettledSince
} from '../../provider-calls/provider.ts'
import { goodKey, KEY_CHECK, PayingProvider } from '../../provider-calls/wallet-provider.ts'
import {
  PhoenixdIncoming,
  PhoenixdInfo,
  PhoenixdInvoice,
  PhoenixdPage,
  readOutgoing,
  readPayResponse
} from './responses.ts'
import type { ProviderKind } from '../kind.ts'

export interface PhoenixdOptions extends KeyedOptions {
  /** Public address of our receiver; null where it is unreachable. */
  receiver(): string | null
}

const capabilities: Capabilities = Object.freeze({
  onchain: false,
  hostedCheckout: false,
  // Sent once, and only usable with the secret in the key, so polling stays authoritative.
  notifies: false,
  // Checks its database first and refuses a paid or pending hash.
  payout: Object.freeze({ lightning: true, chain: false, once: true, mostFee: { sats: 4, percent: 0.4 } })
})

const calls: KeyedKind<PhoenixdKey> = {
  kind: 'phoenixd',
  server: 'phoenixd',
  read: readPhoenixdKey,
  secretOf: ({ password }) => password,
  // Any user name works.
  authorize: password => ({ authorization: `Basic ${Buffer.from(`:${password}`).toString('base64')}` }),
  messageOf: body => (typeof body === 'string' ? body : null),
  hasTexts: true,
  meaningOf: ({ status }, scope) =>
    status !== 401
      ? null
      : scope === null
        ? new ProviderRefused(
            'key',
            `phoenixd does not accept the password in the key: take http-password-limited-access of its phoenix.conf, or ${FULL_PASSWORD}, which refunds need.`
          )
        : new ProviderRefused(
            'scope',
            `The phoenixd key has the password with limited access, which cannot pay: refunds need ${scope}.`,
            scope
          ),
  untrusted: {
    pinned: 'phoenixd shows another TLS certificate than the one in the key.',
    public: 'No authority that is trusted here signed the TLS certificate in front of phoenixd.'
  }
}

const FULL_PASSWORD = 'http-password'
/** An earlier call verified the password. */
const PAY = { method: 'POST', path: '/payinvoice', scope: FULL_PASSWORD, accepts: [400] } as const
const MAX_DESCRIPTION = 128
const PAGE = 100
const MAX_PAGES = 5
const BEFORE_SENDING = /not enough funds|no (available|suitable) channels?|invoice (is|has) expired|wrong chain/i

const PhoenixdEvent = Type.Object({ type: Type.Unknown(), paymentHash: orNull(Hash) })

/** Position within a fixed time range: newer payments would shift its pages. */
interface Place {
  readonly from: number
  readonly to: number
  readonly offset: number
}

/**
 * phoenixd, ACINQ's server node, over HTTP. The key is its address with its password; charge ids are payment hashes
 * (decision 116). The limited password receives; refunds need the full one.
 *
 * Known gaps; read in phoenixd's source at 0.8, never tried:
 * - payments take no fee limit; its price is 4 sat and 0.4 %;
 * - an invoice stays unpaid, without a reason, if its payment needs a channel that costs more than the owner allows;
 * - on-chain payments carry no reference to find them by, so there are none.
 */
export class PhoenixdProvider extends PayingProvider<KeyedCall<PhoenixdKey>> implements Provider {
  readonly kind = 'phoenixd'
  readonly capabilities = capabilities
  readonly #options: PhoenixdOptions
  readonly #keyed: KeyedCalls<PhoenixdKey>

  constructor(options: PhoenixdOptions) {
    const keyed = new KeyedCalls(calls, options)
    super(keyed)
    this.#keyed = keyed
    this.#options = options
  }

  async lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    if (!PAYMENT_HASH.test(chargeId)) return null
    return await this.calls.within(key, async call => {
      const response = await call({ method: 'GET', path: `/payments/incoming/${chargeId}`, accepts: [404] })
      if (isUnknown(response)) return null
      const payment = requireResponse(PhoenixdIncoming, response.body)
      if (payment.paymentHash !== chargeId) throw unusableResponse('a payment of another hash')
      return payment.state
    })
  }

  /** Payments by time of receipt, newest first. */
  async listSettled(key: Secret<string>, { since, position }: SettledSince): Promise<SettledList> {
    // Written by this file alone.
    const place = position === null ? null : (JSON.parse(position) as Place)
    const { from, to, offset: first } = place ?? { from: since, to: this.#options.clock.now(), offset: 0 }
    return await this.calls.within(key, async call => {
      const charges = []
      for (let offset = first; offset < first + MAX_PAGES * PAGE; offset += PAGE) {
        const path = `/payments/incoming?from=${from}&to=${to}&limit=${PAGE}&offset=${offset}`
        const page = requireResponse(PhoenixdPage, (await call({ method: 'GET', path })).body)
        for (const payment of page)
          if (payment?.state.status === 'paid') charges.push({ chargeId: payment.paymentHash, state: payment.state })
        if (page.length < PAGE) return { charges, reach: 'whole', asOf: to, position: null }
      }
      const next: Place = { from, to, offset: first + MAX_PAGES * PAGE }
      return { charges, reach: 'more', asOf: to, position: JSON.stringify(next) }
    })
  }

  /** phoenixd's WebSocket, with its webhook's events. Their amounts are after fees, so each is looked up. */
  async follow(key: Secret<string>, signal: AbortSignal, settled: (charge: SettledCharge) => void): Promise<void> {
    await this.#keyed.follow(key, signal, ({ messages }) =>
      messages('/websocket', text => {
        const event = readResponse(PhoenixdEvent, jsonOrUndefined(text))
        const chargeId = event?.paymentHash ?? null
        if (event?.type === 'payment_received' && chargeId !== null) settled({ chargeId, state: null })
      })
    )
  }

  /** Signed with HMAC-SHA256 over the bytes by phoenixd's webhook secret, held in the key. */
  readNotification(headers: ReadonlyHeaders, body: Uint8Array): ProviderNotification | null {
    const { type, paymentHash } = parseNotification(PhoenixdEvent, body)
    if (type !== 'payment_received') return null
    const signature = headers.get('x-phoenix-signature')?.trim() ?? ''
    return {
      chargeId: requireSubject(paymentHash, 'payment'),
      verify: key => {
        const secret = webhookSecretOf(key)
        return secret !== null && isSigned(body, signature, secret)
      }
    }
  }

  protected async makeCharge(
    request: ChargeRequest,
    call: CallProvider,
    { webhookSecret }: PhoenixdKey
  ): Promise<Charge> {
    return await newInvoice(call, request, webhookSecret === null ? null : this.#options.receiver())
  }

  /** Reads the node's info, makes an invoice, and tries an empty payment. */
  protected async tryKey(call: CallProvider): Promise<KeyVerdict> {
    const info = requireResponse(PhoenixdInfo, (await call({ method: 'GET', path: '/getinfo' })).body)
    const { network } = await newInvoice(call, KEY_CHECK, null)
    const lacksPaying = await call({ ...PAY, form: {} }).then(
      () => false,
      (error: unknown) => {
        if (error instanceof ProviderRefused && error.reason === 'scope') return true
        throw error
      }
    )
    return goodKey(
      'phoenixd',
      agreedNetwork(info.chain, network),
      lacksPaying ? `the password with full access, ${FULL_PASSWORD}` : null,
      info.channels === null || info.channels.length === 0
        ? ['It has no channel yet: its first payments pay for one, or stay as fee credit, which cannot be paid out.']
        : []
    )
  }

  protected async findPayment(invoice: string, call: CallProvider): Promise<SentPayment | null> {
    const { paymentHash } = payable(invoice)
    const response = await call({ method: 'GET', path: `/payments/outgoingbyhash/${paymentHash}`, accepts: [404] })
    if (isUnknown(response)) return null
    const payment = readOutgoing(response.body, paymentHash)
    if (payment === null) throw unusableResponse('a payment without hash or state')
    return payment
  }

  protected async sendPayment({ invoice, amountSats }: LightningSend, call: CallProvider): Promise<Sending> {
    const { paymentHash, isAmountless } = payable(invoice)
    // It takes this amount instead of the invoice's own.
    const form = { invoice, ...(isAmountless ? { amountSat: String(amountSats) } : {}) }
    const response = await call({ ...PAY, form })
    if (response.status === 400)
      return { outcome: 'refused', message: refusal(response.said ?? 'a bad request'), isBefore: true }
    const paid = readPayResponse(response.body, paymentHash)
    if (paid === null) return { outcome: 'unclear', cause: unusableResponse('no outcome of a payment') }
    if ('failure' in paid)
      return { outcome: 'refused', message: refusal(paid.failure), isBefore: BEFORE_SENDING.test(paid.failure) }
    const { payoutId, feeSats } = paid
    const now = this.#options.clock.now()
    return { outcome: 'sent', payment: sentPayment(payoutId, 'confirmed', feeSats, now, 'phoenixd') }
  }
}

function refusal(said: string): string {
  return `phoenixd did not pay: ${shortDescription(said.replace(/[\p{C}\p{Z}]+/gu, ' ').trim(), 200)}`
}

async function newInvoice(
  call: CallProvider,
  { amountSats, description, expirySeconds, hashed }: ChargeRequest,
  webhookUrl: string | null
): Promise<Charge> {
  const response = await call({
    method: 'POST',
    path: '/createinvoice',
    form: {
      amountSat: String(amountSats),
      ...(hashed === undefined
        ? { description: shortDescription(description, MAX_DESCRIPTION) }
        : { descriptionHash: hashed.hash }),
      expirySeconds: String(expirySeconds),
      ...(webhookUrl === null ? {} : { webhookUrl })
    }
  })
  const { serialized, paymentHash } = requireResponse(PhoenixdInvoice, response.body)
  return lightningCharge(serialized, paymentHash, amountSats)
}

/**
 * Whether phoenixd reports an unknown payment.
 * @throws ProviderUnavailable for another 404
 */
function isUnknown({ status, body }: ProviderResponse): boolean {
  if (status !== 404) return false
  if (typeof body === 'string' && /^not found\s*$/i.test(body)) return true
  throw unusableResponse('status 404 of something else')
}

function webhookSecretOf(key: Secret<string>): Secret<string> | null {
  try {
    return readPhoenixdKey(key.reveal().trim()).webhookSecret
  } catch (error) {
    if (error instanceof AddressKeyError) return null
    throw error
  }
}

interface PhoenixdKey extends KeyedServer {
  /** `http-password`, or the limited one. */
  readonly password: Secret<string>
  /** phoenixd's `webhook-secret`, which signs webhooks; null where absent. */
  readonly webhookSecret: Secret<string> | null
}

const form: AddressKeyForm<'password' | 'webhook'> = {
  kind: 'phoenixd',
  example: 'phoenixd://host:port?password=<http-password>&webhook=<webhook-secret>',
  // phoenixd has no TLS; a proxy may.
  schemes: { phoenixd: 'http:', 'phoenixd+http': 'http:', 'phoenixd+https': 'https:' },
  hasPath: true,
  needsPort: true,
  required: ['password'],
  optional: ['webhook']
}

/**
 * Reads `phoenixd://host:port?password=…&webhook=…`, or `phoenixd+https://…` behind TLS; `webhook` is optional.
 * @throws AddressKeyError
 */
export function readPhoenixdKey(text: string): PhoenixdKey {
  const { origin, base, parameters } = readAddressKey(text, form)
  const { password = '', webhook } = parameters
  return {
    origin,
    base,
    certificate: null,
    servername: null,
    password: new Secret(requireVisible(password, 'password', 'phoenixd')),
    webhookSecret: webhook === undefined ? null : new Secret(requireVisible(webhook, 'webhook', 'phoenixd'))
  }
}

/** phoenixd has no limits: ours spare it and our database. */
export const phoenixd: ProviderKind = {
  name: 'phoenixd',
  isSandbox: false,
  hashesDescriptions: 'own',
  calls: {
    address: null,
    counted: 'key',
    limits: accountLimits({ burst: 500, perMinute: 6_000 }),
    polling: () => ({ perMinute: 60, isShared: false, costs: { list: 2, lookUp: 1 } }),
    hostOf: addressKeyHost('phoenixd', readPhoenixdKey)
  },
  scopes: [
    { scope: 'http-password-limited-access', purpose: 'Make invoices, and see whether they were paid' },
    { scope: 'http-password', purpose: 'Refunds; it may do the other things too' }
  ],
  keyHint: form.example,
  keyFault: addressKeyFault(readPhoenixdKey),
  open: options => new PhoenixdProvider(options)
}
