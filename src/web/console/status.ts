import type { VNode } from 'preact'
import type { OrderRow } from '../../shop/orders/views.ts'
import { badge, type Tone } from './parts.ts'
import { isRoleEnough, type Role } from '../../engine/operations/roles.ts'
import { html } from '../kit/document.ts'
import type { PageRequest } from './page.ts'

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
export function forRole(asked: Pick<PageRequest, 'ctx'>, needed: Role, forms: VNode): VNode {
  return may(asked, needed) ? forms : html`<p class="soft">Only members with the role ${needed} can change this.</p>`
}
