import type { VNode } from 'preact'
import type { Payment } from '../../payments/payments/schema.ts'
import { amountText } from '../kit/amounts.ts'
import { html } from '../kit/document.ts'

const grouped = new Intl.NumberFormat('en-US')

/** Satoshis with a space between thousands as people read them: `12,500 sats`. */
export function sats(amount: number): string {
  return `${grouped.format(amount)} ${amount === 1 ? 'sat' : 'sats'}`
}

/** An amount in its currency as people write it: `$2.00`, `0.0001 BTC`. */
export function amountIn(amount: number | string, currency: Payment['currency']): string {
  return amountText(String(amount), currency)
}

/** A count with its thousands told apart. */
export function count(value: number): string {
  return grouped.format(value)
}

/** A part of a whole in percent; a dash where there is no whole. */
export function percent(part: number, whole: number): string {
  return whole === 0 ? '–' : `${Math.round((part / whole) * 100)} %`
}

/** Milliseconds as people read them: `4.2 ms`, `1.3 s`. */
export function latency(ms: number | null): string {
  if (ms === null) return '–'
  return ms < 1000 ? `${ms} ms` : `${Number((ms / 1000).toPrecision(2))} s`
}

/**
 * A timeOf: UTC as it is sent, the reader's own time once the page's program has run.
 * @param at ISO 8601, or milliseconds since the epoch; null shows a dash
 */
export function timeOf(at: string | number | null): VNode {
  if (at === null) return html`<span class="soft">–</span>`
  const iso = new Date(at).toISOString()
  return html`<time datetime=${iso}>${iso.slice(0, 16).replace('T', ' ')} UTC</time>`
}

/** The beginning and the end of a text that is too long for a line, such as a payment hash. */
export function short(text: string): VNode {
  return text.length <= 16
    ? html`<code>${text}</code>`
    : html`<code title=${text}>${text.slice(0, 8)}…${text.slice(-6)}</code>`
}
