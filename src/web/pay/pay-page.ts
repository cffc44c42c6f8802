import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { document, html } from '../kit/document.ts'
import type { PaymentStatus } from '../../payments/payments/schema.ts'
import type { AssetNames } from '../kit/assets.ts'
import { codeToScan, copyField, timeLeft, waiting, walletLink } from './invoice-parts.ts'
import { merchantLine } from '../kit/merchant-line.ts'
import { momentText } from '../kit/moments.ts'
import { isFinalStatus, payView, type PayFacts, type PayView } from './pay-view.ts'
import { pictures } from '../kit/pictures.ts'
import { bitcoinUri, qrContent } from '../kit/qr-code.ts'

/** Refresh interval without scripts, in seconds. */
const REFRESH_SECONDS = 10

/** Seconds of the paid state before the redirect to the merchant. */
const SUCCESS_SECONDS = 3

/** Current page of a payment. The script reloads it at each status change. */
export function payPage(facts: PayFacts, assets: AssetNames): string {
  const view = payView(facts)
  return document({ title: view.title, main: body(view), assets, script: true, refresh: refreshOf(view) })
}

/** Page for an unknown token. */
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

/** Public status operation, relative to a pay page. */
export function paymentStatusAddress(invoiceId: string): string {
  return `../api/payments/${invoiceId}/status`
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
      data-status-address=${view.statusAddress ?? paymentStatusAddress(payment.invoiceId)}
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
  const { payment, demo, heading, words } = view
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
      ${sandboxNotice(view)}
    </section>`
}

/** How to pay in the sandbox: a button where allowed, else the command. */
function sandboxNotice({ sandboxAction = null, sandboxCommand }: PayView): VNode | null {
  if (sandboxCommand === null) return null
  return html`
    <div class="notice">
      <p><strong>Sandbox: no real money.</strong> ${sandboxAction === null ? t('Pay from a terminal on the gateway’s machine:') : t('Pay here, or from a terminal on the gateway’s machine:')}</p>
      ${sandboxAction === null ? null : html`<form class="form" method="post" action=${sandboxAction}><button class="button" type="submit">Pay in sandbox</button></form>`}
      ${copyField(t('Command'), sandboxCommand)}
    </div>`
}

function result(view: PayView, status: Exclude<PaymentStatus, 'unpaid'>): VNode {
  const { payment, heading, words, successUrl, backUrl, merchantName } = view
  return html`
    <section class=${`panel result ${status}`} aria-labelledby="state">
      ${pictures[status]()}
      <h2 id="state" class="result-heading" tabindex="-1">${heading}</h2>
      <p class="result-words">${words}</p>
      ${status !== 'paid' || payment.paidAt === null ? null : html`<p class="when"><time datetime=${new Date(payment.paidAt).toISOString()}>${momentText(payment.paidAt)}</time></p>`}
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
