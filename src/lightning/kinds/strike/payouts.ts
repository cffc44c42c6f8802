import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { readResponse } from '../../../engine/formats/response-schema.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import {
  PayoutUncertain,
  ProviderRefused,
  ProviderUnavailable,
  unusableResponse,
  requireResponse
} from '../../provider-calls/errors.ts'
import { payable, unproven } from '../../provider-calls/pay-once.ts'
import type { CallProvider, ProviderCall } from '../../provider-calls/provider-call.ts'
import type { Payout, PayoutRequest } from '../../provider-calls/provider.ts'
import { btcAmount, ChainTiers, PaymentQuote, readError, StrikeId, StrikePayment, type ChainTier } from './responses.ts'

/** Slowest cheap on-chain delivery that is chosen, in minutes. */
const PATIENCE = 24 * 60
/** Payouts cached in this process. */
const MEMORY = 10_000
const MAX_DESCRIPTION = 250

interface Quote {
  readonly id: string
  /** Millisatoshis that arrive, and those with fees; null when not in bitcoin. */
  readonly msat: bigint | null
  readonly totalMsat: bigint | null
  readonly isNew: boolean
}

interface Began {
  readonly quoteId: string
  /** The quote answered a look-up; only quotes from `create` are ever executed. */
  readonly isUnsent: boolean
}

/**
 * Sends from a Strike account: a quote, then its execution. Three rules make it exactly once:
 * - the quote's idempotency key derives from our reference, so each reference has one quote;
 * - only the `create` call that made a quote executes it, once; a call that finds it existing never does;
 * - an execution response that does not prove failure is uncertain and looked up.
 */
export class StrikePayouts {
  readonly #began = new LRUCache<string, Began>({ max: MEMORY })
  /** Whether payments were found under their quote's id; null before the first. */
  #isFoundByQuote: boolean | null = null

  /** @throws PayoutUncertain; ProviderRefused and ProviderUnavailable when nothing was or will be sent */
  async create(call: CallProvider, request: PayoutRequest): Promise<Payout> {
    const quote = await this.#quote(call, request)
    if (!quote.isNew) return await this.#begunBefore(call, quote.id)
    if (quote.msat !== null && quote.msat !== BigInt(request.amountSats) * 1000n) {
      throw new ProviderRefused(
        'request',
        'The payment provider quoted another amount than was asked for; nothing was sent.'
      )
    }
    const { feeLimitSats } = request
    if (feeLimitSats !== undefined) {
      const most = BigInt(request.amountSats + feeLimitSats) * 1000n
      if (quote.totalMsat === null || quote.totalMsat > most)
        throw new ProviderRefused('request', 'The payment provider asks for a higher routing fee; nothing was sent.')
    }
    this.#began.set(request.reference, { quoteId: quote.id, isUnsent: false })
    const payout = await this.#execute(call, quote.id)
    this.#isFoundByQuote = payout.payoutId === quote.id
    return payout
  }

  /**
   * A payout's status; null when certainly not sent.
   * @throws ProviderUnavailable when unknown
   */
  async lookUp(call: CallProvider, request: PayoutRequest, payoutId: string | null): Promise<Payout | null> {
    if (payoutId !== null) return await payment(call, payoutId)
    const began = this.#began.get(request.reference) ?? (await this.#beganAt(call, request))
    if (began.isUnsent) return null
    const found = await payment(call, began.quoteId)
    if (found !== null || this.#isFoundByQuote === true) return found
    // Unsent, or under an id lost with the response: "not sent" might pay twice.
    throw unknown()
  }

  /** The first quote of this reference, by repeating its idempotency key. */
  async #beganAt(call: CallProvider, request: PayoutRequest): Promise<Began> {
    const quote = await this.#quote(call, request).catch((error: unknown) => {
      // An invoice expired or paid by now says nothing about what was sent.
      throw error instanceof ProviderRefused && error.reason === 'request' ? unknown(error) : error
    })
    const began = { quoteId: quote.id, isUnsent: quote.isNew }
    this.#began.set(request.reference, began)
    return began
  }

  async #begunBefore(call: CallProvider, quoteId: string): Promise<Payout> {
    const found = await payment(call, quoteId).catch((error: unknown) => {
      throw new PayoutUncertain(error)
    })
    if (found === null) throw new PayoutUncertain(new Error('the payout was begun before'))
    return found
  }

  async #quote(call: CallProvider, request: PayoutRequest): Promise<Quote> {
    const { path, body, scope } = await quoteCall(call, request)
    const response = await call({
      method: 'POST',
      path,
      body,
      scope,
      headers: { 'idempotency-key': idempotencyKey(request.reference) },
      accepts: [400, 409, 422],
      sharedLimit: 'payment quotes'
    })
    if (response.status < 300) {
      const quote = requireResponse(PaymentQuote, response.body)
      return { id: quote.paymentQuoteId, msat: quote.amount, totalMsat: quote.totalAmount, isNew: true }
    }
    const { code, paymentQuoteId } = readError(response.body)
    if (code !== 'DUPLICATE_PAYMENT_QUOTE') throw refused(response.said, response.status)
    const id = readResponse(StrikeId, paymentQuoteId)
    if (id === null) throw unusableResponse('a duplicate quote without its id')
    return { id, isNew: false, msat: null, totalMsat: null }
  }

  async #execute(call: CallProvider, quoteId: string): Promise<Payout> {
    const response = await call({
      method: 'PATCH',
      path: `/v1/payment-quotes/${quoteId}/execute`,
      scope: 'partner.payment-quote.execute',
      accepts: [409, 422],
      sharedLimit: 'executions'
    }).catch(unproven)
    if (response.status < 300) {
      const payout = readResponse(StrikePayment, response.body)
      if (payout === null) throw new PayoutUncertain(unusableResponse('an execution without a payment'))
      return payout
    }
    const { code, paymentId } = readError(response.body)
    if (code === 'PAYMENT_PROCESSED' && paymentId !== null) return await this.#begunBefore(call, paymentId)
    // 409 means the payment is in progress, as these codes do.
    if (response.status === 409 || code === null || /PROCESS/.test(code))
      throw new PayoutUncertain(new Error(`the execution was answered with ${response.status}`))
    throw refused(response.said, response.status)
  }
}

async function payment(call: CallProvider, id: string): Promise<Payout | null> {
  if (readResponse(StrikeId, id) === null) return null
  const response = await call({
    method: 'GET',
    path: `/v1/payments/${id}`,
    scope: 'partner.payment.read',
    accepts: [404],
    sharedLimit: 'others'
  })
  if (response.status === 404) return null
  return requireResponse(StrikePayment, response.body)
}

async function quoteCall(
  call: CallProvider,
  request: PayoutRequest
): Promise<Pick<ProviderCall, 'path' | 'body' | 'scope'> & { readonly body: object; readonly scope: string }> {
  const { destination, amountSats, description } = request
  const amount = { ...btcAmount(amountSats), feePolicy: 'EXCLUSIVE' }
  if (destination.type === 'ln') {
    const body = {
      lnInvoice: destination.invoice,
      sourceCurrency: 'BTC',
      ...(payable(destination.invoice).isAmountless ? { amount } : {})
    }
    return { path: '/v1/payment-quotes/lightning', body, scope: 'partner.payment-quote.lightning.create' }
  }
  const scope = 'partner.payment-quote.onchain.create'
  const response = await call({
    method: 'POST',
    path: '/v1/payment-quotes/onchain/tiers',
    body: { btcAddress: destination.address, amount: btcAmount(amountSats) },
    scope,
    sharedLimit: 'others'
  })
  const tier = chosenTier(readResponse(ChainTiers, response.body) ?? [], BigInt(amountSats) * 1000n)
  if (tier === null)
    throw new ProviderRefused('request', 'The payment provider offers no way to send this amount over the chain.')
  const note = description === null ? '' : shortened(description)
  return {
    path: '/v1/payment-quotes/onchain',
    body: {
      btcAddress: destination.address,
      sourceCurrency: 'BTC',
      amount,
      onchainTierId: tier.id,
      ...(note === '' ? {} : { description: note })
    },
    scope
  }
}

/** The cheapest within a day, else the fastest. */
function chosenTier(tiers: readonly ChainTier[], msat: bigint): ChainTier | null {
  const open = tiers.filter(tier => tier.leastMsat <= msat)
  const soon = open.filter(tier => tier.minutes <= PATIENCE && tier.feeMsat !== null)
  const cheapest = soon.toSorted((one, other) => Number((one.feeMsat ?? 0n) - (other.feeMsat ?? 0n)))[0]
  return cheapest ?? open.toSorted((one, other) => one.minutes - other.minutes)[0] ?? null
}

/** At most 250 UTF-16 units, Strike's limit, and the bytes that fit an invoice, cut between characters. */
export function shortened(text: string): string {
  let cut = ''
  for (const character of shortDescription(text)) {
    if (cut.length + character.length > MAX_DESCRIPTION) break
    cut += character
  }
  return cut
}

/** A deterministic UUID, version 4 in form, from a reference. */
function idempotencyKey(reference: string): string {
  const bytes = hash('sha256', `boltgate payout ${reference}`, 'buffer').subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

function refused(said: string | null, status: number): ProviderRefused {
  return new ProviderRefused(
    'request',
    said === null
      ? `The payment provider refused to send (${status}).`
      : `The payment provider refused to send: ${said}`
  )
}

function unknown(cause?: unknown): ProviderUnavailable {
  return new ProviderUnavailable('The payment provider does not say at the moment whether this was sent.', 60, cause)
}
