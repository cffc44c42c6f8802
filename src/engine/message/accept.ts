/**
 * Client preferences by weight (RFC 9110, 12.4.2): Accept, Accept-Payment with the same grammar, and Accept-Encoding.
 * An invalid field states no preference: the default of some HTTP libraries
 * (`text/html, image/gif, image/jpeg, *; q=.2, *\/*; q=.2`) does not ask for a page.
 */

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
// Only the parameter takes the white space before it: if an empty one could too, matching would be exponential.
const PARAMETER = `[ \\t]*;(?:[ \\t]*${TOKEN}=(?:${TOKEN}|"(?:[^"\\\\]|\\\\.)*"))?`
const RANGE = new RegExp(`[ \\t]*(${TOKEN})(?:/(${TOKEN}))?((?:${PARAMETER})*)[ \\t]*(?:,|$)`, 'y')
const EMPTY = /[ \t]*(?:,|$)/y
const WEIGHT = /;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*(?=;|$)/i
const ANY_WEIGHT = /;[ \t]*q=/i
/** Bounds the work; every browser's field is shorter. */
const LONGEST = 2048

export interface Range {
  readonly type: string
  /** Empty for a content coding. */
  readonly subtype: string
  /** Whether it has parameters other than its weight and `charset=utf-8`, which no response matches. */
  readonly isNarrower: boolean
  readonly weight: number
}

/** Parses Accept or Accept-Payment, its lines joined by commas; null when invalid. */
export function rangesOf(accept: string): Range[] | null {
  const ranges = weightsOf(accept)
  return ranges === null || ranges.some(({ subtype }) => subtype === '') ? null : ranges
}

function weightsOf(accept: string): Range[] | null {
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
    if (type === '') return null
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

function mediaRanges(accept: string | undefined): Range[] {
  const ranges = accept === undefined ? null : rangesOf(accept)
  return ranges === null || ranges.some(({ type, subtype }) => type === '*' && subtype !== '*') ? [] : ranges
}

/**
 * The weight of the most specific matching range, or 0. `least`: 2 for the exact type, 1 for `text/*` as well, 0 for
 * any.
 */
function weightOf(ranges: readonly Range[], type: string, subtype: string, least = 0): number {
  let best = least - 1
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
 * Whether `text/html` outweighs JSON and nothing outweighs it, as in a browser's navigation. `*\/*` alone states no
 * preference.
 */
export function prefersHtml(accept: string | undefined): boolean {
  if (accept === undefined || !/text\/(?:html|\*)/i.test(accept)) return false
  const ranges = mediaRanges(accept)
  const html = weightOf(ranges, 'text', 'html')
  return (
    html > weightOf(ranges, 'application', 'json') &&
    html > weightOf(ranges, 'application', 'problem+json') &&
    ranges.every(({ weight }) => weight <= html)
  )
}

export function prefersJson(accept: string | undefined): boolean {
  const ranges = mediaRanges(accept)
  return weightOf(ranges, 'application', 'json') > weightOf(ranges, 'text', 'html')
}

/** Whether `application/problem+json` is named with more weight than plain JSON. */
export function prefersProblem(accept: string | undefined): boolean {
  if (accept === undefined || !/problem/i.test(accept)) return false
  const ranges = mediaRanges(accept)
  return weightOf(ranges, 'application', 'problem+json', 2) > weightOf(ranges, 'application', 'json', 1)
}

export function prefersCsv(accept: string | undefined): boolean {
  // Only `charset` and `header` are known parameters; neither changes anything here.
  const ranges = mediaRanges(accept?.replaceAll(/;[ \t]*header=present/gi, ''))
  const csv = weightOf(ranges, 'text', 'csv', 2)
  return csv > 0 && csv >= weightOf(ranges, 'application', 'json', 2)
}

/** Whether Accept-Encoding allows gzip (RFC 9110, 12.5.3); a name overrides `*`. */
export function acceptsGzip(accepted: string | undefined): boolean {
  const codings = weightsOf(accepted ?? '') ?? []
  if (codings.some(({ subtype }) => subtype !== '')) return false
  const named = codings.find(({ type }) => type === 'gzip' || type === 'x-gzip')
  return ((named ?? codings.find(({ type }) => type === '*'))?.weight ?? 0) > 0
}

/** Primary tags of Accept-Language, best first (RFC 9110, 12.5.4). */
export function acceptedLanguages(accepted: string): string[] {
  const ranges = weightsOf(accepted) ?? []
  return ranges
    .filter(({ weight }) => weight > 0)
    .sort((one, other) => other.weight - one.weight)
    .map(({ type }) => type.split('-', 1)[0] ?? '')
}
