import type { VNode } from 'preact'
import { html } from '../../kit/document.ts'
import type { Asked } from '../page.ts'
import { choice, field } from '../parts.ts'

export interface SettlementInput {
  readonly outcome: string | null
  readonly settledBy: string
  readonly reason: string
}

/** Form that settles a payout with a lost answer. `more`: additional content of a page. */
export function settlementSection(
  { ctx, form, problem }: Pick<Asked, 'ctx' | 'form' | 'problem'>,
  more: { readonly words?: string; readonly fields?: VNode }
): VNode {
  const by = ctx.principal?.id === 'admin' ? '' : (ctx.principal?.id ?? '')
  return html`<section aria-labelledby="settle"><h2 id="settle">Settle manually</h2>
    <p>Check the provider's records first. This records the outcome and sends nothing.${more.words === undefined ? '' : ` ${more.words}`}</p>
    <form method="post" class="form">
      <input type="hidden" name="do" value="settle" />
      ${choice(
        'outcome',
        'Outcome',
        [
          ['sent', 'Sent'],
          ['not-sent', 'Not sent']
        ],
        form.get('outcome') ?? 'sent'
      )}
      ${more.fields}
      ${field({ name: 'settledBy', label: 'Settled by', value: form.get('settledBy') ?? by, problem: problem?.fields['settledBy'], attributes: { required: true, maxlength: 200 } })}
      ${field({ name: 'reason', label: 'Evidence', value: form.get('reason') ?? '', problem: problem?.fields['reason'], attributes: { required: true, maxlength: 1000 } })}
      <button class="button" type="submit">Settle</button>
    </form></section>`
}

export function settlementOf(form: Pick<URLSearchParams, 'get'>): SettlementInput {
  return { outcome: form.get('outcome'), settledBy: form.get('settledBy') ?? '', reason: form.get('reason') ?? '' }
}
