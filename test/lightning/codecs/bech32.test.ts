import { bech32 } from '@scure/base'
import fc from 'fast-check'
import t from 'tap'
import { Bech32Error, bytesOf, decodeBech32, encodeBech32, wordsOf } from '../../../src/lightning/codecs/bech32.ts'
import { INVALID, VALID } from './bolt11-vectors.ts'

/** What it answers, or null where it refuses with such an error. */
function orNull<T>(refusal: new (message: string) => Error, read: () => T) {
  try {
    return read()
  } catch (error) {
    if (error instanceof refusal) return null
    throw error
  }
}

const theirs = (text: string) =>
  orNull(Error, () => {
    // Any text is asked about; the cast only states the library's input type.
    const { prefix, words } = bech32.decode(text as `${string}1${string}`, false)
    return { prefix, words: [...words] }
  })
const ours = (text: string) =>
  orNull(Bech32Error, () => {
    const { prefix, words } = decodeBech32(text)
    return { prefix, words: [...words] }
  })

const prefix = fc.string({
  unit: fc.constantFrom(...'abcdefghklmnqrstuvwxyz0123456789!~{'),
  minLength: 1,
  maxLength: 12
})
const words = fc.array(fc.nat(31), { maxLength: 200 })

t.test('the examples of BIP 173 are read or refused as it says', async t => {
  const valid = [
    'A12UEL5L',
    'a12uel5l',
    'an83characterlonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1tt5tgs',
    'abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw',
    '11qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqc8247j',
    'split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w',
    '?1ezyfcl'
  ]
  for (const text of valid) {
    const read = decodeBech32(text)
    t.equal(encodeBech32(read.prefix, [...read.words]), text.toLowerCase())
  }
  const invalid = [
    '\x201nwldj5',
    '\x7f1axkwrx',
    '\x801eym55h',
    'pzry9x0s0muk',
    '1pzry9x0s0muk',
    'x1b4n0q5v',
    'li1dgmt3',
    'de1lg7wt\xff',
    'A1G7SGD8',
    '10a06t8',
    '1qzzfhee',
    'A12uEL5L',
    'a12uel5\u212a',
    'A12UE\u212a5L',
    ''
  ]
  for (const text of invalid) t.throws(() => decodeBech32(text), Bech32Error, JSON.stringify(text))
  t.throws(() => encodeBech32('a', [32]), Bech32Error)
  t.throws(() => encodeBech32('a', [-1]), Bech32Error)
})

t.test('reading and writing match the library, and so do refusals', async t => {
  fc.assert(
    fc.property(prefix, words, fc.nat(), fc.string({ minLength: 1, maxLength: 1 }), (human, data, place, other) => {
      const text = encodeBech32(human, data)
      t.equal(text, bech32.encode(human, data, false))
      const at = place % text.length
      // One character changed, left out, or in another case; and upper case.
      for (const changed of [
        text.slice(0, at) + other + text.slice(at + 1),
        text.slice(0, at) + text.slice(at + 1),
        text.slice(0, at) + text.slice(at).toUpperCase(),
        text.toUpperCase(),
        text
      ])
        t.same(ours(changed), theirs(changed), changed)
    }),
    { numRuns: 100 }
  )
  for (const { text } of [...VALID, ...INVALID]) t.same(ours(text), theirs(text))
})

t.test('words become bytes, and bytes words, as in the library; padding is strict', async t => {
  fc.assert(
    fc.property(words, fc.uint8Array({ maxLength: 100 }), (data, bytes) => {
      const mine = orNull(Bech32Error, () => [...bytesOf(Uint8Array.from(data))])
      t.same(
        mine,
        orNull(Error, () => [...bech32.fromWords(data)])
      )
      t.same([...wordsOf(bytes)], bech32.toWords(bytes))
      t.same([...bytesOf(wordsOf(bytes))], [...bytes])
    }),
    { numRuns: 300 }
  )
})
