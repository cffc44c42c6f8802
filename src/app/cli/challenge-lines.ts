export interface ChallengeLine {
  /** Scheme in lower case. */
  readonly scheme: string
  readonly parameters: ReadonlyMap<string, string>
}

const PARAMETER = /([A-Za-z][A-Za-z0-9_-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))/y

/** Parses a WWW-Authenticate line (RFC 9110, 11.6.1) with a single challenge; null for any other. */
export function readChallengeLine(line: string): ChallengeLine | null {
  const scheme = /^\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s+/.exec(line)
  if (scheme?.[1] === undefined) return null
  const parameters = new Map<string, string>()
  let at = scheme[0].length
  while (at < line.length) {
    PARAMETER.lastIndex = at
    const match = PARAMETER.exec(line)
    if (match?.[1] === undefined) return null
    parameters.set(match[1].toLowerCase(), match[2]?.replaceAll(/\\(.)/g, '$1') ?? match[3] ?? '')
    at = PARAMETER.lastIndex
    while (at < line.length && (line[at] === ',' || line[at] === ' ')) at++
  }
  return { scheme: scheme[1].toLowerCase(), parameters }
}
