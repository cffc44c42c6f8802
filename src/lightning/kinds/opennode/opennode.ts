import { Type } from 'typebox'
import { fitting, orNull, readResponse } from '../../../engine/formats/response-schema.ts'
import type { ReadonlyHeaders } from '../../../engine/message/headers.ts'
import { shortDescription, type Invoice, type InvoiceNetwork } from '../../codecs/bolt11.ts'
import { invoiceOrNull, requireSats } from '../../provider-calls/lightning-charge.ts'
import { isSigned } from '../../provider-calls/notifications.ts'
import { requireResponse } from '../../provider-calls/responses.ts'
import type { Clock } from '../../../platform/system/clock.ts'
import type { Secret } from '../../../platform/keys/secrets.ts'
import { noBudget, type CallBudget } from '../../provider-calls/budgets.ts'
import {
  PayoutUncertain,
  ProviderNotificationError,
  ProviderRefused,
  ProviderUnavailable,
  unusableResponse
} from '../../provider-calls/errors.ts'
import { isUnsent, payable } from '../../provider-calls/pay-once.ts'
import { OpenNodeCharge, openNodeErrorMessage, OpenNodeWithdrawal, unwrap } from './responses.ts'
import type {
  Capabilities,
  Charge,
  ChargeOrder,
  ChargeRequest,
  ChargeState,
  FiatChargeRequest,
  KeyVerdict,
  Payout,
  PayoutRequest,
  Provider,
  ProviderNotification,
  SettledList,
  SettledSince
} from '../../providers/provider.ts'
import {
  ProviderHttp,
  type CallProvider,
  type ConnectHow,
  type ProviderResponse,
  type ProviderCall
} from '../../provider-calls/provider-call.ts'

/** Address of the live service. */
export const OPENNODE_LIVE = 'https://api.opennode.com'

/** What the provider needs. */
export interface OpenNodeOptions {
  /**
   * Null for the live service; `https://dev-api.opennode.com` is its test network. With or without `/v1` at its end.
   */
  readonly url: string | null
  /** Milliseconds for one call. */
  readonly timeout: number
  readonly clock: Clock
  /** None of our own where it is left out. */
  readonly budget?: CallBudget
  /** Address of our receiver, which stands in each charge; null leaves it out. Asked for at each charge. */
  receiver(): string | null
  readonly connect?: ConnectHow
}

/** What a key may do, in OpenNode's own spelling. */
type Permission = 'Read' | 'Invoices' | 'Withdrawals'

const capabilities: Capabilities = Object.freeze({
  onchain: true,
  hostedCheckout: true,
  notifies: true,
  payout: Object.freeze({ lightning: true, chain: true, mostFee: { sats: 10, percent: 1 } })
})

/** Satoshis above which no Lightning invoice comes back. */
const LARGEST_CHARGE = 500_000_000
// Sources name 4320 as well; this is the range that both have.
const SHORTEST_TTL = 10
const LONGEST_TTL = 1440
/** Milliseconds after which an unconfirmed transaction has left the mempools; older charges without a time are not news. */
const LONGEST_CONFIRMATION = 14 * 24 * 3_600_000
const NOT_SHOWN =
  'OpenNode does not show whether the refund was sent, so it stays pending. Look for it among the withdrawals in the OpenNode dashboard.'
/** From this many charges on a list may have been cut. */
const FULL_LIST = 100
/** Seconds; a person has to look anyway. */
const ASK_LATER = 60

/**
 * OpenNode: charges in satoshis or in fiat that it converts itself, payable over Lightning and on chain, with a
 * checkout page of its own. Formats: OpenNode's reference and client library.
 *
 * Known gaps, none of them checked against the live service:
 * - A refund is a withdrawal, also of an on-chain payment (decision 63). `/v1/refunds`, which returns an underpayment
 *   less a fee, is not used; whether an underpayment can be withdrawn before it is settled is not documented.
 * - `custom_id` carries our reference, but nothing documents that one is unique, can be searched for, or is listed. A
 *   lost answer is looked for in `GET /v1/withdrawals`; what is not found there stays pending until a person has
 *   looked.
 * - The status that answers a missing permission: 403, and 401 with a message about permissions, are both understood.
 * - `/v1/charges` and `/v1/withdrawals` have no documented pages or order.
 */
export class OpenNodeProvider implements Provider {
  readonly kind = 'opennode'
  readonly keyless = false
  readonly capabilities = capabilities
  readonly #http: ProviderHttp
  readonly #clock: Clock
  readonly #receiver: () => string | null

  constructor(options: OpenNodeOptions) {
    this.#clock = options.clock
    this.#receiver = options.receiver
    this.#http = new ProviderHttp({
      url: (options.url ?? OPENNODE_LIVE).replace(/\/v[12]\/?$/, ''),
      timeout: options.timeout,
      clock: options.clock,
      budget: options.budget ?? noBudget('opennode', options.clock),
      authorize: key => ({ authorization: key }),
      messageOf: openNodeErrorMessage,
      ...(options.connect === undefined ? {} : { connect: options.connect })
    })
  }

  async createCharge(key: Secret<string> | null, request: ChargeRequest): Promise<Charge> {
    requireSats(request.amountSats)
    if (request.amountSats > LARGEST_CHARGE) throw tooLarge()
    return await this.#create(key, { amount: request.amountSats }, request, request.amountSats)
  }

  async createFiatCharge(key: Secret<string> | null, request: FiatChargeRequest): Promise<Charge> {
    // At most two places and nine digits before them (decision 46): JSON writes such a number as its text stands.
    return await this.#create(key, { amount: Number(request.amount), currency: request.currency }, request, null)
  }

  async #create(
    key: Secret<string> | null,
    /** Satoshis where no currency is named. */
    price: { readonly amount: number; readonly currency?: string },
    request: Omit<ChargeRequest, 'amountSats'>,
    amountSats: number | null
  ): Promise<Charge> {
    const receiver = this.#receiver()
    const response = await this.#http.within(
      key,
      async call =>
        await ask(call, 'Invoices', {
          method: 'POST',
          path: '/v1/charges',
          body: {
            ...price,
            description: shortDescription(request.description),
            ttl: ttlMinutes(request.expirySeconds),
            ...orderFields(request.order),
            ...(receiver === null ? {} : { callback_url: receiver })
          }
        }),
      request.standing
    )
    return chargeOf(requireResponse(OpenNodeCharge, unwrap(response.body)), amountSats)
  }

  async lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    const response = await this.#http.within(
      key,
      async call =>
        await ask(call, 'Read', {
          method: 'GET',
          path: `/v1/charge/${encodeURIComponent(chargeId)}`,
          accepts: [404]
        })
    )
    if (response.status === 404) return null
    const { state } = requireResponse(OpenNodeCharge, unwrap(response.body))
    if (state === null) throw unusableResponse('a charge without a known status')
    return state
  }

  /**
   * A withdrawal, over Lightning or the chain. It is taken at once and sent later; nothing documented makes a repeat
   * safe.
   */
  async createPayout(key: Secret<string> | null, request: PayoutRequest): Promise<Payout> {
    const body = withdrawalBody(request)
    let response: ProviderResponse
    try {
      response = await this.#http.within(
        key,
        async call => await ask(call, 'Withdrawals', { method: 'POST', path: '/v2/withdrawals', body })
      )
    } catch (error) {
      throw isUnsent(error) ? error : new PayoutUncertain(error)
    }
    const withdrawal = readResponse(OpenNodeWithdrawal, unwrap(response.body))
    if (withdrawal === null) throw new PayoutUncertain(unusableResponse('a withdrawal without an id'))
    return payoutOf(withdrawal, request)
  }

  /**
   * Never null: no answer of OpenNode's shows that nothing was sent, and null would give the amount out again. What it
   * does not show stays pending.
   * @throws ProviderUnavailable also where the withdrawal is not found
   */
  async lookUpPayout(key: Secret<string> | null, request: PayoutRequest, payoutId: string | null): Promise<Payout> {
    const found = await this.#http.within(key, async call =>
      payoutId === null ? await searched(call, request) : await known(call, payoutId)
    )
    if (found !== null) return payoutOf(found, request)
    throw new ProviderUnavailable(NOT_SHOWN, ASK_LATER)
  }

  /**
   * Tries what each permission is for: the balance, a charge of 1 satoshi that expires after ten minutes (the shortest
   * there is), and a withdrawal that names no destination, which can only be refused. Without Withdrawals a key can
   * take payments.
   */
  async validateKey(key: Secret<string>): Promise<KeyVerdict> {
    try {
      return await this.#http.within(key, probed)
    } catch (error) {
      if (!(error instanceof ProviderRefused)) throw error
      return { isValid: false, message: error.message }
    }
  }

  readNotification(headers: ReadonlyHeaders, body: Uint8Array): ProviderNotification | null {
    const type = headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase()
    if (type !== 'application/x-www-form-urlencoded')
      throw new ProviderNotificationError('A notification must be a form (application/x-www-form-urlencoded).')
    const form = new URLSearchParams(Buffer.from(body).toString('utf8'))
    const [chargeId = '', ...moreIds] = form.getAll('id')
    const signature = form.get('hashed_order')
    if (!/^[\w-]{1,100}$/.test(chargeId) || moreIds.length > 0)
      throw new ProviderNotificationError('A notification must have one id.')
    if (signature === null) throw new ProviderNotificationError('A notification must have hashed_order.')
    // A withdrawal's, which has no price: refunds are looked up.
    if (form.has('type') && !form.has('price')) return null
    return { chargeId, verify: secret => isSigned(Buffer.from(chargeId), signature, secret) }
  }

  async listSettled(key: Secret<string>, { since }: SettledSince): Promise<SettledList> {
    const asOf = this.#clock.now()
    const response = await this.#http.within(
      key,
      async call => await ask(call, 'Read', { method: 'GET', path: '/v1/charges' })
    )
    const charges = fitting(requireResponse(Type.Array(orNull(OpenNodeCharge)), unwrap(response.body)))
    const newest = (charge: OpenNodeCharge): number => charge.state?.settledAt ?? charge.createdAt ?? 0
    const settled = charges
      .toSorted((left, right) => newest(right) - newest(left))
      .flatMap(({ id, state, createdAt }) => {
        if (state === null || state.status === 'unpaid' || state.status === 'expired') return []
        const isNews =
          state.settledAt === null ? (createdAt ?? since) >= since - LONGEST_CONFIRMATION : state.settledAt >= since
        return isNews ? [{ chargeId: id, state }] : []
      })
    return { charges: settled, reach: settled.length < FULL_LIST ? 'whole' : 'newest', asOf, position: null }
  }

  async close(): Promise<void> {
    await this.#http.close()
  }
}

/** One call that needs a permission, named where it is missing. @throws ProviderRefused, ProviderUnavailable */
async function ask(call: CallProvider, permission: Permission, request: ProviderCall): Promise<ProviderResponse> {
  const response = await call({ ...request, scope: permission, accepts: [...(request.accepts ?? []), 401] })
  if (response.status !== 401) return response
  if (!/permission|scope|privilege/i.test(response.said ?? ''))
    throw new ProviderRefused('key', 'The provider does not accept this key.')
  throw new ProviderRefused('scope', `The provider key lacks the scope ${permission}.`, permission)
}

/** What a key is allowed to do. @throws ProviderRefused 'key' for one that is not known at all */
async function probed(call: CallProvider): Promise<KeyVerdict> {
  const probes: ReadonlyArray<readonly [Permission, ProviderCall]> = [
    ['Read', { method: 'GET', path: '/v1/account/balance' }],
    [
      'Invoices',
      { method: 'POST', path: '/v1/charges', body: { amount: 1, description: 'Key check', ttl: SHORTEST_TTL } }
    ],
    ['Withdrawals', { method: 'POST', path: '/v2/withdrawals', body: { type: 'ln' } }]
  ]
  const missing: Permission[] = []
  let network: InvoiceNetwork | undefined
  for (const [permission, probe] of probes) {
    try {
      const { body } = await ask(call, permission, probe)
      const invoice = permission === 'Invoices' ? (readResponse(OpenNodeCharge, unwrap(body))?.invoice ?? null) : null
      if (invoice !== null) ({ network } = readable(invoice))
    } catch (error) {
      if (!(error instanceof ProviderRefused) || error.reason === 'key') throw error
      // A request that was refused for what it says has passed the check of the permission.
      if (error.reason === 'scope') missing.push(permission)
    }
  }
  return { ...verdictOn(missing), ...(network === undefined ? {} : { network }) }
}

function verdictOn(missing: readonly Permission[]): KeyVerdict {
  if (missing.length === 0) return { isValid: true, message: 'The provider accepts this key.' }
  const names = `permission${missing.length === 1 ? '' : 's'} ${missing.join(' and ')}`
  return missing.includes('Read') || missing.includes('Invoices')
    ? { isValid: false, message: `The provider key lacks the ${names}.` }
    : { isValid: true, message: `The provider accepts this key. It lacks the ${names}, so refunds will be refused.` }
}

/** The order as OpenNode's dashboard and checkout page show it; what is not known is left out. */
function orderFields(order: ChargeOrder | undefined): object {
  if (order === undefined) return {}
  const { orderId, successUrl, customerEmail, customerName, metadata } = order
  return {
    order_id: orderId,
    ...(successUrl === null ? {} : { success_url: successUrl }),
    ...(customerEmail === null ? {} : { customer_email: customerEmail }),
    ...(customerName === null ? {} : { customer_name: customerName }),
    ...(metadata === null ? {} : { metadata })
  }
}

/** Whole minutes, upwards, so that nothing expires earlier than was asked for within the provider's range. */
function ttlMinutes(seconds: number): number {
  return Math.min(Math.max(Math.ceil(seconds / 60), SHORTEST_TTL), LONGEST_TTL)
}

/** `amountSats` is what was asked for; null where the provider has converted. */
function chargeOf(charge: OpenNodeCharge, amountSats: number | null): Charge {
  if (charge.invoice === null) throw tooLarge()
  const invoice = readable(charge.invoice)
  // A payer would pay something else than was agreed.
  if (invoice.amountMsat === null || (amountSats !== null && invoice.amountMsat !== BigInt(amountSats) * 1000n))
    throw unusableResponse('an invoice over another amount')
  return {
    chargeId: charge.id,
    invoice: invoice.text,
    paymentHash: invoice.paymentHash,
    expiresAt: charge.invoiceExpiresAt ?? invoice.expiresAt * 1000,
    network: invoice.network,
    onchainAddress: charge.onchainAddress,
    checkoutUrl: charge.checkoutUrl
  }
}

function readable(text: string): Invoice {
  const invoice = invoiceOrNull(text, 'named')
  if (invoice === null) throw unusableResponse('an invoice that cannot be read')
  return invoice
}

/** What is sent for a payout; an invoice that has an amount must not be given another. */
function withdrawalBody({ destination, amountSats, reference }: PayoutRequest): object {
  if (destination.type === 'chain')
    return { type: 'chain', amount: amountSats, address: destination.address, custom_id: reference }
  return {
    type: 'ln',
    // As in the reference; the client library has `payreq`.
    address: destination.invoice,
    ...(payable(destination.invoice).isAmountless ? { amount: amountSats } : {}),
    custom_id: reference
  }
}

/** The withdrawal of a known id; null when it is not found. */
async function known(call: CallProvider, payoutId: string): Promise<OpenNodeWithdrawal | null> {
  const response = await ask(call, 'Read', {
    method: 'GET',
    path: `/v1/withdrawal/${encodeURIComponent(payoutId)}`,
    accepts: [404]
  })
  if (response.status === 404) return null
  return requireResponse(OpenNodeWithdrawal, unwrap(response.body))
}

/**
 * The withdrawal whose answer was lost, among those that are listed; null when none is certainly it. It has our
 * reference, or else it pays the same invoice, which can be paid only once. A failed one without a reference may be an
 * earlier refund's to the same invoice, so that it proves nothing.
 */
async function searched(
  call: CallProvider,
  { reference, destination }: PayoutRequest
): Promise<OpenNodeWithdrawal | null> {
  const response = await ask(call, 'Read', { method: 'GET', path: '/v1/withdrawals' })
  const withdrawals = fitting(requireResponse(Type.Array(orNull(OpenNodeWithdrawal)), unwrap(response.body)))
  const ours = withdrawals.find(({ customId }) => customId === reference)
  if (ours !== undefined || destination.type === 'chain') return ours ?? null
  const invoice = destination.invoice.toLowerCase()
  return (
    withdrawals.find(
      ({ customId, names, payout }) => customId === null && payout.status !== 'failed' && names.includes(invoice)
    ) ?? null
  )
}

function payoutOf({ payout }: OpenNodeWithdrawal, { destination }: PayoutRequest): Payout {
  return destination.type === 'chain' ? payout : { ...payout, transactionHash: null }
}

function tooLarge(): ProviderRefused {
  return new ProviderRefused('request', 'The provider makes no Lightning invoice of more than 500,000,000 satoshis.')
}
