import { MAX_DEPTH, outlineOf } from './json-reader.ts'

/** Numbers that a double may round: more than 15 digits, or a three-digit exponent. */
const LONG = /\d[\d.]{15,}|\d[eE][+-]?\d{3}/

/** The first of these members with a number that parsing rounded; null for none. `text` must be the JSON as sent. */
export function roundedMember(text: string, names: ReadonlySet<string>): string | null {
  if (names.size === 0 || !LONG.test(text)) return null
  const outline = outlineOf(text, { depth: MAX_DEPTH, members: Number.POSITIVE_INFINITY, names: null })
  for (const name of names) {
    // Of duplicate names the parser takes the last.
    const index = outline.indexesOf(name).at(-1)
    if (index === undefined) continue
    const { start, end } = outline.span(index)
    const source = text.slice(start, end)
    if (/^[-\d]/.test(source) && isRounded(source)) return name
  }
  return null
}

function isRounded(source: string): boolean {
  return plainest(source) !== plainest(String(Number(source)))
}

function plainest(number: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const kept = digits.replace(/(?<!0)0+$/, '')
  // Zero has no sign and no exponent.
  return kept === ''
    ? `${whole === '' ? number : '0'}`
    : `${sign}${kept}e${Number(power) - fraction.length + digits.length - kept.length}`
}
