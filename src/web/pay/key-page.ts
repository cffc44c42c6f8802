import { randomUUID } from 'node:crypto'
import type { VNode } from 'preact'
import type { KeyPages } from '../../selling/balances/key-operations.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { accentStyle } from '../kit/accent.ts'
import { satoshisText } from '../kit/amounts.ts'
import { assetText } from '../kit/assets.ts'
import { document, html, HTML_TYPE, inlinePageHeaders, type InlineAssets } from '../kit/document.ts'
import { t } from '../../engine/formats/language.ts'
import { merchantLine } from '../kit/merchant-line.ts'
import { copyField } from './invoice-parts.ts'

/** Opens the page that sells keys, and the one that shows a bought key. */
export function openKeyPages({
  config,
  publicUrl
}: {
  config(): Pick<GatewayConfig, 'pages' | 'payment'>
  /** Without a trailing slash. */
  publicUrl(): string
}): KeyPages {
  const style = assetText('css', 'tokens', 'base', 'pay')
  const script = assetText('js', 'invoice')
  return sale => {
    const { pages, payment } = config()
    const assets: InlineAssets = { inline: true, style: style + accentStyle(pages.colour), script }
    const seller = pages.name === '' ? payment.serviceName : pages.name
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
