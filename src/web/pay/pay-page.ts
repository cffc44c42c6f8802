import { iso } from '../../engine/formats/iso-time.ts'
import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { document, html, FORM_PAGE_HEADERS, asHtml } from '../kit/document.ts'
import type { PaymentStatus, Payment } from '../../payments/payments/schema.ts'
import type { AssetNames } from '../kit/assets.ts'
import { merchantLine, pictures } from '../kit/pictures.ts'
import { momentText, amountText, bitcoinAmount } from '../kit/amounts.ts'
import { isFinalStatus, payView, type PayFacts, type PayView } from './pay-view.ts'
import { codeToScan, copyField, sandboxNotice, timeLeft, waiting, walletLink } from './payable.ts'
import { bitcoinUri, qrContent } from '../kit/qr-code.ts'
import { randomUUID } from 'node:crypto'
import { Type } from 'typebox'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import { clientNetwork } from '../../engine/message/addresses.ts'
import { VALIDATION } from '../../engine/operations/error-kinds.ts'
import { GatewayError, ValidationError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import type { PaymentLink } from '../../payments/payments/links.ts'
import { FORM_TYPE, sentForm } from '../kit/form.ts'

/** Refresh interval without scripts, in seconds. */
const REFRESH_SECONDS = 10

/** Seconds of the paid state before the redirect to the merchant. */
const SUCCESS_SECONDS = 3

/** Current page of a payment. The script reloads it at each status change. */
export function payPage(facts: PayFacts, assets: AssetNames): string {
  const view = payView(facts)
  return document({ title: view.title, main: body(view), assets, script: true, refresh: refreshOf(view) })
}

export function missingPage(assets: AssetNames, root?: string): string {
  return document({
    ...(root === undefined ? {} : { root }),
    title: t('Payment not found'),
    assets,
    script: false,
    refresh: null,
    main: html`
      <main class="alone">
        <section class="panel result">
          ${pictures.missing()}
          <h1 class="result-heading">Payment not found</h1>
          <p class="result-words">This link does not lead to a payment. Check that the link is complete, or ask the sender for a new one.</p>
        </section>
      </main>`
  })
}

function refreshOf({ payment, successUrl }: PayView): string | null {
  // Unquoted, the address extends to the end of the value.
  if (successUrl !== null) return `${SUCCESS_SECONDS}; url=${successUrl}`
  return isFinalStatus(payment.status) ? null : String(REFRESH_SECONDS)
}

function body(view: PayView): VNode {
  const { payment } = view
  const { status } = payment
  return html`
    <main
      id="payment"
      data-status=${status}
      data-final=${isFinalStatus(status) ? '' : null}
      data-announce=${`${view.heading}. ${view.words}`}
      data-events=${`${payment.payToken}/events`}
      data-status-address=${`${payment.payToken}/status`}
    >
      ${summary(view)}
      ${status !== 'unpaid' ? result(view, status) : view.isUnresolved ? result(view, 'processing') : due(view)}
    </main>`
}

function summary({ merchantName, amount, satoshis, payment }: PayView): VNode {
  return html`
    <header class="summary">
      ${merchantLine(merchantName)}
      <h1 class=${amount.length > 10 ? 'amount long' : 'amount'}>${payment.status === 'unpaid' ? html`<span class="unseen">Pay </span>` : null}${amount}</h1>
      ${satoshis === null ? null : html`<p class="satoshis">${satoshis}</p>`}
      ${payment.description === null || payment.description === '' ? null : html`<p class="description" dir="auto" tabindex=${scrolls(payment.description) ? 0 : null}>${payment.description}</p>`}
    </header>`
}

/** Whether the description may overflow its box, which must then be focusable. */
function scrolls(description: string): boolean {
  return description.length > 150 || description.includes('\n')
}

function due(view: PayView): VNode {
  const { payment, demo, heading, words, sandboxAction = null } = view
  return html`
    <section class="panel" aria-labelledby="state">
      ${waiting(heading, demo ? null : timeLeft({ ...payment, now: view.now }))}
      ${demo ? html`<p class="notice"><strong>This is a demo.</strong> ${words}</p>` : null}
      ${codeToScan(qrContent(payment), t('QR code of the invoice'))}
      ${
        demo
          ? null
          : html`
        <p class="hint">${words}</p>
        ${walletLink(payment.invoice)}`
      }
      ${copyField(t('Lightning invoice'), payment.invoice)}
      ${
        bitcoinUri(payment) === null
          ? null
          : html`
        ${copyField(t('Or pay on-chain to this Bitcoin address'), payment.onchainAddress ?? '')}
        <p class="more"><a href=${bitcoinUri(payment)}>Open in on-chain wallet</a></p>`
      }
      ${sandboxNotice(view.sandboxCommand, sandboxAction === null ? null : html`<form class="form" method="post" action=${sandboxAction}><button class="button" type="submit">Pay in sandbox</button></form>`)}
    </section>`
}

function result(view: PayView, status: Exclude<PaymentStatus, 'unpaid'>): VNode {
  const { payment, heading, words, successUrl, backUrl, merchantName } = view
  return html`
    <section class=${`panel result ${status}`} aria-labelledby="state">
      ${pictures[status]()}
      <h2 id="state" class="result-heading" tabindex="-1">${heading}</h2>
      <p class="result-words">${words}</p>
      ${status !== 'paid' || payment.paidAt === null ? null : html`<p class="when"><time datetime=${iso(payment.paidAt)}>${momentText(payment.paidAt)}</time></p>`}
      ${
        successUrl === null
          ? null
          : html`
        <a class="button" id="continue" href=${successUrl} data-after=${SUCCESS_SECONDS * 1000}>Back to <bdi>${merchantName}</bdi></a>
        <p class="more">Redirecting in a moment…</p>`
      }
      ${rest(view)}
      ${backUrl === null ? null : html`<a class="button" href=${backUrl}>Back to <bdi>${merchantName}</bdi></a>`}
      <p class="more">Reference: <span class="reference">${payment.invoiceId}</span></p>
    </section>`
}

/** On-chain address with the remaining amount. */
function rest({ payment, restSats }: PayView): VNode | null {
  const uri = restSats === null ? null : bitcoinUri({ ...payment, invoice: null, amountSats: restSats })
  if (uri === null) return null
  return html`
    ${codeToScan(uri, t('QR code of the remaining amount'))}
    <a class="button" href=${uri}>Open in wallet</a>
    ${copyField(t('Bitcoin address'), payment.onchainAddress ?? '')}`
}

export interface PaymentLinkPages {
  find(linkId: string): Promise<{ readonly link: PaymentLink; readonly merchant: Merchant } | null>
  pay(merchant: Merchant, link: PaymentLink, amount: string, key: string, client: string): Promise<Payment>
}

const ROOT = '../../'

/** Public page of a payment link, and its form, which makes the payer's own payment. */
export function linkPageOperations(links: PaymentLinkPages, assets: AssetNames): AnyOperation[] {
  const common = {
    path: '/pay/to/:linkId',
    tag: 'pages',
    access: 'public',
    mount: { use: ['pages', 'storefront'], chain: 'page-forms', below: '/pay/*' },
    params: Type.Object({ linkId: Type.String() })
  } as const
  const missing = (): Result => ({ status: 404, body: missingPage(assets, ROOT), headers: FORM_PAGE_HEADERS })
  const page = (
    status: number,
    link: PaymentLink,
    merchant: Merchant,
    typed: string,
    problem: string | null
  ): Result => ({
    status,
    body: linkPage(link, merchant.name, typed, problem, assets),
    headers: status === 503 ? ['Retry-After', '60', ...FORM_PAGE_HEADERS] : FORM_PAGE_HEADERS
  })
  return [
    defineOperation({
      ...common,
      id: 'getPaymentLinkPage',
      method: 'GET',
      summary: 'Page of a payment link',
      description: 'Shows the merchant, the amount or a field for it, and a button that makes the payment.',
      responses: {
        200: asHtml('The page.'),
        404: asHtml('A page that says that there is nothing to pay.')
      },
      handle: async ({ params }) => {
        const found = await links.find(params.linkId)
        return found === null ? missing() : page(200, found.link, found.merchant, '', null)
      }
    }),
    defineOperation({
      ...common,
      id: 'payPaymentLink',
      method: 'POST',
      summary: 'Make a payment with a payment link',
      description: 'Redirects to the pay page of a new payment. The same form sent twice makes one.',
      form: {
        mediaType: FORM_TYPE,
        schema: Type.Object({ amount: Type.Optional(Type.String()), key: Type.Optional(Type.String()) })
      },
      responses: {
        303: { description: 'Made; the pay page is at `Location`.' },
        404: asHtml('A page that says that there is nothing to pay.'),
        422: asHtml('The page again, with what is wrong with the amount.'),
        503: asHtml('The page again: no payment can be made at the moment.')
      },
      handle: async ({ ctx, params }) => {
        const found = await links.find(params.linkId)
        if (found === null) return missing()
        const { link, merchant } = found
        const form = await sentForm(ctx)
        const typed = form.text('amount')
        // Payers think in satoshis.
        const amount = link.currency === 'BTC' && /^\d{1,16}$/.test(typed) ? bitcoinAmount(Number(typed)) : typed
        if (link.amount === null && link.currency === 'BTC' && amount === typed)
          return page(422, link, merchant, typed, t('Enter a whole number of satoshis, such as 2500.'))
        try {
          const { payToken } = await links.pay(
            merchant,
            link,
            amount,
            form.get('key') ?? ctx.correlationId,
            clientNetwork(ctx.clientAddress)
          )
          return { status: 303, body: null, headers: ['Location', `../${payToken}`, ...FORM_PAGE_HEADERS] }
        } catch (error) {
          if (!(error instanceof GatewayError)) throw error
          const isAmount = error instanceof ValidationError || error.code === VALIDATION.code
          const words = error instanceof ValidationError ? Object.values(error.errors).flat().join(' ') : error.message
          return isAmount
            ? page(422, link, merchant, typed, t(words))
            : page(503, link, merchant, typed, t('Payments are unavailable right now. Try again in a few minutes.'))
        }
      }
    })
  ]
}

function linkPage(link: PaymentLink, payee: string, typed: string, problem: string | null, assets: AssetNames): string {
  const { amount, currency, description } = link
  const unit = currency === 'BTC' ? t('satoshis') : currency
  return document({
    title: t`Pay ${payee}`,
    assets,
    root: ROOT,
    script: false,
    refresh: null,
    main: html`
      <main>
        <header class="summary">
          ${merchantLine(payee)}
          <h1 class="amount">${amount === null ? t('Pay') : amountText(amount, currency)}</h1>
          ${description === null ? null : html`<p class="description" dir="auto">${description}</p>`}
        </header>
        <section class="panel">
          ${problem === null ? null : html`<p class="notice" id="problem" role="alert">${problem}</p>`}
          <form class="form" method="post">
            <input type="hidden" name="key" value=${randomUUID()} />
            ${
              amount !== null
                ? null
                : html`<label for="amount">Amount in ${unit}</label>
                  <input id="amount" name="amount" value=${typed} required maxlength="20" autocomplete="off"
                    inputmode=${currency === 'BTC' ? 'numeric' : 'decimal'} aria-invalid=${problem === null ? null : 'true'}
                    aria-describedby=${problem === null ? null : 'problem'} />`
            }
            <button class="button" type="submit">Pay with Lightning</button>
          </form>
        </section>
      </main>`
  })
}
