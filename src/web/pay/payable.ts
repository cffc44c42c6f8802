import type { VNode } from 'preact'
import { t } from '../../engine/formats/language.ts'
import type { Payment } from '../../payments/payments/schema.ts'
import { html } from '../kit/document.ts'
import { qrCode } from '../kit/qr-code.ts'

/**
 * What a pay page shows: a merchant's payment, or another payable with one Lightning invoice and a random token, such
 * as a plan.
 */
export type Payable = Pick<
  Payment,
  | 'invoiceId'
  | 'payToken'
  | 'status'
  | 'amount'
  | 'currency'
  | 'description'
  | 'successUrl'
  | 'kind'
  | 'invoice'
  | 'onchainAddress'
  | 'amountSats'
  | 'receivedSats'
  | 'createdAt'
  | 'expiresAt'
  | 'confirmsAt'
  | 'paidAt'
>

/** A payable with its payee's name. */
export interface Shown {
  readonly payable: Payable
  readonly payee: string
}

export interface PayableSource {
  byPayToken(token: string): Promise<Shown | null>
}

/** Invoices are alphanumeric: only the JSON needs shell quotes. */
export function sandboxPayCommand(publicUrl: string, invoice: string): string {
  return `curl ${publicUrl}/sandbox/pay -H 'Content-Type: application/json' -d '{"invoice":"${invoice}"}'`
}

/** How to pay in the sandbox, by `button` where the reader may, else by a command; null for another provider. */
export function sandboxNotice(command: string | null, button: VNode | null): VNode | null {
  if (command === null) return null
  return html`
    <div class="notice">
      <p><strong>Sandbox: no real money.</strong> ${button === null ? t('Pay from a terminal on the gateway’s machine:') : t('Pay here, or from a terminal on the gateway’s machine:')}</p>
      ${button}
      ${copyField(t('Command'), command)}
    </div>`
}

/** Heading with a pulsing dot while the page waits. `beside` is at its end. */
export function waiting(heading: string, beside: VNode | null): VNode {
  return html`
    <div class="state">
      <h2 id="state" class="state-heading" tabindex="-1"><span class="pulse" aria-hidden="true"></span>${heading}</h2>
      ${beside}
    </div>`
}

/** Countdown. All times in milliseconds since the epoch. */
export function timeLeft({
  createdAt,
  expiresAt,
  now
}: {
  readonly createdAt: number
  readonly expiresAt: number
  readonly now: number
}): VNode {
  const left = Math.max(0, expiresAt - now)
  const until = new Date(expiresAt).toISOString()
  return html`
    <p class="clock" role="timer" aria-live="off">
      <span class="unseen">Expires </span>
      <time datetime=${until} data-left=${left}>until ${until.slice(11, 16)} UTC</time>
    </p>
    <progress class="remaining" aria-hidden="true" max=${Math.max(1, expiresAt - createdAt)} value=${left}></progress>`
}

export function codeToScan(content: string, label: string): VNode {
  return html`<div class="code">${qrCode(content, label)}</div>`
}

export function walletLink(invoice: string): VNode {
  return html`<a class="button" href=${`lightning:${invoice}`}>Open in wallet</a>`
}

/** A selectable line with a copy button. */
export function copyField(label: string, text: string): VNode {
  return html`
    <div class="field">
      <span class="field-label">${label}</span>
      <div class="field-row">
        <code class="field-text" tabindex="0" dir="ltr">${text}</code>
        <button class="copy" type="button" aria-label=${t`Copy: ${label}`} hidden>Copy</button>
      </div>
    </div>`
}
