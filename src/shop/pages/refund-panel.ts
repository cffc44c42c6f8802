import type { VNode } from 'preact'
import { satoshisText } from '../../web/kit/amounts.ts'
import { html } from '../../web/kit/document.ts'
import { failureWords } from '../orders/making.ts'
import type { Order } from '../schema.ts'

/** Longest Bitcoin address or invoice (contract, Limits: refundAddress). */
export const LONGEST_ADDRESS = 500

/** Why a paid order was not made, and a form for a refund address; null without a failure. */
export function refundPanel(order: Order, action: string, given = '', refusal: string | null = null): VNode | null {
  const { failure, refundRequest, refundedAt } = order
  if (failure === null && refundRequest === null && refundedAt === null) return null
  if (refundedAt !== null)
    return html`<section class="panel" aria-labelledby="refund"><h2 id="refund" class="result-heading">Your money has been sent back</h2></section>`
  return html`
    <section class="panel" aria-labelledby="refund">
      <div>
        <h2 id="refund" class="result-heading">${refundRequest === null ? 'Or ask for your money back' : 'You have asked for your money back'}</h2>
        ${failure === null ? null : html`<p class="soft">${failureWords(failure.reason)} You can wait and send your address again, or ask for the money back.</p>`}
        ${refundRequest === null ? null : html`<p class="soft">The shop sends it to <bdi>${refundRequest.address}</bdi>. Until then your order can still be placed.</p>`}
      </div>
      <form class="form" method="post" action=${action}>
        <div class=${refusal === null ? 'input' : 'input wrong'}>
          <label for="refundAddress"><span class="label-text">Bitcoin address or Lightning invoice</span></label>
          ${refusal === null ? null : html`<p class="error" id="refundAddress-error">${refusal}</p>`}
          <input id="refundAddress" name="refundAddress" type="text" value=${given} maxlength=${LONGEST_ADDRESS} autocapitalize="none" spellcheck="false" autocomplete="off" required
            ...${refusal === null ? {} : { 'aria-invalid': 'true', 'aria-describedby': 'refundAddress-error' }} />
        </div>
        <button class="button second" data-busy="Asking…">${refundRequest === null ? 'Ask for my money back' : 'Use this address instead'}</button>
        <p class="hint">You have paid ${satoshisText(order.totalSats)}. The shop sends the money by hand: an invoice should last for some days.</p>
      </form>
    </section>`
}
