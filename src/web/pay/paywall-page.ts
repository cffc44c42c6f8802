import type { VNode } from 'preact'
import { document, html, type InlineAssets } from '../kit/document.ts'
import { codeToScan, copyField, timeLeft, waiting, walletLink } from './invoice-parts.ts'
import { merchantLine } from '../kit/merchant-line.ts'
import { pictures } from '../kit/pictures.ts'
import { qrContent } from '../kit/qr-code.ts'

/** Everything that the page of a challenge depends on. */
export interface PaywallFacts {
  /** Who sells, for people. */
  readonly seller: string
  /** The price as people write it, such as `10 sats` or `$0.02`. */
  readonly amount: string
  /** The same in other money, smaller; null for none. */
  readonly alsoAmount: string | null
  readonly description: string
  /** The address that is sold, as its reader sees it. */
  readonly address: string
  /** The balance that the payment buys, in words such as `a balance, from which each request takes 2 sats`; null for none. */
  readonly balance: string | null
  readonly invoice: string
  readonly createdAt: number
  readonly expiresAt: number
  /** This and the two above in milliseconds since the epoch. */
  readonly now: number
  readonly isStillUnpaid: boolean
  readonly again: 'over' | 'used-up' | null
  /** A command that pays at the sandbox; null where nobody can pay so. */
  readonly sandboxCommand: string | null
  readonly paysInSandbox: boolean
}

/** Seconds between two looks of a browser that runs no program, once its reader has said that it is paid. */
const REFRESH_SECONDS = 10

/** The page of a challenge: what it costs, for what, and how to pay it. */
export function paywallPage(facts: PaywallFacts, assets: InlineAssets): string {
  const seller = withoutTurns(facts.seller)
  return document({
    title: `Pay ${facts.amount} · ${seller}`,
    assets,
    script: true,
    refresh: facts.isStillUnpaid ? String(REFRESH_SECONDS) : null,
    main: html`
      <main id="paywall">
        ${summary(facts, seller)}
        <section class="panel" aria-labelledby="state">
          ${notice(facts)}
          ${waiting('Waiting for payment', timeLeft(facts))}
          ${codeToScan(qrContent({ invoice: facts.invoice, onchainAddress: null, amountSats: null }), 'QR code of the invoice')}
          <p class="hint">Scan the code with a Lightning wallet. What you buy opens here once it is paid.</p>
          ${walletLink(facts.invoice)}
          <button class="button second" type="button" id="browser-wallet" data-invoice=${facts.invoice} hidden>Pay with this browser’s wallet</button>
          ${copyField('Lightning invoice', facts.invoice)}
          <a class="button second" id="paid-link" href="">I have paid</a>
          ${sandbox(facts)}
        </section>
        <template id="paid">
          <section class="panel result paid" aria-labelledby="state">
            ${pictures.paid()}
            <h2 id="state" class="result-heading" tabindex="-1">Paid</h2>
            <p class="result-words" id="what-now">Thank you. What you bought is being opened.</p>
            <a class="button" href="">Open it</a>
          </section>
        </template>
        <template id="lost">
          <p class="notice warn" role="alert"><span>This page has lost sight of your payment: it needs cookies, and they may have been deleted.</span> <a href="">Load it anew</a></p>
        </template>
      </main>`
  })
}

/** Characters that turn the direction of what follows would let a name rewrite the words around it. */
function withoutTurns(name: string): string {
  return name.replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, '')
}

function summary({ amount, alsoAmount, description, address, balance }: PaywallFacts, seller: string): VNode {
  return html`
    <header class="summary">
      ${merchantLine(seller)}
      <h1 class=${amount.length > 10 ? 'amount long' : 'amount'}><span class="unseen">Pay </span>${amount}</h1>
      ${alsoAmount === null ? null : html`<p class="satoshis">${alsoAmount}</p>`}
      <p class="description" dir="auto">${description}</p>
      <p class="address"><bdi>${address}</bdi></p>
      ${balance === null ? null : html`<p class="description">This buys ${balance}.</p>`}
    </header>`
}

function notice({ again, isStillUnpaid }: PaywallFacts): VNode | null {
  if (again === 'over')
    return html`<p class="notice" role="status"><strong>What you paid for is over.</strong> Pay again to open it once more.</p>`
  if (again === 'used-up')
    return html`<p class="notice" role="status"><strong>Your balance is used up.</strong> Pay again to go on.</p>`
  return isStillUnpaid
    ? html`<p class="notice" role="status"><strong>No payment has arrived yet.</strong> It can take a few seconds; there is no need to pay twice.</p>`
    : null
}

function sandbox({ sandboxCommand, paysInSandbox }: PaywallFacts): VNode | null {
  if (sandboxCommand === null) return null
  return html`
    <div class="notice">
      <p><strong>Sandbox: no real money.</strong> Pay from a terminal on the gateway’s machine${paysInSandbox ? ', or here' : ''}:</p>
      ${paysInSandbox ? html`<button class="button" type="button" id="sandbox-wallet" hidden>Pay in the sandbox</button>` : null}
      ${copyField('Command', sandboxCommand)}
    </div>`
}
