import type { VNode } from 'preact'
import type { Payment } from '../../payments/payments/schema.ts'
import { amountText } from '../kit/amounts.ts'
import { currentLanguage } from '../../engine/formats/language.ts'
import { html } from '../kit/document.ts'
import type { OrderRow } from '../../shop/orders/views.ts'
import { badge, type Tone } from './parts.ts'
import { isRoleEnough, type Role } from '../../engine/operations/operation.ts'
import type { PageRequest } from './page.ts'

/** `12,500 sats`. */
export function sats(amount: number): string {
  return `${count(amount)} ${amount === 1 ? 'sat' : 'sats'}`
}

/** `$2.00`; bitcoin in satoshis, as in every list. */
export function amountIn(amount: number | string, currency: Payment['currency']): string {
  // Exact: at most 21 million bitcoin with eight decimals.
  return currency === 'BTC' ? sats(Math.round(Number(amount) * 1e8)) : amountText(String(amount), currency)
}

/** With thousands separators. */
export function count(value: number): string {
  return value.toLocaleString(currentLanguage())
}

/** Percentage; a dash without a whole. */
export function percent(part: number, whole: number): string {
  return whole === 0 ? '–' : (part / whole).toLocaleString(currentLanguage(), { style: 'percent' })
}

/** `4.2 ms`, `1.3 s`. */
export function latency(ms: number | null): string {
  if (ms === null) return '–'
  return ms < 1000 ? `${ms} ms` : `${Number((ms / 1000).toPrecision(2)).toLocaleString(currentLanguage())} s`
}

/**
 * UTC; the script converts it to local time.
 * @param at ISO 8601, or milliseconds since the epoch; null shows a dash
 */
export function timeOf(at: string | number | null): VNode {
  if (at === null) return html`<span class="soft">–</span>`
  const iso = new Date(at).toISOString()
  return html`<time datetime=${iso}>${iso.slice(0, 16).replace('T', ' ')} UTC</time>`
}

/** Both ends of a long text, such as a payment hash. */
export function short(text: string): VNode {
  return text.length <= 16
    ? html`<code>${text}</code>`
    : html`<code title=${text}>${text.slice(0, 8)}…${text.slice(-6)}</code>`
}

const TONES: Readonly<Record<string, Tone>> = {
  paid: 'good',
  confirmed: 'good',
  processing: 'wait',
  unpaid: 'wait',
  pending: 'wait',
  underpaid: 'bad',
  failed: 'bad'
}

export function status(name: string): VNode {
  return badge(name, TONES[name] ?? 'quiet')
}

export const ORDER_STATES: Readonly<Record<OrderRow['status'], readonly [words: string, tone: Tone]>> = {
  PendingPayment: ['unpaid', 'quiet'],
  PaidAwaitingDetails: ['paid, address missing', 'wait'],
  PaidWithDetails: ['at the shop', 'wait'],
  Fulfilled: ['packed', 'good'],
  Shipped: ['shipped', 'good']
}

export function orderState(name: string): VNode {
  const [words, tone] = Object.hasOwn(ORDER_STATES, name)
    ? ORDER_STATES[name as OrderRow['status'] /* its own key */]
    : ([name, 'quiet'] as const)
  return badge(words, tone)
}

/** Whether the member has at least this role. The operator needs none. */
export function may({ ctx: { principal } }: Pick<PageRequest, 'ctx'>, needed: Role): boolean {
  return principal?.kind !== 'merchant' || isRoleEnough(principal.role, needed)
}

/** Forms, or the role that they require. Cosmetic: the API enforces roles. */
export function forRole(request: Pick<PageRequest, 'ctx'>, needed: Role, forms: VNode): VNode {
  return may(request, needed) ? forms : html`<p class="soft">Only members with the role ${needed} can change this.</p>`
}
