import { createHmac } from 'node:crypto'
import type { ReadonlyHeaders } from '../../../engine/message/headers.ts'
import { equalBytes } from '../../../platform/keys/constant-time.ts'
import type { Secret } from '../../../platform/keys/secrets.ts'
import { shortDescription } from '../../codecs/bolt11.ts'
import { AddressKeyError } from '../../provider-calls/address-key.ts'
import { ProviderNotificationError, ProviderRefused } from '../../provider-calls/errors.ts'
import { jsonHash, jsonMembers, parsed } from '../../provider-calls/json-members.ts'
import { KeyedCalls, type KeyedCall, type KeyedKind, type KeyedOptions } from '../../provider-calls/keyed-calls.ts'
import { lightningCharge, PAYMENT_HASH } from '../../provider-calls/lightning-charge.ts'
import { agreedNetwork } from '../../provider-calls/network.ts'
import { readNotificationJson } from '../../provider-calls/notification-json.ts'
import { payable, type LightningSend, type Sending, type SentPayment } from '../../provider-calls/pay-once.ts'
import { unusableAnswer, type CallProvider, type ProviderAnswer } from '../../provider-calls/provider-call.ts'
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
} from '../../providers/provider.ts'
import { goodKey, KEY_CHECK, PayingProvider } from '../../provider-calls/wallet-provider.ts'
import {
  readIncoming,
  readIncomingPage,
  readOutgoing,
  readPayAnswer,
  readPhoenixdInfo,
  readPhoenixdInvoice
} from './answers.ts'
import { readPhoenixdKey, type PhoenixdKey } from './key.ts'

/** What the kind needs. */
export interface PhoenixdOptions extends KeyedOptions {
  /** Public address of our receiver; null where nobody could reach it. */
  receiver(): string | null
}

const capabilities: Capabilities = Object.freeze({
  onchain: false,
  hostedCheckout: false,
  // Its webhook is sent once and comes only with the secret in the key: it makes news quicker, and does not replace
  // asking.
  notifies: false,
  // It looks into its database before it pays, and refuses a hash that was paid or is under way.
  payout: Object.freeze({ lightning: true, chain: false, once: true, mostFee: { sats: 4, percent: 0.4 } })
})

const calls: KeyedKind<PhoenixdKey> = {
  kind: 'phoenixd',
  server: 'phoenixd',
  read: readPhoenixdKey,
  secretOf: ({ password }) => password,
  // Any user name is good.
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
/** A call before has shown that the password is good. */
const PAY = { method: 'POST', path: '/payinvoice', scope: FULL_PASSWORD, answers: [400] } as const
/** Characters of a description. */
const MAX_DESCRIPTION = 128
/** Payments of one page, and pages of one call. */
const PAGE = 100
const MAX_PAGES = 5
/** What phoenixd finds before it sends anything. */
const BEFORE_SENDING = /not enough funds|no (available|suitable) channels?|invoice (is|has) expired|wrong chain/i

/** Where a listing was left, which goes on over the same span of time: newer payments would move its pages. */
interface Place {
  readonly from: number
  readonly to: number
  readonly offset: number
}

/**
 * phoenixd, ACINQ's node for servers, by its HTTP API. The key is its address with its password; the id of
 * a charge is its payment hash (decision 116). The limited password is enough to receive; refunds need the full one.
 *
 * Known gaps; the API was read in phoenixd's source at 0.8, and no server was tried:
 * - it takes no limit for the fee of a payment, which is its own price of 4 sat and 0.4 %;
 * - an invoice whose payment would cost more for a channel than its owner allows stays unpaid, and nothing says why;
 * - it pays on chain without any reference by which a payout could be found again, so that we do not.
 */
export class PhoenixdProvider extends PayingProvider<KeyedCall<PhoenixdKey>> implements Provider {
  readonly kind = 'phoenixd'
  readonly capabilities = capabilities
  readonly #options: PhoenixdOptions
  readonly #keyed: KeyedCalls<PhoenixdKey>

  /** @throws AddressKeyError for an operator's key that is none */
  constructor(options: PhoenixdOptions) {
    const keyed = new KeyedCalls(calls, options)
    super(keyed)
    this.#keyed = keyed
    this.#options = options
  }

  async lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    if (!PAYMENT_HASH.test(chargeId)) return null
    return await this.calls.within(key, async call => {
      const answer = await call({ method: 'GET', path: `/payments/incoming/${chargeId}`, answers: [404] })
      if (isUnknown(answer)) return null
      const payment = readIncoming(answer.body)
      if (payment === null || payment.paymentHash !== chargeId) throw unusableAnswer('a payment without hash or state')
      return payment.state
    })
  }

  /** Payments by the time at which they came in, newest first. */
  async listSettled(key: Secret<string>, { since, position }: SettledSince): Promise<SettledList> {
    // Written by this file alone.
    const place = position === null ? null : (JSON.parse(position) as Place)
    const { from, to, offset: first } = place ?? { from: since, to: this.#options.clock.now(), offset: 0 }
    return await this.calls.within(key, async call => {
      const charges = []
      for (let offset = first; offset < first + MAX_PAGES * PAGE; offset += PAGE) {
        const path = `/payments/incoming?from=${from}&to=${to}&limit=${PAGE}&offset=${offset}`
        const page = readIncomingPage((await call({ method: 'GET', path })).body)
        if (page === null) throw unusableAnswer('no list of payments')
        for (const { paymentHash, state } of page.payments)
          if (state.status === 'paid') charges.push({ chargeId: paymentHash, state })
        if (page.count < PAGE) return { charges, reach: 'whole', asOf: to, position: null }
      }
      const next: Place = { from, to, offset: first + MAX_PAGES * PAGE }
      return { charges, reach: 'more', asOf: to, position: JSON.stringify(next) }
    })
  }

  /** phoenixd's WebSocket, whose events are those of its webhook. They show what is left after fees, so that each is looked up. */
  async follow(key: Secret<string>, signal: AbortSignal, settled: (charge: SettledCharge) => void): Promise<void> {
    await this.#keyed.follow(key, signal, ({ messages }) =>
      messages('/websocket', text => {
        const event = jsonMembers(parsed(text))
        const chargeId = jsonHash(event?.['paymentHash'])
        if (event?.['type'] === 'payment_received' && chargeId !== null) settled({ chargeId, state: null })
      })
    )
  }

  /** Signed with HMAC-SHA256 over the bytes by phoenixd's own webhook secret, which the key carries. */
  readNotification(headers: ReadonlyHeaders, body: Uint8Array): ProviderNotification | null {
    const event = readNotificationJson(body)
    if (event['type'] !== 'payment_received') return null
    const chargeId = jsonHash(event['paymentHash'])
    if (chargeId === null) throw new ProviderNotificationError('The event does not say which payment it is about.')
    const signature = headers.get('x-phoenix-signature')?.trim() ?? ''
    return {
      chargeId,
      verify: key => {
        const secret = webhookSecretOf(key)
        return (
          secret !== null &&
          /^[0-9a-f]{64}$/i.test(signature) &&
          equalBytes(Buffer.from(signature, 'hex'), createHmac('sha256', secret.reveal()).update(body).digest())
        )
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

  /** Reads the node's info, makes an invoice, and asks for a payment of nothing. */
  protected async tryKey(call: CallProvider): Promise<KeyVerdict> {
    const info = readPhoenixdInfo((await call({ method: 'GET', path: '/getinfo' })).body)
    if (info === null) throw unusableAnswer('no info of a node')
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
      info.channels === 0
        ? ['It has no channel yet: its first payments pay for one, or stay as fee credit, which cannot be paid out.']
        : []
    )
  }

  protected async findPayment(invoice: string, call: CallProvider): Promise<SentPayment | null> {
    const { paymentHash } = payable(invoice)
    const answer = await call({ method: 'GET', path: `/payments/outgoingbyhash/${paymentHash}`, answers: [404] })
    if (isUnknown(answer)) return null
    const payment = readOutgoing(answer.body, paymentHash)
    if (payment === null) throw unusableAnswer('a payment without hash or state')
    return payment
  }

  protected async sendPayment({ invoice, amountSats }: LightningSend, call: CallProvider): Promise<Sending> {
    const { paymentHash, isAmountless } = payable(invoice)
    // It takes an amount as one in the place of the invoice's own.
    const form = { invoice, ...(isAmountless ? { amountSat: String(amountSats) } : {}) }
    const answer = await call({ ...PAY, form })
    if (answer.status === 400)
      return { outcome: 'refused', message: refusal(answer.said ?? 'a bad request'), isBefore: true }
    const paid = readPayAnswer(answer.body, paymentHash)
    if (paid === null) return { outcome: 'unclear', cause: unusableAnswer('no outcome of a payment') }
    if (paid.type === 'failed')
      return { outcome: 'refused', message: refusal(paid.reason), isBefore: BEFORE_SENDING.test(paid.reason) }
    const { payoutId, feeSats } = paid
    return {
      outcome: 'sent',
      payment: {
        payout: {
          payoutId,
          status: 'confirmed',
          feeSats,
          transactionHash: null,
          processedAt: this.#options.clock.now()
        },
        reason: null
      }
    }
  }
}

function refusal(said: string): string {
  return `phoenixd did not pay: ${shortDescription(said.replace(/[\p{C}\p{Z}]+/gu, ' ').trim(), 200)}`
}

async function newInvoice(
  call: CallProvider,
  { amountSats, description, expirySeconds }: ChargeRequest,
  webhookUrl: string | null
): Promise<Charge> {
  const answer = await call({
    method: 'POST',
    path: '/createinvoice',
    form: {
      amountSat: String(amountSats),
      description: shortDescription(description, MAX_DESCRIPTION),
      expirySeconds: String(expirySeconds),
      ...(webhookUrl === null ? {} : { webhookUrl })
    }
  })
  const made = readPhoenixdInvoice(answer.body)
  if (made === null) throw unusableAnswer('no invoice in the answer')
  return lightningCharge(made.invoice, made.paymentHash, amountSats)
}

/** Whether phoenixd itself says that it knows no such payment. @throws ProviderUnavailable for another 404 */
function isUnknown({ status, body }: ProviderAnswer): boolean {
  if (status !== 404) return false
  if (typeof body === 'string' && /^not found\s*$/i.test(body)) return true
  throw unusableAnswer('status 404 of something else')
}

function webhookSecretOf(key: Secret<string>): Secret<string> | null {
  try {
    return readPhoenixdKey(key.reveal().trim()).webhookSecret
  } catch (error) {
    if (error instanceof AddressKeyError) return null
    throw error
  }
}
