import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { AccountView } from '../../../accounts/merchants/account.ts'
import type { PaymentLinkView } from '../../../payments/payments/links.ts'
import type { PaymentView } from '../../../payments/payments/schema.ts'
import { bitcoinAmount } from '../../kit/amounts.ts'
import { html } from '../../kit/document.ts'
import { invalid } from '../api.ts'
import type { PageRequest, ConsolePage } from '../page.ts'
import { action, copyable, fieldsOf, table } from '../parts.ts'
import { forRole, may, amountIn, timeOf } from '../words.ts'

const LINKS = '/api/merchant/payment-links'
const PAD = ['1', '2', '3', '4', '5', '6', '7', '8', '9', '.', '0', '⌫']

export const tillPage: ConsolePage = {
  id: 'getConsoleTill',
  path: 'till',
  summary: 'Take a payment now, or by a link',
  async show(request) {
    const [{ features }, links] = await Promise.all([
      request.api.get<AccountView>('/api/merchant/me'),
      request.api.get<readonly PaymentLinkView[]>(LINKS)
    ])
    return {
      title: 'Take a payment',
      content: html`
        ${forRole(request, 'editor', paymentForm(request, features))}
        <section aria-labelledby="links"><h2 id="links">Payment links</h2>
          <p>A link can be paid any number of times. Send it or print its code.</p>
          ${table(
            'Payment links',
            [
              ['Description', ({ description, url }) => html`<bdi>${description ?? '–'}</bdi> <a href=${url}>Open</a>`],
              ['Amount', ({ amount, currency }) => (amount === null ? t('Payer chooses') : amountIn(amount, currency))],
              ['Link', ({ url, linkId }) => copyable(`link-${linkId}`, 'Address', url)],
              ['Created', ({ createdAt }) => timeOf(createdAt)],
              [
                'Remove',
                ({ linkId, description }) =>
                  may(request, 'editor')
                    ? action('Remove', { do: 'remove', linkId }, { what: t`payment link ${description ?? linkId}` })
                    : null
              ]
            ],
            links,
            html`<p>No payment links yet. Create one below.</p>`
          )}
          ${may(request, 'editor') ? linkForm(request, features) : null}
        </section>`
    }
  },
  async act({ api, form }) {
    switch (form.get('do')) {
      case 'payment': {
        const key = form.text('key')
        const orderId = form.text('orderId') || `till-${key.replaceAll('-', '').slice(0, 12)}`
        const { invoiceId } = await api.post<PaymentView>('/api/payments', { orderId, ...amountInput(form) }, key)
        return { to: `payments/${invoiceId}` }
      }
      case 'link':
        await api.post(LINKS, amountInput(form, true))
        return { to: 'till', done: 'made' }
      case 'remove':
        await api.delete(`${LINKS}/${encodeURIComponent(form.text('linkId'))}`)
        return { to: 'till', done: 'removed' }
      default:
        return { to: 'till' }
    }
  }
}

/** @throws ApiRefusal for 0, which would be a demo that pays itself */
function amountInput(form: PageRequest['form'], isOptional = false) {
  const [typed, unit, description] = [form.text('amount'), form.text('currency'), form.text('description')]
  const shared = { currency: unit === 'sats' ? 'BTC' : unit, ...(description === '' ? {} : { description }) }
  if (typed === '' && isOptional) return shared
  const isWhole = /^\d{1,16}$/.test(typed)
  if (unit === 'sats' && !isWhole) throw invalid('amount', 'Enter a whole number of satoshis, such as 2500.')
  if (/^[0.]*$/.test(typed)) throw invalid('amount', 'Enter an amount above 0.')
  return { ...shared, amount: unit === 'sats' ? bitcoinAmount(Number(typed)) : typed }
}

type Features = AccountView['features']

function paymentForm(request: PageRequest, features: Features): VNode {
  const { ctx, form } = request
  return html`<form method="post" class="form till">
    <input type="hidden" name="do" value="payment" /><input type="hidden" name="key" value=${form.get('key') ?? ctx.correlationId} />
    ${amountFields(request, 'payment', features)}
    ${fieldsOf(request, 'payment')('orderId', 'Order number (optional)', { maxlength: 100 })}
    <button class="button" type="submit">Create payment</button>
  </form>`
}

function linkForm(request: PageRequest, features: Features): VNode {
  return html`<form method="post" class="form" aria-label="New payment link">
    <input type="hidden" name="do" value="link" />
    ${amountFields(request, 'link', features)}
    <button class="button" type="submit">Create payment link</button>
  </form>`
}

function amountFields(request: PageRequest, form: 'payment' | 'link', { multiCurrencyEnabled }: Features): VNode {
  const field = fieldsOf(request, form)
  const names = ['BTC', 'USD', ...(multiCurrencyEnabled ? ['EUR', 'GBP'] : [])]
  const units = [['sats', 'Satoshis'] as const, ...names]
  const pad = html`<div class="pad" data-pad="payment-amount" hidden>${PAD.map(
    key =>
      html`<button class="button second" type="button" data-key=${key} aria-label=${key === '⌫' ? t('Delete') : key}>${key}</button>`
  )}</div>`
  return html`
    ${field('amount', form === 'link' ? 'Amount (leave empty to let the payer choose)' : 'Amount', { inputmode: 'decimal', maxlength: 20, autocomplete: 'off', required: form === 'payment' })}
    ${field('currency', 'Currency', { options: units })}
    ${form === 'payment' ? pad : null}
    ${field('description', 'Description', { hint: 'Shown to the payer.', maxlength: 500 })}`
}
