/**
 * Bech32 (BIP 173) of any length, as in BOLT 11. Each 402 reads its invoice: one pass over bytes takes a quarter of the
 * time of a library with number lists.
 */

const LETTERS = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l'
const CHECKSUM_WORDS = 6
const NO_WORD = 0xff

const words = new Uint8Array(128).fill(NO_WORD)
for (let word = 0; word < 32; word++) words[LETTERS.charCodeAt(word)] = word
const letters = Buffer.from(LETTERS, 'latin1')

// BIP 173's generators for all combinations of the five outgoing bits.
const GENERATORS = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3]
const folded = Int32Array.from({ length: 32 }, (_none, bits) =>
  GENERATORS.reduce((sum, generator, at) => ((bits >> at) & 1 ? sum ^ generator : sum), 0)
)

function next(state: number, word: number): number {
  return ((state & 0x1ffffff) << 5) ^ word ^ (folded[state >>> 25] ?? 0)
}

function begin(prefix: string): number {
  let state = 1
  for (let at = 0; at < prefix.length; at++) {
    const code = prefix.charCodeAt(at)
    if (code < 33 || code > 126) throw new Bech32Error('its prefix has an invalid character')
    state = next(state, code >> 5)
  }
  state = next(state, 0)
  for (let at = 0; at < prefix.length; at++) state = next(state, prefix.charCodeAt(at) & 31)
  return state
}

/** Invalid bech32 or padding. The message gives the reason without the text. */
export class Bech32Error extends Error {
  override readonly name = 'Bech32Error'
}

/**
 * Reads text in one case.
 * @returns the prefix in lower case, and the words before the checksum
 * @throws Bech32Error
 */
export function decodeBech32(text: string): { readonly prefix: string; readonly words: Uint8Array } {
  const lower = text.toLowerCase()
  // Some non-ASCII letters have ASCII lower-case forms.
  if (lower !== text && !/^[\x21-\x60\x7b-\x7e]*$/.test(text))
    throw new Bech32Error('it has mixed case, or invalid characters')
  const separator = lower.lastIndexOf('1')
  if (separator < 1) throw new Bech32Error('it has no prefix before a 1')
  const length = lower.length - separator - 1
  if (length < CHECKSUM_WORDS) throw new Bech32Error('it is too short for its checksum')
  const prefix = lower.slice(0, separator)
  let state = begin(prefix)
  const read = new Uint8Array(length)
  for (let at = 0; at < length; at++) {
    const word = words[lower.charCodeAt(separator + 1 + at)] ?? NO_WORD
    if (word === NO_WORD) throw new Bech32Error(`its character ${separator + 2 + at} is none of ${LETTERS}`)
    read[at] = word
    state = next(state, word)
  }
  if (state !== 1) throw new Bech32Error('its checksum does not fit')
  return { prefix, words: read.subarray(0, length - CHECKSUM_WORDS) }
}

/**
 * Writes lower-case text.
 * @param prefix in lower case
 * @param given from 0 to 31 each
 * @throws Bech32Error for a word above five bits or an invalid prefix character
 */
export function encodeBech32(prefix: string, given: ArrayLike<number>): string {
  let state = begin(prefix)
  const text = Buffer.alloc(given.length + CHECKSUM_WORDS)
  for (let at = 0; at < given.length; at++) {
    const word = given[at] ?? NO_WORD
    const letter = letters[word]
    if (letter === undefined) throw new Bech32Error(`the word ${word} has not five bits`)
    text[at] = letter
    state = next(state, word)
  }
  for (let at = 0; at < CHECKSUM_WORDS; at++) state = next(state, 0)
  state ^= 1
  for (let at = 0; at < CHECKSUM_WORDS; at++)
    text[given.length + at] = letters[(state >>> (5 * (CHECKSUM_WORDS - 1 - at))) & 31] ?? 0
  return `${prefix}1${text.toString('latin1')}`
}

/**
 * Converts words to bytes.
 * @throws Bech32Error when the padding is a whole word, or not zero
 */
export function bytesOf(given: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe((given.length * 5) >> 3)
  let [at, held, bits] = [0, 0, 0]
  for (let index = 0; index < given.length; index++) {
    held = ((held << 5) | (given[index] ?? 0)) & 0xfff
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes[at++] = held >> bits
    }
  }
  if (bits >= 5 || (held & ((1 << bits) - 1)) !== 0) throw new Bech32Error('it is not padded with zeros to whole bytes')
  return bytes
}

export function wordsOf(bytes: Uint8Array): Uint8Array {
  const created = new Uint8Array(Math.ceil((bytes.length * 8) / 5))
  let [at, held, bits] = [0, 0, 0]
  for (let index = 0; index < bytes.length; index++) {
    held = ((held << 8) | (bytes[index] ?? 0)) & 0xfff
    for (bits += 8; bits >= 5; bits -= 5) created[at++] = (held >> (bits - 5)) & 31
  }
  if (bits > 0) created[at] = (held << (5 - bits)) & 31
  return created
}
