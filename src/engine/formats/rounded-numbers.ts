import { MAX_DEPTH, outlineOf } from './json-reader.ts'

/** What a number may hold of which a double keeps a part: more than 15 digits, or an exponent of three. */
const LONG = /\d[\d.]{15,}|\d[eE][+-]?\d{3}/

/**
 * The first of these members of an object that holds a number which became another one as it was parsed; null when there
 * is none. The text must be JSON, as it was sent. Hardly any has a number that is worth the second look.
 */
export function roundedMember(text: string, names: ReadonlySet<string>): string | null {
  if (names.size === 0 || !LONG.test(text)) return null
  const outline = outlineOf(text, { depth: MAX_DEPTH, members: Number.POSITIVE_INFINITY, names: null })
  for (const name of names) {
    // Of a duplicate name the parser takes the last.
    const index = outline.indexesOf(name).at(-1)
    if (index === undefined) continue
    const { start, end } = outline.span(index)
    const source = text.slice(start, end)
    if (/^[-\d]/.test(source) && isRounded(source)) return name
  }
  return null
}

/** Whether the shortest decimal of what a number is parsed to is another number than its text says. */
function isRounded(source: string): boolean {
  return plainest(source) !== plainest(String(Number(source)))
}

/** The digits that count and the power of ten of the last: equal for all spellings of one number. */
function plainest(number: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const kept = digits.replace(/(?<!0)0+$/, '')
  // Zero has no sign and no power.
  return kept === ''
    ? `${whole === '' ? number : '0'}`
    : `${sign}${kept}e${Number(power) - fraction.length + digits.length - kept.length}`
}
