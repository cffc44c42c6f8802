import type { Offer } from '../offers/offer.ts'
import { isBrokenByUs, type Paid } from '../holding/paid-responses.ts'
import type { Challenges } from '../challenges/service.ts'
import type { Context, RequestPayment } from '../../engine/message/context.ts'
import { asGatewayError, ClientGone } from '../../engine/operations/errors.ts'
import type { Outcome } from '../../engine/message/reply.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { outlineAt, outlineOf, type Outline } from '../../engine/formats/json-reader.ts'
import { JsonError, type Span } from '../../engine/formats/json-scan.ts'
import { ANY_SIZE, replaced, withMember } from './json-text.ts'
import { settlement } from '../../lightning/codecs/x402.ts'
import { type Announced, type PricedCall, keyOf } from './message.ts'
import { CAPABILITY, faultText, META, RECEIPT, receiptText, X402_EXTENSION, X402_RESPONSE } from './wire.ts'

export interface PaidCall {
  readonly call: PricedCall
  readonly offer: Offer
  readonly paid: Paid
}

/** `open`: no response yet. `sold`: its result came, or counts as come. `returned`: no result. */
type State = 'open' | 'sold' | 'returned'

interface Held extends PaidCall {
  state: State
  /** Its result was in an unreadable part, so its delivery is unknown. */
  isUnread: boolean
}

interface SaleRules {
  readonly challenges: Challenges
  readonly clock: Clock
  readonly protocol: 'mcp' | 'json-rpc'
  readonly toolErrors: 'sold' | 'returned'
}

/** Where a result announces payment, and how. */
const CAPABILITIES: Readonly<Record<Announced['method'], [path: [string, ...string[]], value: string]>> = {
  initialize: [['result', 'capabilities', 'experimental', 'payment'], CAPABILITY],
  'server/discover': [['result', 'capabilities', 'extensions', X402_EXTENSION], '{}']
}

/** Maximum depth of an upstream's message. */
const MAX_DEPTH = 1000

interface Edit {
  readonly span: Span
  readonly by: string
}

/** Paid calls of one forwarded POST: the upstream's messages decide each payment, and receipts are added to results. */
export class CallsUnderWay {
  readonly #rules: SaleRules
  readonly #held = new Map<string, Held>()
  readonly #announces: ReadonlyMap<string, Announced['method']>
  /** A result came whose id is of no call. */
  #isStray = false

  constructor(rules: SaleRules, announces: readonly Announced[]) {
    this.#rules = rules
    this.#announces = new Map(announces.map(({ key, method }) => [key, method]))
  }

  add(paid: PaidCall): void {
    this.#held.set(paid.call.key, { ...paid, state: 'open', isUnread: false })
  }

  get payment(): RequestPayment | null {
    const [first] = this.#held.values()
    if (first === undefined) return null
    const amounts = [...this.#held.values()].map(({ paid }) => paid.payment.amountSats)
    return { ...first.paid.payment, amountSats: amounts.reduce((sum, amount) => sum + amount, 0) }
  }

  /** No message would be changed or decide anything. */
  get isIdle(): boolean {
    return this.#held.size === 0 && this.#announces.size === 0
  }

  /** The payment of the only paid call; null if there are several. */
  get only(): Paid | null {
    const [first, ...more] = this.#held.values()
    return first === undefined || more.length > 0 ? null : first.paid
  }

  get hasSold(): boolean {
    return [...this.#held.values()].some(({ state }) => state === 'sold')
  }

  /**
   * Adds receipts and the capability to an upstream's message or list; null if it is no JSON. Decides payments
   * immediately; returns a promise only for a release or a lapsed lease.
   */
  pass(text: string): string | null | Promise<string> {
    if (this.isIdle) return text
    let root: Outline
    try {
      root = outlineOf(text, { depth: MAX_DEPTH, members: ANY_SIZE, names: null })
    } catch (error) {
      if (error instanceof JsonError) return null
      throw error
    }
    const spans = root.isList ? Array.from({ length: root.size }, (_none, index) => root.span(index)) : [root]
    const edits = spans.map(span => this.#edit(text, span))
    return edits.some(edit => edit instanceof Promise)
      ? Promise.all(edits).then(all => edited(text, all))
      : edited(text, edits as (Edit | null)[]) // Without promises.
  }

  #edit(text: string, span: Span): Edit | null | Promise<Edit | null> {
    const message = outlineAt(text, span, ANY_SIZE)
    const id = message.member('id')
    if (id === null || message.member('method') !== null) return null
    const result = message.member('result')
    const parsed: unknown = JSON.parse(text.slice(id.start, id.end))
    const key = typeof parsed === 'string' || typeof parsed === 'number' ? keyOf(parsed) : null
    const announced = key === null || result === null ? undefined : this.#announces.get(key)
    if (announced !== undefined) return { span, by: withMember(text, span, ...CAPABILITIES[announced]) }
    const held = key === null ? undefined : this.#held.get(key)
    if (held === undefined) {
      // An error without an id answers the whole request, so there are no results.
      if (result !== null) this.#isStray = true
      return null
    }
    if (held.state !== 'open') return null
    if (result === null || this.#isReturned(text, result)) return this.#return(held).then(() => null)
    return this.#sell(held, text, span, result)
  }

  #isReturned(text: string, result: Span): boolean {
    if (this.#rules.toolErrors === 'sold') return false
    const flag = outlineAt(text, result, ANY_SIZE).member('isError')
    return flag !== null && text.slice(flag.start, flag.end) === 'true'
  }

  #sell(held: Held, text: string, span: Span, result: Span): Edit | null | Promise<Edit | null> {
    held.state = 'sold'
    const { paid } = held
    const withReceipt = (): Edit | null => {
      const { challengeId, payment, x402Network } = paid
      if (challengeId === null && x402Network === undefined) return null
      const [name, receipt] =
        challengeId === null
          ? [X402_RESPONSE, JSON.stringify(settlement(payment.paymentHash, x402Network ?? ''))]
          : [RECEIPT, receiptText(challengeId, payment.paymentHash, Math.floor(this.#rules.clock.now() / 1000))]
      const path: [string, ...string[]] = this.#rules.protocol === 'mcp' ? ['result', META, name] : [META, name]
      // Only an object result has room for it.
      if (this.#rules.protocol === 'mcp' && text[result.start] !== '{') return null
      return { span, by: withMember(text, span, path, receipt) }
    }
    const confirmed = paid.lease === null ? undefined : this.#rules.challenges.leases.spend(paid.lease)
    if (confirmed === undefined) return withReceipt()
    return confirmed.then(withReceipt, (error: unknown) => {
      held.state = 'returned'
      return { span, by: faultText(held.call.id, asGatewayError(error)) }
    })
  }

  async #return(held: Held): Promise<void> {
    held.state = 'returned'
    if (held.paid.lease !== null) await this.#rules.challenges.leases.release(held.paid.lease)
  }

  /** Unreadable data went out: all open calls count as sold. */
  async sellAll(): Promise<void> {
    await Promise.all(
      this.#open().map(async held => {
        held.state = 'sold'
        held.isUnread = true
        if (held.paid.lease !== null) await this.#rules.challenges.leases.spend(held.paid.lease)
      })
    )
  }

  /** The upstream failed or refused: releases all open calls. */
  async returnAll(): Promise<void> {
    await Promise.all(this.#open().map(held => this.#return(held)))
  }

  /**
   * The upstream is done. A call without a result is released, unless its result may have come under another id or
   * stream (`isResumable`).
   */
  async finish(isResumable: boolean): Promise<void> {
    await (this.#isStray || isResumable ? this.sellAll() : this.returnAll())
  }

  /** The request ended in any way: decides what is open. */
  over(ctx: Context, outcome: Outcome, isResumable: boolean): void {
    const { leases, paidResponses } = this.#rules.challenges
    for (const held of this.#held.values()) {
      const { lease } = held.paid
      if (lease === null || held.state === 'returned') continue
      const isLost = outcome.source === 'error' || (held.isUnread && isBrokenByUs(outcome))
      if (held.state === 'sold' && outcome.headSent && !isLost) continue
      const isSoldElsewhere = held.state === 'open' && isResumable
      held.state = isSoldElsewhere ? 'sold' : 'returned'
      if (isSoldElsewhere) leases.settle(lease)
      else if (outcome.error instanceof ClientGone) paidResponses.clientGone(ctx, lease, held.offer)
      else void leases.release(lease)
    }
  }

  #open(): Held[] {
    return [...this.#held.values()].filter(({ state }) => state === 'open')
  }
}

function edited(text: string, edits: readonly (Edit | null)[]): string {
  // From the end, so that earlier offsets stay valid.
  return edits.reduceRight((out, edit) => (edit === null ? out : replaced(out, edit.span, edit.by)), text)
}
