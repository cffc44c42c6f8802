import { t } from '../../engine/formats/language.ts'
import { randomUUID } from 'node:crypto'
import { Type } from 'typebox'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import { clientNetwork } from '../../engine/message/addresses.ts'
import { VALIDATION } from '../../engine/operations/error-kinds.ts'
import { GatewayError, ValidationError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import type { PaymentLink } from '../../payments/payments/links.ts'
import type { Payment } from '../../payments/payments/schema.ts'
import { amountText, bitcoinAmount } from '../kit/amounts.ts'
import type { AssetNames } from '../kit/assets.ts'
import { document, FORM_PAGE_HEADERS, html, HTML_TYPE } from '../kit/document.ts'
import { FORM_TYPE, sentForm } from '../kit/form.ts'
import { merchantLine } from '../kit/merchant-line.ts'
import { missingPage } from './pay-page.ts'

export interface LinkPageDependencies {
  readonly links: {
    find(linkId: string): Promise<{ readonly link: PaymentLink; readonly merchant: Merchant } | null>
    pay(merchant: Merchant, link: PaymentLink, amount: string, key: string, client: string): Promise<Payment>
  }
  readonly assets: AssetNames
}

const ROOT = '../../'
const MOST_FORM = 2048

/** Public page of a payment link, and its form, which makes the payer's own payment. */
export function linkPageOperations({ links, assets }: LinkPageDependencies): AnyOperation[] {
  const common = {
    path: '/pay/to/:linkId',
    tag: 'pages',
    access: 'public',
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
      mount: { use: 'pages', chain: 'page-forms', below: '/pay/*' },
      summary: 'Page of a payment link',
      description: 'Shows the merchant, the amount or a field for it, and a button that makes the payment.',
      responses: {
        200: { description: 'The page.', mediaType: HTML_TYPE },
        404: { description: 'A page that says that there is nothing to pay.', mediaType: HTML_TYPE }
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
      mount: { use: 'pages', chain: 'page-forms', below: '/pay/*' },
      summary: 'Make a payment with a payment link',
      description: 'Redirects to the pay page of a new payment. The same form sent twice makes one.',
      form: {
        mediaType: FORM_TYPE,
        schema: Type.Object({ amount: Type.Optional(Type.String()), key: Type.Optional(Type.String()) })
      },
      responses: {
        303: { description: 'Made; the pay page is at `Location`.' },
        404: { description: 'A page that says that there is nothing to pay.', mediaType: HTML_TYPE },
        422: { description: 'The page again, with what is wrong with the amount.', mediaType: HTML_TYPE },
        503: { description: 'The page again: no payment can be made at the moment.', mediaType: HTML_TYPE }
      },
      handle: async ({ ctx, params }) => {
        const found = await links.find(params.linkId)
        if (found === null) return missing()
        const { link, merchant } = found
        const form = await sentForm(ctx, MOST_FORM)
        const typed = (form.get('amount') ?? '').trim()
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
