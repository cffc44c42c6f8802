import type { VNode } from 'preact'
import type { OrderRow } from '../../shop/orders/views.ts'
import { badge, type Tone } from './parts.ts'

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
  PendingPayment: ['not paid', 'quiet'],
  PaidAwaitingDetails: ['paid, no address yet', 'wait'],
  PaidWithDetails: ['at the shop', 'wait'],
  Fulfilled: ['made', 'good'],
  Shipped: ['sent', 'good']
}

/** State of a store's order. */
export function orderState(name: string): VNode {
  const [words, tone] = Object.hasOwn(ORDER_STATES, name)
    ? ORDER_STATES[name as OrderRow['status'] /* its own key */]
    : ([name, 'quiet'] as const)
  return badge(words, tone)
}
