import type { ChallengePages, PayPageRequest } from '../../selling/paywall/paywall.ts'
import { meterWords } from '../../engine/checks/meter.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { FiatText } from '../../engine/checks/money-text.ts'
import { type Quotes, fiatOf } from '../../lightning/money/prices.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { speaking, t } from '../../engine/formats/language.ts'
import { accentStyle } from '../kit/accent.ts'
import { amountText, satoshisText, withoutTurns } from '../kit/amounts.ts'
import { assetText } from '../kit/assets.ts'
import { HTML_TYPE, inlinePageHeaders, type InlineAssets, document, html } from '../kit/document.ts'
import { readersWorth } from '../kit/reader-money.ts'
import type { SandboxWallet } from '../../lightning/providers/open.ts'
import type { VNode } from 'preact'
import { codeToScan, copyField, sandboxNotice, sandboxPayCommand, timeLeft, waiting, walletLink } from './payable.ts'
import { merchantLine, pictures } from '../kit/pictures.ts'
import { qrContent } from '../kit/qr-code.ts'
import { randomUUID } from 'node:crypto'
import type { KeyPages } from '../../selling/balances/key-operations.ts'
import { titleOf } from '../../engine/sections/suite.ts'

interface PaywallFacts {
  /** Without bidirectional controls. */
  readonly seller: string
  /** The price, such as `10 sats` or `$0.02`. */
  readonly amount: string
  /** The price in another currency; null for none. */
  readonly alsoAmount: string | null
  readonly sandboxCommand: string | null
}

/** Refresh interval without scripts in seconds, after the reader reports the payment. */
const REFRESH_SECONDS = 10

function paywallPage(request: PayPageRequest, facts: PaywallFacts, assets: InlineAssets): string {
  const { challenge, isStillUnpaid, now, paysInSandbox } = request
  const { invoice } = challenge
  return document({
    title: `${t`Pay ${facts.amount}`} · ${facts.seller}`,
    assets,
    script: true,
    refresh: isStillUnpaid ? String(REFRESH_SECONDS) : null,
    main: html`
      <main id="paywall">
        ${summary(request, facts)}
        <section class="panel" aria-labelledby="state">
          ${notice(request)}
          ${waiting(t('Waiting for payment'), timeLeft({ ...challenge, now }))}
          ${codeToScan(qrContent({ invoice, onchainAddress: null, amountSats: null }), t('QR code of the invoice'))}
          <p class="hint">Scan the code with a Lightning wallet. Your purchase opens here once the invoice is paid.</p>
          ${walletLink(invoice)}
          <button class="button second" type="button" id="browser-wallet" data-invoice=${invoice} hidden>Pay with browser wallet</button>
          ${copyField(t('Lightning invoice'), invoice)}
          <a class="button second" id="paid-link" href="">I have paid</a>
          ${sandboxNotice(facts.sandboxCommand, paysInSandbox ? html`<button class="button" type="button" id="sandbox-wallet" hidden>Pay in sandbox</button>` : null)}
        </section>
        <template id="paid">
          <section class="panel result paid" aria-labelledby="state">
            ${pictures.paid()}
            <h2 id="state" class="result-heading" tabindex="-1">Paid</h2>
            <p class="result-words" id="what-now">Thank you. Opening your purchase…</p>
            <a class="button" href="">Open now</a>
          </section>
        </template>
        <template id="lost">
          <p class="notice warn" role="alert"><span>This page can no longer find your payment. It needs cookies, and they may have been deleted.</span> <a href="">Reload page</a></p>
        </template>
      </main>`
  })
}

function summary(request: PayPageRequest, { amount, alsoAmount, seller }: PaywallFacts): VNode {
  const { challenge, offer } = request
  // The page of a key's own invoice has the passPath of that.
  const keys = offer.keys === true && offer.passPath === undefined
  return html`
    <header class="summary">
      ${merchantLine(seller)}
      <h1 class=${amount.length > 10 ? 'amount long' : 'amount'}><span class="unseen">Pay </span>${amount}</h1>
      ${alsoAmount === null ? null : html`<p class="satoshis">${alsoAmount}</p>`}
      <p class="description" dir="auto">${challenge.description}</p>
      <p class="address"><bdi>${addressOf(request)}</bdi></p>
      ${offer.meter === null ? null : html`<p class="description">You buy ${meterWords(offer.meter)}.</p>`}
      ${keys ? html`<p class="description"><a href="/l402/keys">${t('Buy an API key')}</a></p>` : null}
    </header>`
}

function notice({ again, isStillUnpaid }: PayPageRequest): VNode | null {
  if (again === 'over')
    return html`<p class="notice" role="status"><strong>Your access has expired.</strong> Pay again to reopen this page.</p>`
  if (again === 'used-up')
    return html`<p class="notice" role="status"><strong>Your balance is used up.</strong> Pay again to continue.</p>`
  return isStillUnpaid
    ? html`<p class="notice" role="status"><strong>Payment not received yet.</strong> It can take a few seconds. Do not pay twice.</p>`
    : null
}

/** Opens the payment pages that browsers get in place of a bare 402. */
export function openPaywall({
  clock,
  prices,
  sandbox,
  merchants,
  config,
  publicUrl
}: {
  readonly clock: Clock
  /** Exchange rates. */
  readonly prices: Pick<Quotes, 'quote'>
  readonly sandbox: SandboxWallet | null
  readonly merchants: {
    byId(id: number): Promise<{ readonly name: string; readonly colour: string | null } | null>
  }
  config(): Pick<GatewayConfig, 'pages' | 'discovery' | 'payment'>
  publicUrl(): string
}): ChallengePages {
  const style = assetText('css', 'tokens', 'base', 'pay', 'paywall')
  const script = assetText('js', 'invoice', 'paywall')
  const byColour = new Map<string, { readonly assets: InlineAssets; readonly headers: readonly string[] }>()

  /** Style, script and headers in a seller's color. */
  const dressed = (colour: string) => {
    const known = byColour.get(colour)
    if (known !== undefined) return known
    const assets: InlineAssets = { inline: true, style: style + accentStyle(colour), script }
    const created = { assets, headers: Object.freeze(['Content-Type', HTML_TYPE, ...inlinePageHeaders(assets)]) }
    if (byColour.size >= MOST_COLOURS) byColour.clear()
    byColour.set(colour, created)
    return created
  }

  const seller = async (merchantId: string | null) => {
    const own = config()
    if (merchantId === null) return { name: titleOf(own), colour: own.pages.colour }
    const merchant = await merchants.byId(Number(merchantId))
    return { name: merchant?.name ?? '', colour: merchant?.colour ?? '' }
  }

  const shown = async (request: PayPageRequest) => {
    const { challenge, offer } = request
    const [{ name, colour }, alsoAmount] = await Promise.all([
      seller(offer.merchantId),
      offer.fiat === null
        ? readersWorth({ clock, prices }, challenge.amountSats, request.languages)
        : satoshisText(challenge.amountSats)
    ])
    const { assets, headers } = dressed(colour)
    const sandboxCommand =
      sandbox !== null && challenge.providerKind === 'sandbox'
        ? sandboxPayCommand(publicUrl(), challenge.invoice)
        : null
    const amount = offer.fiat === null ? satoshisText(challenge.amountSats) : fiatAmount(offer.fiat)
    const body = paywallPage(request, { seller: withoutTurns(name), amount, alsoAmount, sandboxCommand }, assets)
    return { body, headers: [...headers, 'Content-Language', request.language] }
  }
  return request => speaking(request.language, () => shown(request))
}

const MOST_COLOURS = 200
const LONGEST_ADDRESS = 200

/** `api.example.com/files/a.pdf`, truncated if too long. */
function addressOf({ host, target }: PayPageRequest): string {
  const whole = `${host}${target}`
  return whole.length > LONGEST_ADDRESS ? `${whole.slice(0, LONGEST_ADDRESS)}…` : whole
}

function fiatAmount(fiat: FiatText): string {
  const { currency, amount } = fiatOf(fiat)
  return amountText(amount, currency)
}

export function openKeyPages({
  config,
  publicUrl
}: {
  config(): Pick<GatewayConfig, 'pages' | 'discovery' | 'payment'>
  publicUrl(): string
}): KeyPages {
  const style = assetText('css', 'tokens', 'base', 'pay')
  const script = assetText('js', 'invoice')
  return sale => {
    const own = config()
    const assets: InlineAssets = { inline: true, style: style + accentStyle(own.pages.colour), script }
    const seller = titleOf(own)
    const body = document({
      title: `API key · ${seller}`,
      assets,
      script: true,
      refresh: null,
      main: html`
        <main class="alone">
          <header class="summary">
            ${merchantLine(seller)}
            <h1 class="title">${sale.key === null ? t('Buy an API key') : t('Your API key')}</h1>
          </header>
          <section class="panel">${sale.key === null ? order(sale.bundleSats) : bought(sale.key, sale.balanceMsat, publicUrl(), sale.basePath)}</section>
        </main>`
    })
    return { body, headers: ['Content-Type', HTML_TYPE, ...inlinePageHeaders(assets)] }
  }
}

function order(bundleSats: number | null): VNode {
  return html`
    <p>A key spends a prepaid balance and works in any client that takes a base URL and an API key. You need a Lightning wallet, and no account.</p>
    <form method="get" action="">
      <input type="hidden" name="order" value=${randomUUID()} />
      <div class="field">
        <label class="field-label" for="amount">Amount in satoshis</label>
        <input id="amount" name="amount" type="number" min="1" step="1" value=${bundleSats ?? ''} required inputmode="numeric" autocomplete="off" />
      </div>
      <button class="button" type="submit">Continue to payment</button>
    </form>`
}

function bought(key: string, balanceMsat: number, url: string, basePath: string): VNode {
  return html`
    <p class="notice" role="status"><strong>Copy the key now and store it like a password.</strong> It spends the balance of ${satoshisText(Math.floor(balanceMsat / 1000))}. This page shows it in this browser only.</p>
    ${copyField(t('API key'), key)}
    ${copyField(t('OpenAI clients'), `OPENAI_BASE_URL=${url}${basePath} OPENAI_API_KEY=${key}`)}
    ${copyField(t('Anthropic clients'), `ANTHROPIC_BASE_URL=${url} ANTHROPIC_API_KEY=${key}`)}`
}
