/** Tags that may be within a sentence; others end one. */
const BLOCK = /(<(?!\/?(?:a|b|bdi|code|em|small|span|strong|time)\b)[^<>]*>)/
const ATTRIBUTE = /(?<=\s(?:alt|aria-label|data-busy|placeholder|title)=")[^"{]+(?=")/g

/**
 * Replaces the messages of a template, whose values are `{0}`, `{1}`, …: sentences, in which inline tags are `<0>…</0>`
 * and values are counted from one again, and readable attributes.
 */
export function rewritten(source: string, translate: (message: string) => string): string {
  return source
    .replaceAll(ATTRIBUTE, text => (/\p{L}/u.test(text) ? translate(text) : text))
    .split(BLOCK)
    .map((part, at) => (at % 2 === 1 ? part : sentence(part, translate)))
    .join('')
}

function sentence(text: string, translate: (message: string) => string): string {
  // Texts are at even places, tags at odd ones.
  const tokens = text.split(/(<[^<>]*>)/)
  const partners = partnersOf(tokens)
  const isWords = (at: number): boolean => at % 2 === 0 && /\p{L}/u.test(tokens[at] ?? '')
  const isLoose = (at: number): boolean =>
    at % 2 === 0 ? /^(?:\s|\{\d+\})*$/.test(tokens[at] ?? '') : !partners.has(at)
  // Tags and values around the sentence do not belong to it.
  let [from, to] = [0, tokens.length - 1]
  while (from <= to) {
    if (isLoose(from)) from++
    else if (isLoose(to)) to--
    else if (partners.get(from) === to) [from, to] = [from + 1, to - 1]
    else break
  }
  const inner = tokens.slice(from, to + 1)
  if (!inner.some((_, at) => isWords(from + at))) return text
  const values: string[] = []
  const tags: Array<readonly [start: string, end: string]> = []
  const numbers = new Map<number, number>()
  const message = inner.map((token, index) => {
    const at = from + index
    if (at % 2 === 0) return token.replaceAll(/\{\d+\}/g, value => `{${values.push(value) - 1}}`)
    const end = partners.get(at) ?? at
    if (end < at) return `</${numbers.get(end)}>`
    numbers.set(at, tags.push([token, tokens[end] ?? '']) - 1)
    return `<${numbers.get(at)}>`
  })
  const whole = message.join('')
  const before = whole.slice(0, whole.length - whole.trimStart().length)
  const after = whole.slice(whole.trimEnd().length)
  const result = translate(whole.trim().replaceAll(/\s+/g, ' ')).replaceAll(
    /<(\/?)(\d+)>|\{(\d+)\}/g,
    (_, close: string, tag: string | undefined, value: string) =>
      (tag === undefined ? values[Number(value)] : tags[Number(tag)]?.[close === '' ? 0 : 1]) ?? ''
  )
  return [...tokens.slice(0, from), before, result, after, ...tokens.slice(to + 1)].join('')
}

/** Places of start and end tags by each other. */
function partnersOf(tokens: readonly string[]): ReadonlyMap<number, number> {
  const partners = new Map<number, number>()
  const open: number[] = []
  for (let at = 1; at < tokens.length; at += 2) {
    if (tokens[at]?.startsWith('</') !== true) open.push(at)
    else {
      const start = open.pop()
      if (start !== undefined) partners.set(start, at).set(at, start)
    }
  }
  return partners
}
