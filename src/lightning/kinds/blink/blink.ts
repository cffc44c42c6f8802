import { createHmac } from 'node:crypto'
import type { ReadonlyHeaders } from '../../../engine/message/headers.ts'
import { equalBytes } from '../../../platform/keys/constant-time.ts'
import type { Secret } from '../../../platform/keys/secrets.ts'
import { shortDescription } from '../../codecs/bolt11.ts'
import type { Clock } from '../../../platform/system/clock.ts'
import { ProviderNotificationError } from '../../provider-calls/errors.ts'
import { jsonHash, jsonMembers, jsonText, type JsonMembers } from '../../provider-calls/json-members.ts'
import { lightningCharge, PAYMENT_HASH } from '../../provider-calls/lightning-charge.ts'
import { readNotificationJson } from '../../provider-calls/notification-json.ts'
import { payable, type LightningSend, type Sending, type SentPayment } from '../../provider-calls/pay-once.ts'
import { unusableAnswer, type CallProvider } from '../../provider-calls/provider-call.ts'
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
import { readBlinkInvoice, readBlinkPage, readBlinkPayment, readBlinkState, readScopes, readWallet } from './answers.ts'
import { BlinkCalls, type BlinkCall, type BlinkOptions } from './calls.ts'
import { CHARGE, CREATE, PAY, PAY_AMOUNT, PAYMENTS, KEY_SCOPES, ADD_ENDPOINT, TRANSACTIONS } from './documents.ts'
import { askBlink, mutationOf, payloadOf, blinkRefusal, type BlinkOperation } from './graphql.ts'

const capabilities: Capabilities = Object.freeze({
  onchain: false,
  hostedCheckout: false,
  // It calls back only for keys that may also pay, and nothing we know signs it: it makes news quicker, and does not
  // replace asking.
  notifies: false,
  // It pays under a lock of the wallet, and refuses what its ledger has as paid or pending.
  payout: Object.freeze({ lightning: true, chain: false, once: true, mostFee: { sats: 10, percent: 0.5 } })
})

/** Minutes that an invoice may be good: outside of it Blink takes four hours without a word. */
const MOST_MINUTES = 1_440
/** Transactions of one page, and pages of one call. */
const PAGE = 100
const MAX_PAGES = 5
/** Codes of what Blink finds before it sends anything. */
const BEFORE_SENDING = /^(INSUFFICIENT_BALANCE|CANT_PAY_SELF|INVOICE_DECODE_ERROR|INVALID_INPUT|ROUTE_FINDING_ERROR)$/

/** Where a listing was left. */
interface Place {
  readonly asOf: number
  readonly after: string
}

/**
 * Blink, a custodial wallet, by its GraphQL API. The id of a charge is its payment hash (decision 116); money comes into the
 * account's wallet in bitcoin.
 *
 * Known gaps; the API was read in Blink's public schema and source, and no account was tried:
 * - an invoice is good for whole minutes, and for a day at most;
 * - a payment takes no limit for its fee, which Blink caps itself;
 * - payments between its own accounts stay inside, and are told as any other.
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
      const answer = await askBlink(call, CHARGE, { walletId, paymentHash: chargeId })
      if (answer.errors.some(({ code }) => /NOT_FOUND/.test(code))) return null
      const state = readBlinkState(walletOf(answer), this.#clock.now())
      if (state === null) throw unusableAnswer('an invoice without a status')
      return state
    })
  }

  /** What came in, newest first. */
  async listSettled(key: Secret<string>, { since, position }: SettledSince): Promise<SettledList> {
    // Written by this file alone.
    const place = position === null ? null : (JSON.parse(position) as Place)
    const asOf = place?.asOf ?? this.#clock.now()
    return await this.calls.within(key, async (call, walletId) => {
      const charges: SettledCharge[] = []
      let after = place?.after ?? null
      for (let count = 0; count < MAX_PAGES; count++) {
        const page = readBlinkPage(walletOf(await askBlink(call, TRANSACTIONS, { walletId, first: PAGE, after })))
        if (page === null) throw unusableAnswer('no list of transactions')
        charges.push(...page.charges)
        const isOlder = page.oldest !== null && page.oldest < since
        if (page.next === null || isOlder) return { charges, reach: 'whole', asOf, position: null }
        after = page.next
      }
      const next: Place = { asOf, after: after ?? '' }
      return { charges, reach: 'more', asOf, position: JSON.stringify(next) }
    })
  }

  /** Blink signs with a secret that it does not tell: the address that it calls holds a token instead. */
  async subscribe(
    key: Secret<string>,
    url: string,
    secret: Secret<string>
  ): Promise<{ readonly subscriptionId: string }> {
    return await this.calls.within(key, async call => {
      const input = { url: `${url}${url.includes('?') ? '&' : '?'}token=${tokenOf(secret)}` }
      const id = jsonText(
        payloadOf(await askBlink(call, ADD_ENDPOINT, { input }), 'callbackEndpointAdd', ADD_ENDPOINT)['id']
      )
      if (id === null) throw unusableAnswer('an endpoint without an id')
      return { subscriptionId: id }
    })
  }

  /** Only what was received is read, over Lightning or from another account of Blink's. */
  readNotification(_headers: ReadonlyHeaders, body: Uint8Array, token: string | null): ProviderNotification | null {
    const event = readNotificationJson(body)
    if (!/^receive\.(lightning|intraledger)$/.test(jsonText(event['eventType']) ?? '')) return null
    const chargeId = jsonHash(jsonMembers(jsonMembers(event['transaction'])?.['initiationVia'])?.['paymentHash'])
    if (chargeId === null) throw new ProviderNotificationError('The event does not say which payment it is about.')
    return {
      chargeId,
      verify: secret => equalBytes(Buffer.from(token ?? ''), Buffer.from(tokenOf(secret)))
    }
  }

  protected async makeCharge(request: ChargeRequest, call: CallProvider, walletId: string): Promise<Charge> {
    return await newInvoice(call, walletId, request)
  }

  /** Makes an invoice and reads the scopes. */
  protected async tryKey(call: CallProvider, walletId: string): Promise<KeyVerdict> {
    const { network } = await newInvoice(call, walletId, KEY_CHECK)
    const pays = readScopes((await askBlink(call, KEY_SCOPES)).data).includes(PAY.scope)
    return goodKey('Blink', network, pays ? null : `the scope ${PAY.scope}`)
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
    const { refused } = mutationOf(await askBlink(call, operation, { input }), field, operation.scope)
    if (refused !== null)
      return {
        outcome: 'refused',
        message: `Blink did not pay: ${refused.message}`,
        isBefore: BEFORE_SENDING.test(refused.code)
      }
    // Whatever it says, its fee and time stand with the transaction.
    return { outcome: 'unclear', cause: unusableAnswer('a payment that is not in the list yet') }
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
  const made = readBlinkInvoice(payloadOf(await askBlink(call, CREATE, { input }), 'lnInvoiceCreate', CREATE))
  if (made === null) throw unusableAnswer('no invoice in the answer')
  return lightningCharge(made.invoice, made.paymentHash, amountSats)
}

/** The wallet in an answer. @throws ProviderRefused with Blink's reason, ProviderUnavailable where it gives none */
function walletOf({ data, errors: [error] }: Awaited<ReturnType<typeof askBlink>>): JsonMembers {
  const wallet = readWallet(data)
  if (wallet !== null) return wallet
  throw error === undefined ? unusableAnswer('no wallet') : blinkRefusal(error)
}

/** What the address of our receiver holds. */
function tokenOf(secret: Secret<string>): string {
  return createHmac('sha256', secret.reveal()).update('boltgate notifications').digest('base64url').slice(0, 22)
}
