import { createHash, createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { ReadonlyHeaders } from '../../gateway/headers.ts'
import { equalBytes } from '../../keys/constant-time.ts'
import type { Secret } from '../../keys/secrets.ts'
import { shortDescription } from '../../lightning/bolt11.ts'
import type { Clock } from '../../system/clock.ts'
import { noBudget, type CallBudget } from '../budgets.ts'
import { NothingSent, ProviderNotificationError, ProviderRefused, ProviderUnavailable } from '../errors.ts'
import { jsonHash, jsonMembers, jsonText, type JsonMembers } from '../json-members.ts'
import { lightningCharge, PAYMENT_HASH, requireSats } from '../lightning-charge.ts'
import { readNotificationJson } from '../notification-json.ts'
import { payable, payOnce, type Sending, type SentPayment } from '../pay-once.ts'
import { ProviderHttp, unusableAnswer, type CallProvider } from '../provider-call.ts'
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
  SettledCharge,
  SettledList,
  SettledSince
} from '../provider.ts'
import {
  readBlinkInvoice,
  readBlinkPage,
  readBlinkPayment,
  readBlinkState,
  readBtcWallet,
  readScopes,
  readWallet
} from './answers.ts'
import {
  CHARGE,
  CREATE,
  PAY,
  PAY_AMOUNT,
  PAYMENTS,
  KEY_SCOPES,
  ADD_ENDPOINT,
  TRANSACTIONS,
  WALLETS
} from './documents.ts'
import { askBlink, blinkMessage, mutationOf, payloadOf, blinkRefusal, type BlinkOperation } from './graphql.ts'

/** Blink's public service. Its test service, on signet, is https://api.staging.blink.sv. */
export const BLINK_LIVE = 'https://api.blink.sv'

/** What the kind needs, as `KindOptions` has it. */
export interface BlinkOptions {
  /** Null for the public service. */
  readonly url: string | null
  /** Milliseconds for one call of the provider, however many HTTP calls it takes. */
  readonly timeout: number
  readonly clock: Clock
  readonly budget?: CallBudget
}

const capabilities: Capabilities = Object.freeze({
  onchain: false,
  hostedCheckout: false,
  // It calls back only for keys that may also pay, and nothing we know signs it: it makes news quicker, and does not
  // replace asking.
  notifies: false,
  payout: Object.freeze({ lightning: true, chain: false })
})

/** Minutes that an invoice may be good: outside of it Blink takes four hours without a word. */
const MOST_MINUTES = 1_440
/** Transactions of one page, and pages of one call. */
const PAGE = 100
const MAX_PAGES = 5
/** Accounts whose wallet is remembered: it never changes. */
const MAX_WALLETS = 10_000
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
export class BlinkProvider implements Provider {
  readonly kind = 'blink'
  readonly keyless = false
  readonly capabilities = capabilities
  readonly #http: ProviderHttp
  readonly #budget: CallBudget
  readonly #clock: Clock
  /** By a digest of the key. */
  readonly #wallets = new LRUCache<string, string>({ max: MAX_WALLETS })

  constructor({ url, timeout, clock, budget = noBudget('blink', clock) }: BlinkOptions) {
    this.#clock = clock
    this.#budget = budget
    this.#http = new ProviderHttp({
      url: (url ?? BLINK_LIVE).replace(/\/graphql\/?$/, ''),
      timeout,
      clock,
      budget,
      authorize: key => ({ 'x-api-key': key }),
      messageOf: blinkMessage
    })
  }

  async createCharge(key: Secret<string> | null, request: ChargeRequest): Promise<Charge> {
    requireSats(request.amountSats)
    return await this.#within(key, newInvoice(request), request.standing)
  }

  async lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    if (!PAYMENT_HASH.test(chargeId)) return null
    return await this.#within(key, async (call, walletId) => {
      const answer = await askBlink(call, CHARGE, { walletId, paymentHash: chargeId })
      if (answer.errors.some(({ code }) => /NOT_FOUND/.test(code))) return null
      const state = readBlinkState(walletOf(answer), this.#clock.now())
      if (state === null) throw unusableAnswer('an invoice without a status')
      return state
    })
  }

  /** Pays an invoice with the payment hash as what keeps it single: Blink pays none twice. */
  async createPayout(key: Secret<string> | null, { destination, amountSats }: PayoutRequest): Promise<Payout> {
    if (destination.type !== 'ln') throw new ProviderRefused('request', 'No refunds are sent on chain by Blink.')
    const { invoice } = destination
    return await this.#within(key, (call, walletId) =>
      payOnce({
        find: () => find(call, walletId, invoice),
        send: () => send(call, walletId, invoice, amountSats)
      })
    )
  }

  async lookUpPayout(key: Secret<string> | null, { destination }: PayoutRequest): Promise<Payout | null> {
    if (destination.type !== 'ln') return null
    return await this.#within(
      key,
      async (call, walletId) => (await find(call, walletId, destination.invoice))?.payout ?? null
    )
  }

  /** Reads the scopes and the wallet, and makes an invoice of 1 satoshi and a minute. */
  async validateKey(key: Secret<string>): Promise<KeyVerdict> {
    try {
      return await this.#within(key, async (call, walletId) => {
        await newInvoice({ amountSats: 1, description: 'Key check', expirySeconds: 60 })(call, walletId)
        const pays = readScopes((await askBlink(call, KEY_SCOPES)).data).includes(PAY.scope)
        return {
          isValid: true,
          message: pays
            ? 'Blink accepts this key, makes invoices and pays with it.'
            : `Blink accepts this key and makes invoices with it. It only receives: refunds need the scope ${PAY.scope}.`
        }
      })
    } catch (error) {
      if (error instanceof ProviderRefused) return { isValid: false, message: error.message }
      throw error
    }
  }

  /** What came in, newest first. */
  async listSettled(key: Secret<string>, { since, position }: SettledSince): Promise<SettledList> {
    // Written by this file alone.
    const place = position === null ? null : (JSON.parse(position) as Place)
    const asOf = place?.asOf ?? this.#clock.now()
    return await this.#within(key, async (call, walletId) => {
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

  /** Blink signs with a secret that it does not tell: the address that it calls holds a token instead (decision 269). */
  async subscribe(
    key: Secret<string>,
    url: string,
    secret: Secret<string>
  ): Promise<{ readonly subscriptionId: string }> {
    return await this.#within(key, async call => {
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

  async close(): Promise<void> {
    await this.#http.close()
  }

  /** Runs calls with a key and its wallet. */
  async #within<T>(
    key: Secret<string> | null,
    run: (call: CallProvider, walletId: string) => Promise<T>,
    standing?: ChargeRequest['standing']
  ): Promise<T> {
    if (key === null) throw new ProviderRefused('key', 'The provider blink needs a key.')
    const name = createHash('sha256').update(key.reveal()).digest('base64')
    const work = this.#http.within(
      key,
      async call => {
        const known = this.#wallets.get(name) ?? readBtcWallet((await askBlink(call, WALLETS)).data)
        if (known === null) throw new ProviderRefused('key', 'The Blink account has no wallet in bitcoin.')
        this.#wallets.set(name, known)
        return await run(call, known)
      },
      standing
    )
    return await work.catch(async (error: unknown) => {
      // It says so with status 200; what the budget itself refuses asked nobody.
      if (error instanceof ProviderUnavailable && error.fault === 'rate' && !(error instanceof NothingSent))
        await this.#budget.refused(undefined, key.reveal(), error.retryAfter)
      throw error
    })
  }
}

const newInvoice =
  ({ amountSats, description, expirySeconds }: ChargeRequest) =>
  async (call: CallProvider, walletId: string): Promise<Charge> => {
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

async function find(call: CallProvider, walletId: string, invoice: string): Promise<SentPayment | null> {
  const { paymentHash } = payable(invoice)
  return readBlinkPayment(walletOf(await askBlink(call, PAYMENTS, { walletId, paymentHash })), paymentHash)
}

async function send(call: CallProvider, walletId: string, invoice: string, amountSats: number): Promise<Sending> {
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

/** What the address of our receiver holds. */
function tokenOf(secret: Secret<string>): string {
  return createHmac('sha256', secret.reveal()).update('boltgate notifications').digest('base64url').slice(0, 22)
}
