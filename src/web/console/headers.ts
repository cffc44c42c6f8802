import { FORM_PAGE_HEADERS } from '../kit/document.ts'

/**
 * Headers of the consoles' pages. Their forms must be known for ours by their origin, which a page without any referrer
 * has none of.
 */
export const CONSOLE_HEADERS: readonly string[] = Object.freeze(
  FORM_PAGE_HEADERS.map(value => (value === 'no-referrer' ? 'same-origin' : value))
)
