import type { VNode } from 'preact'
import { html } from './document.ts'

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
