/**
 * What a client would rather have, by its Accept field (RFC 9110, 12.5.1). A field that does not follow the grammar
 * says nothing: what some HTTP libraries send by themselves (`text/html, image/gif, image/jpeg, *; q=.2, *\/*; q=.2`) is no
 * wish for a page.
 */

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
// White space before a parameter belongs to it alone: if an empty one could take it too, matching would be exponential.
const PARAMETER = `[ \\t]*;(?:[ \\t]*${TOKEN}=(?:${TOKEN}|"(?:[^"\\\\]|\\\\.)*"))?`
const RANGE = new RegExp(`[ \\t]*(${TOKEN})/(${TOKEN})((?:${PARAMETER})*)[ \\t]*(?:,|$)`, 'y')
const EMPTY = /[ \t]*(?:,|$)/y
const WEIGHT = /;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*(?=;|$)/i
const ANY_WEIGHT = /;[ \t]*q=/i
/** Long enough for every browser there is; nobody makes us read more. */
const LONGEST = 2048

/** One element of the field. */
interface Range {
  readonly type: string
  readonly subtype: string
  /** Whether it has parameters other than its weight and `charset=utf-8`: then it is not what we have. */
  readonly isNarrower: boolean
  /** From 0 to 1. */
  readonly weight: number
}

/** The elements of an Accept field; null for one that does not follow the grammar. */
function rangesOf(accept: string): Range[] | null {
  if (accept.length > LONGEST) return null
  const ranges: Range[] = []
  let at = 0
  while (at < accept.length) {
    EMPTY.lastIndex = at
    if (EMPTY.test(accept)) {
      at = EMPTY.lastIndex
      continue
    }
    RANGE.lastIndex = at
    const [, type = '', subtype = '', parameters = ''] = RANGE.exec(accept) ?? []
    if (type === '' || (type === '*' && subtype !== '*')) return null
    at = RANGE.lastIndex
    const weight = WEIGHT.exec(parameters)?.[1]
    if (weight === undefined && ANY_WEIGHT.test(parameters)) return null
    const others = parameters.replace(WEIGHT, '').replace(/;[ \t]*charset="?utf-8"?[ \t]*(?=;|$)/i, '')
    ranges.push({
      type: type.toLowerCase(),
      subtype: subtype.toLowerCase(),
      isNarrower: /[^; \t]/.test(others),
      weight: weight === undefined ? 1 : Number(weight)
    })
  }
  return ranges
}

/** The weight of a media type: what the most specific range says that takes it; 0 where none does. */
function weightOf(ranges: readonly Range[], type: string, subtype: string): number {
  let best = -1
  let weight = 0
  for (const range of ranges) {
    if (range.isNarrower) continue
    const rank =
      range.type === type && range.subtype === subtype
        ? 2
        : range.type === type && range.subtype === '*'
          ? 1
          : range.type === '*'
            ? 0
            : -1
    if (rank > best) {
      best = rank
      weight = range.weight
    }
  }
  return weight
}

/**
 * Whether a client would rather have an HTML page than anything else: `text/html` weighs more than JSON of either kind,
 * and nothing that the field names weighs more than it. So say browsers when they open an address. `*\/*` alone is no
 * such wish. `accept`: the field's lines, joined by commas.
 */
export function prefersHtml(accept: string | undefined): boolean {
  if (accept === undefined || !/text\/(?:html|\*)/i.test(accept)) return false
  const ranges = rangesOf(accept)
  if (ranges === null) return false
  const html = weightOf(ranges, 'text', 'html')
  return (
    html > weightOf(ranges, 'application', 'json') &&
    html > weightOf(ranges, 'application', 'problem+json') &&
    ranges.every(({ weight }) => weight <= html)
  )
}

/** Whether a client would rather have JSON than an HTML page. */
export function prefersJson(accept: string | undefined): boolean {
  const ranges = accept === undefined ? null : rangesOf(accept)
  return ranges !== null && weightOf(ranges, 'application', 'json') > weightOf(ranges, 'text', 'html')
}
