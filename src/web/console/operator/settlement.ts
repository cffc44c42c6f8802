import type { ComponentChildren, VNode } from 'preact'
import { html } from '../../kit/document.ts'
import type { PageRequest } from '../page.ts'
import { choice, facts, field, steps } from '../parts.ts'
import { timeOf } from '../words.ts'

export interface SettlementInput {
  readonly outcome: string | null
  readonly settledBy: string
  readonly reason: string
}

export interface PayoutFacts {
  readonly provider: ComponentChildren
  /** References by which the provider knows it. */
  readonly references: ReadonlyArray<readonly [string, ComponentChildren]>
  readonly amount: string
  /** When it was sent; null if unknown. */
  readonly sentAt: string | null
}

/** Steps that settle a payout with a lost answer. `more`: additional content of a page. */
export function settlementSection(
  { ctx, form, problem }: Pick<PageRequest, 'ctx' | 'form' | 'problem'>,
  { amount, provider, references, sentAt }: PayoutFacts,
  more: { readonly words?: string; readonly fields?: VNode }
): VNode {
  const by = ctx.principal?.id === 'admin' ? '' : (ctx.principal?.id ?? '')
  return html`<section aria-labelledby="settle"><h2 id="settle">Settle manually</h2>
    <form method="post" class="form">
      <input type="hidden" name="do" value="settle" />
      ${steps([
        [
          'Find the payout at the provider',
          html`<p>Sign in at ${provider} and look for an outgoing payment of ${amount}, sent around ${timeOf(sentAt)}.</p>
            ${facts(references)}`
        ],
        [
          'Record what you found',
          html`<p>Choose “Not sent” only if the provider lists no such payment, or lists it as failed. This records the outcome and sends nothing.${more.words === undefined ? '' : ` ${more.words}`}</p>
            ${choice(
              'outcome',
              'Outcome',
              [
                ['sent', 'Sent'],
                ['not-sent', 'Not sent']
              ],
              form.get('outcome') ?? 'sent'
            )}
            ${more.fields}`
        ],
        [
          'Sign and settle',
          html`${field({ name: 'settledBy', label: 'Settled by', value: form.get('settledBy') ?? by, problem: problem?.fields['settledBy'], attributes: { required: true, maxlength: 200 } })}
            ${field({ name: 'reason', label: 'Evidence', value: form.get('reason') ?? '', problem: problem?.fields['reason'], hint: "For example, the provider's payment ID and status. It is kept with the refund.", attributes: { required: true, maxlength: 1000 } })}
            <button class="button" type="submit">Settle</button>
            <p class="soft">“Sent” counts as confirmed by the provider. After “Not sent” nothing is sent automatically; a new refund can be made.</p>`
        ]
      ])}
    </form></section>`
}

export function settlementOf(form: Pick<URLSearchParams, 'get'>): SettlementInput {
  return { outcome: form.get('outcome'), settledBy: form.get('settledBy') ?? '', reason: form.get('reason') ?? '' }
}
