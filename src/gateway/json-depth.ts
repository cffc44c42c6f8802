/** Deepest nesting of a JSON body that is read. */
export const MAX_DEPTH = 32

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/**
 * Whether lists and objects stand inside each other deeper than `most` levels, told from the bytes in one walk, which
 * ends there:
 * `JSON.parse` takes fifty times as long over half a million levels as over the same number of items. Of what is no
 * JSON it may say either; the parser refuses that.
 */
export function tooDeep(bytes: Uint8Array, most = MAX_DEPTH): boolean {
  let depth = 0
  let inside = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (inside) {
      if (byte === BACKSLASH) at++
      else if (byte === QUOTE) inside = false
    } else if (byte === QUOTE) inside = true
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      if (++depth > most) return true
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth--
  }
  return false
}
