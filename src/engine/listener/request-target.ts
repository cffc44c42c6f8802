/** What a request line's target comes to: the origin-form, or why it is refused. */
export type TargetReading =
  | {
      readonly target: string
      readonly authority: string | null
      /** The path has a dot segment that is not written plainly. */ readonly hidesDots: boolean
    }
  | { readonly refusal: string }

/** Why a path with dot segments is refused. */
export const DOT_SEGMENT_REFUSAL = 'The path contains a dot segment; resolve it before sending.'

const ABSOLUTE = /^https?:\/\/([^/?]*)(.*)$/is
/** A segment `.` or `..` as every reader of a path understands it. */
const PLAIN_DOT_SEGMENT = /(?:^|\/)\.{1,2}(?:$|\/)/
/**
 * The same in every spelling, its dots encoded or not. An encoded slash or backslash ends a segment here as well: it is
 * legal inside a segment, but `..%2f` climbs out of the path on every upstream that decodes before it resolves. So does
 * `..;x`, where servlet containers cut parameters off before they resolve, and `..%00`, where a C string ends.
 */
const DOT_SEGMENT = /(?:^|\/|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/;]|%2f|%5c|%3b|%00)/i

/**
 * Reads the target of a request line once, so that nothing behind has to ask again: routes match and upstreams receive
 * exactly the slice that this answers. Absolute-form becomes origin-form, with its authority in lower case for
 * comparison with Host (RFC 9112, section 3.2.2). Everything that is not refused stays byte for byte. A path that hides
 * dot segments may go only where nobody resolves them (decision 52): the caller refuses it with `DOT_SEGMENT_REFUSAL`
 * elsewhere.
 */
export function readTarget(method: string, url: string): TargetReading {
  if (url.charCodeAt(0) === 0x2f) return read(url, null)
  if (url === '*')
    return { refusal: `The asterisk-form is not served, for ${method} or any other method; name a path.` }
  const match = ABSOLUTE.exec(url)
  if (match === null)
    return { refusal: 'The request target must be a path that begins with a slash, or an http address.' }
  const rest = match[2] ?? ''
  return read(rest.charCodeAt(0) === 0x2f ? rest : `/${rest}`, (match[1] ?? '').toLowerCase())
}

/** Anything that has to be looked at; most targets have nothing of it. */
const ODD = /[\0-\x20\x7f#\\.%]/

function read(target: string, authority: string | null): TargetReading {
  if (!ODD.test(target)) return { target, authority, hidesDots: false }
  let pathEnd = -1
  let suspicious = false
  for (let at = 0; at < target.length; at++) {
    const code = target.charCodeAt(at)
    if (code <= 0x20 || code === 0x7f)
      return { refusal: 'The request target contains a control character or a space; encode it with a percent sign.' }
    if (code === 0x23)
      return { refusal: 'The request target contains a fragment; leave out the # and what follows it.' }
    if (code === 0x5c) return { refusal: 'The request target contains a backslash; encode it as %5C.' }
    if (code === 0x3f) {
      if (pathEnd < 0) pathEnd = at
    } else if ((code === 0x2e || code === 0x25) && pathEnd < 0) suspicious = true
  }
  if (!suspicious) return { target, authority, hidesDots: false }
  const path = pathEnd < 0 ? target : target.slice(0, pathEnd)
  return PLAIN_DOT_SEGMENT.test(path)
    ? { refusal: DOT_SEGMENT_REFUSAL }
    : { target, authority, hidesDots: DOT_SEGMENT.test(path) }
}
