/** Servers look up names and URIs in different ways. */

/** Maximum spellings of a name to look up. */
export const MAX_SPELLINGS = 32
const PLAIN = /^[\x21-\x7e]*$/
const NORMAL_FORMS = ['NFC', 'NFD', 'NFKC', 'NFKD'] as const

/**
 * Names that a server may read for this one: trimmed, up to a NUL, in each Unicode form; for a URI also decoded, once
 * or repeatedly, or its path or host alone. Null if there are too many.
 */
export function spellingsOf(name: string, isUri: boolean): readonly string[] | null {
  if (!isUri && PLAIN.test(name)) return [name]
  const spellings = new Set([name])
  // Also visits those added on the way.
  for (const spelling of spellings) {
    if (spellings.size > MAX_SPELLINGS) return null
    if (!PLAIN.test(spelling)) {
      spellings.add(spelling.trim()).add(before(spelling, '\0'))
      for (const form of NORMAL_FORMS) spellings.add(spelling.normalize(form))
    }
    if (isUri) addSpellings(spelling, spellings)
  }
  return [...spellings]
}

function addSpellings(uri: string, spellings: Set<string>): void {
  const path = before(before(uri, '#'), '?')
  // Behind the scheme and the authority, which may be empty: `file:///a`.
  const root = /^[^/]*:(?:\/\/[^/]*)?/.exec(path)?.[0].length ?? 0
  const merged = path.slice(root).replaceAll(/\/{2,}/g, '/')
  spellings.add(path).add(path.slice(0, root) + merged)
  if (merged.length > 1 && merged.endsWith('/')) spellings.add(path.slice(0, root) + merged.slice(0, -1))
  if (uri.includes('%')) spellings.add(decoded(uri))
  const url = URL.parse(uri)
  if (url === null) return
  spellings.add(url.href)
  // The URL standard keeps the host's case for unknown schemes (RFC 3986, 6.2.2.1).
  url.host = url.host.toLowerCase()
  spellings.add(url.href)
  url.username = url.password = url.port = ''
  spellings.add(url.href)
}

function before(text: string, end: string): string {
  const at = text.indexOf(end)
  return at < 0 ? text : text.slice(0, at)
}

function decoded(text: string): string {
  return text.replaceAll(/(?:%[0-9a-f]{2})+/gi, run => Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'))
}
