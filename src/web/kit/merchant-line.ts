import type { VNode } from 'preact'
import { html } from './document.ts'

const graphemes = new Intl.Segmenter('en')

/** Whom a page is about: the name with its first letter as a picture. */
export function merchantLine(name: string): VNode {
  return html`<p class="merchant"><span class="monogram" aria-hidden="true">${firstLetter(name)}</span><bdi class="merchant-name">${name}</bdi></p>`
}

/** First character as people count them, in upper case; empty for an empty text. */
export function firstLetter(name: string): string {
  const [first] = graphemes.segment(name.trim())
  return first?.segment.toUpperCase() ?? ''
}
