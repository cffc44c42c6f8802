import type { VNode } from 'preact'
import { html } from './document.ts'

const SPARKS = Array.from({ length: 12 }, (_, index) => `rotate(${index * 30})`)

/** Icons of the states; decorative, beside a text. */
export const pictures: Readonly<
  Record<
    'paid' | 'processing' | 'underpaid' | 'expired' | 'refunded' | 'missing' | 'parcel' | 'truck' | 'broken',
    () => VNode
  >
> = {
  paid: () => html`
    <svg class="picture celebration" aria-hidden="true" viewBox="-56 -56 112 112">
      ${SPARKS.map(turn => html`<g transform=${turn}><circle class="spark" cy="-36" r="2.6" /></g>`)}
      <circle class="disc" r="32" />
      <path class="check" d="M-14 1 l9.5 9.5 L14 -9.5" pathLength="1" />
    </svg>`,
  processing: () => html`
    <svg class="picture" aria-hidden="true" viewBox="-56 -56 112 112">
      <circle class="wash" r="38" />
      <circle class="ring" r="32" />
      <circle class="ring turning" r="32" pathLength="100" />
      <path class="stroke" d="M2 -15 L-9 3 H0 L-2 15 L9 -3 H0 Z" />
    </svg>`,
  underpaid: () => html`
    <svg class="picture warn" aria-hidden="true" viewBox="-56 -56 112 112">
      <circle class="wash" r="38" />
      <circle class="ring" r="28" />
      <path class="half" d="M0 -28 A28 28 0 0 0 0 28 Z" />
    </svg>`,
  expired: () => html`
    <svg class="picture quiet" aria-hidden="true" viewBox="-56 -56 112 112">
      <circle class="wash" r="38" />
      <circle class="stroke" r="20" />
      <path class="stroke" d="M0 -11 V0 L8 6" />
    </svg>`,
  refunded: () => html`
    <svg class="picture" aria-hidden="true" viewBox="-56 -56 112 112">
      <circle class="wash" r="38" />
      <path class="stroke" d="M-8 -16 L-17 -7 L-8 2 M-17 -7 H6 A10.5 10.5 0 0 1 6 14 H-8" />
    </svg>`,
  missing: () => html`
    <svg class="picture quiet" aria-hidden="true" viewBox="-56 -56 112 112">
      <circle class="wash" r="38" />
      <path class="stroke" d="M-8 -6 A8.5 8.5 0 1 1 0 4 V8 M0 17 V17.1" />
    </svg>`,
  parcel: () => html`
    <svg class="picture" aria-hidden="true" viewBox="-56 -56 112 112">
      <circle class="wash" r="38" />
      <path class="stroke" d="M0 -19 L17 -10 V9 L0 19 L-17 9 V-10 Z M-17 -10 L0 0 L17 -10 M0 0 V19 M-8.5 -14.5 L8.5 -5" />
    </svg>`,
  truck: () => html`
    <svg class="picture" aria-hidden="true" viewBox="-56 -56 112 112">
      <circle class="wash" r="38" />
      <path class="stroke" d="M-14 9 H-20 V-12 H4 V9 H-4 M4 -5 H13 L20 2 V9 H17" />
      <circle class="stroke" cx="-9" cy="10" r="4.5" />
      <circle class="stroke" cx="11" cy="10" r="4.5" />
    </svg>`,
  broken: () => html`
    <svg class="picture warn" aria-hidden="true" viewBox="-56 -56 112 112">
      <circle class="wash" r="38" />
      <path class="stroke" d="M0 -18 L19 15 H-19 Z M0 -6 V4 M0 9.5 V9.6" />
    </svg>`
}

const graphemes = new Intl.Segmenter('en')

/** The seller's name with its initial as a picture. */
export function merchantLine(name: string): VNode {
  return html`<p class="merchant"><span class="monogram" aria-hidden="true">${firstLetter(name)}</span><bdi class="merchant-name">${name}</bdi></p>`
}

/** First grapheme in upper case; empty for an empty text. */
export function firstLetter(name: string): string {
  const [first] = graphemes.segment(name.trim())
  return first?.segment.toUpperCase() ?? ''
}
