import { Type } from 'typebox'
import { orNull, part, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import type { ReadonlyHeaders } from '../../../engine/message/headers.ts'
import type { Secret } from '../../../platform/keys/secrets.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import type { Clock } from '../../../platform/system/clock.ts'
import { headerKeyFault } from '../../provider-calls/address-key.ts'
import { NO_LIMIT } from '../../provider-calls/budgets.ts'
import { unusableResponse, Hash, requireResponse } from '../../provider-calls/errors.ts'
import { lightningCharge, PAYMENT_HASH } from '../../provider-calls/lightning-charge.ts'
import { hasToken, parseNotification, receiverToken, requireSubject } from '../../provider-calls/notifications.ts'
import { payable, type LightningSend, type Sending, type SentPayment } from '../../provider-calls/pay-once.ts'
import type { CallProvider } from '../../provider-calls/provider-call.ts'
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
import type { ProviderKind } from '../kind.ts'
import {
  askBlink,
  BLINK_LIVE,
  BlinkCalls,
  blinkRefusal,
  mutationRefusal,
  payloadOf,
  type BlinkCall,
  type BlinkOperation,
  type BlinkOptions,
  type BlinkResult
} from './calls.ts'
import { CHARGE, CREATE, PAY, PAY_AMOUNT, PAYMENTS, KEY_SCOPES, ADD_ENDPOINT, TRANSACTIONS } from './documents.ts'
import {
  BlinkData,
  BlinkInvoice,
  readBlinkPage,
  readBlinkPayment,
  readBlinkState,
  type BlinkWallet
} from './responses.ts'

const capabilities: Capabilities = Object.freeze({
  onchain: false,
  hostedCheckout: false,
  // Callbacks are unsigned and need a key that may also pay, so polling stays authoritative.
  notifies: false,
  // Pays under a wallet lock and refuses what its ledger lists as paid or pending.
  payout: Object.freeze({ lightning: true, chain: false, once: true, mostFee: { sats: 10, percent: 0.5 } })
})

/** Minutes. Outside its range Blink silently uses four hours. */
const MOST_MINUTES = 1_440
const PAGE = 100
const MAX_PAGES = 5
const BEFORE_SENDING = /^(INSUFFICIENT_BALANCE|CANT_PAY_SELF|INVOICE_DECODE_ERROR|INVALID_INPUT|ROUTE_FINDING_ERROR)$/

const BlinkEvent = Type.Object({
  eventType: orNull(Text),
  transaction: part({ initiationVia: part({ paymentHash: orNull(Hash) }) })
})

interface Place {
  readonly asOf: number
  readonly after: string
}

/**
 * Blink, a custodial wallet, over its GraphQL API. Charge ids are payment hashes (decision 116). Uses the account's
 * bitcoin wallet.
 *
 * Known gaps; read in Blink's public schema and source, never tried live:
 * - invoices last whole minutes, a day at most;
 * - payments take no fee limit; Blink caps fees itself;
 * - payments between Blink accounts stay internal and look like any other.
 */
export class BlinkProvider extends PayingProvider<BlinkCall> implements Provider {
  readonly kind = 'blink'
  readonly capabilities = capabilities
  readonly #clock: Clock

  constructor(options: BlinkOptions) {
    super(new BlinkCalls(options))
    this.#clock = options.clock
  }

  async lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    if (!PAYMENT_HASH.test(chargeId)) return null
    return await this.calls.within(key, async (call, walletId) => {
      const response = await askBlink(call, CHARGE, { walletId, paymentHash: chargeId })
      if (response.errors.some(({ code }) => /NOT_FOUND/.test(code))) return null
      const state = readBlinkState(walletOf(response), this.#clock.now())
      if (state === null) throw unusableResponse('an invoice without a status')
      return state
    })
  }

  async listSettled(key: Secret<string>, { since, position }: SettledSince): Promise<SettledList> {
    // Written by this file alone.
    const place = position === null ? null : (JSON.parse(position) as Place)
    const asOf = place?.asOf ?? this.#clock.now()
    return await this.calls.within(key, async (call, walletId) => {
      const charges: SettledCharge[] = []
      let after = place?.after ?? null
      for (let count = 0; count < MAX_PAGES; count++) {
        const page = readBlinkPage(walletOf(await askBlink(call, TRANSACTIONS, { walletId, first: PAGE, after })))
        if (page === null) throw unusableResponse('no list of transactions')
        charges.push(...page.charges)
        const isOlder = page.oldest !== null && page.oldest < since
        if (page.next === null || isOlder) return { charges, reach: 'whole', asOf, position: null }
        after = page.next
      }
      const next: Place = { asOf, after: after ?? '' }
      return { charges, reach: 'more', asOf, position: JSON.stringify(next) }
    })
  }

  /** Blink's signing secret is not disclosed, so the callback address carries a token. */
  async subscribe(
    key: Secret<string>,
    url: string,
    secret: Secret<string>
  ): Promise<{ readonly subscriptionId: string }> {
    return await this.calls.within(key, async call => {
      const input = { url: `${url}${url.includes('?') ? '&' : '?'}token=${receiverToken(secret)}` }
      const payload = payloadOf(await askBlink(call, ADD_ENDPOINT, { input }), 'callbackEndpointAdd', ADD_ENDPOINT)
      return { subscriptionId: requireResponse(Type.Object({ id: Text }), payload).id }
    })
  }

  /** Reads incoming payments only, over Lightning or from another Blink account. */
  readNotification(_headers: ReadonlyHeaders, body: Uint8Array, token: string | null): ProviderNotification | null {
    const { eventType, transaction } = parseNotification(BlinkEvent, body)
    if (!/^receive\.(lightning|intraledger)$/.test(eventType ?? '')) return null
    const chargeId = requireSubject(transaction?.initiationVia?.paymentHash ?? null, 'payment')
    return { chargeId, verify: secret => hasToken(token, secret) }
  }

  protected async makeCharge(request: ChargeRequest, call: CallProvider, walletId: string): Promise<Charge> {
    return await newInvoice(call, walletId, request)
  }

  protected async tryKey(call: CallProvider, walletId: string): Promise<KeyVerdict> {
    const { network } = await newInvoice(call, walletId, KEY_CHECK)
    const pays = readResponse(BlinkData, (await askBlink(call, KEY_SCOPES)).data)?.authorization?.scopes.includes(
      PAY.scope
    )
    return goodKey('Blink', network, pays === true ? null : `the scope ${PAY.scope}`)
  }

  protected async findPayment(invoice: string, call: CallProvider, walletId: string): Promise<SentPayment | null> {
    const { paymentHash } = payable(invoice)
    return readBlinkPayment(walletOf(await askBlink(call, PAYMENTS, { walletId, paymentHash })), paymentHash)
  }

  protected async sendPayment(
    { invoice, amountSats }: LightningSend,
    call: CallProvider,
    walletId: string
  ): Promise<Sending> {
    const { isAmountless } = payable(invoice)
    const [operation, field]: readonly [BlinkOperation, string] = isAmountless
      ? [PAY_AMOUNT, 'lnNoAmountInvoicePaymentSend']
      : [PAY, 'lnInvoicePaymentSend']
    const input = { walletId, paymentRequest: invoice, ...(isAmountless ? { amount: amountSats } : {}) }
    const refused = mutationRefusal(await askBlink(call, operation, { input }), field, operation.scope)
    if (refused !== null)
      return {
        outcome: 'refused',
        message: `Blink did not pay: ${refused.message}`,
        isBefore: BEFORE_SENDING.test(refused.code)
      }
    // The transaction has fee and time.
    return { outcome: 'unclear', cause: unusableResponse('a payment that is not in the list yet') }
  }
}

async function newInvoice(
  call: CallProvider,
  walletId: string,
  { amountSats, description, expirySeconds }: ChargeRequest
): Promise<Charge> {
  const input = {
    walletId,
    amount: amountSats,
    memo: shortDescription(description),
    expiresIn: Math.min(Math.max(1, Math.ceil(expirySeconds / 60)), MOST_MINUTES)
  }
  const payload = payloadOf(await askBlink(call, CREATE, { input }), 'lnInvoiceCreate', CREATE)
  const { invoice } = requireResponse(BlinkInvoice, payload)
  return lightningCharge(invoice.paymentRequest, invoice.paymentHash, amountSats)
}

/** @throws ProviderRefused with Blink's reason, ProviderUnavailable without one */
function walletOf({ data, errors: [error] }: BlinkResult): BlinkWallet {
  const wallet = readResponse(BlinkData, data)?.me?.defaultAccount?.walletById
  if (wallet !== null && wallet !== undefined) return wallet
  throw error === undefined ? unusableResponse('no wallet') : blinkRefusal(error)
}

/** Blink allows 60 invoices a minute per account and blocks it for five minutes beyond. */
export const blink: ProviderKind = {
  name: 'blink',
  isSandbox: false,
  calls: {
    address: BLINK_LIVE,
    counted: 'key',
    limits: (url, perMinute) => {
      if (perMinute !== null) return { ofAddress: {}, ofAccount: { burst: perMinute, perMinute } }
      const isTheirs = url === null || /(^|\.)blink\.sv$/.test(new URL(url).hostname)
      // No more than 55 in any minute, together.
      return { ofAddress: {}, ofAccount: isTheirs ? { burst: 15, perMinute: 40 } : NO_LIMIT }
    },
    polling: () => ({ perMinute: 12, isShared: false, costs: { list: 1, lookUp: 1 } })
  },
  scopes: [
    { scope: 'READ', purpose: 'See whether invoices were paid' },
    { scope: 'RECEIVE', purpose: 'Make invoices' },
    { scope: 'WRITE', purpose: 'Refunds, and to be notified when one is paid' }
  ],
  keyHint: 'An API key such as blink_…, from dashboard.blink.sv, API Keys.',
  keyFault: headerKeyFault,
  open: options => new BlinkProvider(options)
}
