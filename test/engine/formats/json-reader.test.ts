import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { MAX_MEMBERS, outlineAt, outlineOf, readJson, type Outline } from '../../../src/engine/formats/json-reader.ts'
import { jsonOrUndefined } from '../../../src/platform/system/json.ts'
import { JsonError } from '../../../src/engine/formats/json-scan.ts'
import { JsonText } from '../../../src/selling/prices/json-text.ts'
import { readMessages } from '../../../src/selling/rpc/message.ts'
import { hostileBodies } from '../../support/hostile-json.ts'

const LIMITS = { depth: 20, members: 100, names: null }

/** The value that the outlines of a text lead to; of equal names the last, as in `JSON.parse`. */
function valueOf(outline: Outline): unknown {
  const inner = (index: number): unknown => valueOf(outlineAt(outline.text, outline.span(index), 100))
  if (outline.isList) return Array.from({ length: outline.size }, (_none, index) => inner(index))
  if (!outline.isObject) return JSON.parse(outline.text.slice(outline.start, outline.end))
  const members = Array.from({ length: outline.size }, (_none, index) => [outline.nameOf(index), inner(index)] as const)
  return Object.fromEntries(members)
}

function read(text: string) {
  try {
    return { value: valueOf(outlineOf(text, LIMITS)) }
  } catch (error) {
    if (error instanceof JsonError) return null
    throw error
  }
}

function parsed(text: string) {
  try {
    return { value: JSON.parse(text) as unknown }
  } catch {
    return null
  }
}

const TOKENS =
  '{ } [ ] , : " "a" "a":1 "\\u0061": "" \\ \\" \\u00 e E+1 - 0 1 . .5 01 1e400 true false null nul NaN \u0000 é 😀 // \' \\x'
const token = fc.constantFrom(
  ...TOKENS.split(' '),
  ...' ,\n,\t,\u00a0,\ufeff,\u2028,\ud800,"\\ud800","\u001f","\u007f"'.split(',')
)
const written = fc.json({ maxDepth: 5 })
/** Valid texts, texts with one fault, and rubble. */
const texts = fc.oneof(
  written,
  fc.tuple(written, token, fc.nat(), fc.nat(3)).map(([text, piece, place, gone]) => {
    const at = place % (text.length + 1)
    return text.slice(0, at) + piece + text.slice(at + gone)
  }),
  fc.array(token, { maxLength: 8 }).map(tokens => tokens.join(''))
)

t.test('a text is read as JSON.parse reads it, and refused where that refuses it', async t => {
  let valid = 0
  fc.assert(
    fc.property(texts, text => {
      const [ours, native] = [read(text), parsed(text)]
      if (native !== null) valid++
      return isDeepStrictEqual(ours, native)
    }),
    { numRuns: 5_000 }
  )
  t.ok(valid > 1_000, `${valid} were valid`)
})

t.test('bytes that are not UTF-8 and a byte order mark are refused', async t => {
  const invalid = [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82]]
  for (const bytes of invalid)
    t.throws(() => readJson(Buffer.from([0x22, ...bytes, 0x22]), LIMITS), { message: 'is not UTF-8' }, String(bytes))
  t.throws(() => readJson(Buffer.from('\ufeff{}'), LIMITS), { message: 'is not valid JSON' })
  t.throws(() => readJson(Buffer.from('{}', 'utf16le'), LIMITS), { message: 'is not valid JSON' })
})

t.test('limits are inclusive', async t => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  const names = (count: number) => `{${Array.from({ length: count }, (_none, at) => `"${at}":0`).join(',')}}`
  t.doesNotThrow(() => outlineOf(nested(20), LIMITS))
  t.throws(() => outlineOf(nested(21), LIMITS), { message: 'is nested deeper than 20 levels' })
  t.equal(outlineOf(names(100), LIMITS).size, 100)
  t.throws(() => outlineOf(names(101), LIMITS), { message: 'has more than 100 members' })
  const items = `[${'1,'.repeat(100)}1]`
  t.throws(() => outlineOf(items, LIMITS), { message: 'has more than 100 items' })
  t.doesNotThrow(() => outlineOf(`[${names(101)},${items}]`, LIMITS), 'members of other objects and lists are ignored')
  t.doesNotThrow(() => outlineOf(`[${names(30)},${names(20)}]`, { ...LIMITS, names: 50 }))
  t.throws(() => outlineOf(`[${names(30)},${names(21)}]`, { ...LIMITS, names: 50 }), {
    message: 'has more than 50 members in all'
  })
})

t.test('of unique names one that repeats is found, however it is written and however many there are', async t => {
  const unique = { ...LIMITS, depth: 99, members: 999, names: 999 }
  for (const count of [1, 7, 8, 9, 10, 17, 300]) {
    const members = Array.from({ length: count }, (_none, at) => `"n${at}":{"n${at}":[]}`)
    const text = (more: string) => `[{"n0":1},{${[...members, more].join(',')}}]`
    t.doesNotThrow(() => outlineOf(text('"n":1'), unique), `${count}`)
    for (const again of ['"n0"', `"n${count - 1}"`, '"\\u006e0"'])
      t.throws(() => outlineOf(text(`${again}:1`), unique), { message: /twice/ }, `${count} and ${again}`)
  }
  t.throws(() => outlineOf('[{"a":{"__pro\\u0074o__":1}}]', unique), { message: /__proto__/ })
  t.doesNotThrow(() => outlineOf('{"a":1,"a":2,"__proto__":3}', LIMITS))
})

/** Looks at characters of a text, and values that are built, while `run` runs. */
function workOf(run: () => void) {
  const { charCodeAt, startsWith, slice, indexOf } = String.prototype
  const { parse } = JSON
  let [looks, built] = [0, 0]
  Object.assign(String.prototype, {
    charCodeAt(this: string, at = 0) {
      looks++
      return charCodeAt.call(this, at)
    },
    startsWith(this: string, text: string, at = 0) {
      looks += text.length
      return startsWith.call(this, text, at)
    },
    indexOf(this: string, text: string, at = 0) {
      const found = indexOf.call(this, text, at)
      looks += (found < 0 ? this.length : found) - at + 1
      return found
    },
    slice(this: string, start: number, end?: number) {
      built++
      return slice.call(this, start, end)
    }
  })
  JSON.parse = (text: string) => {
    built++
    return parse(text)
  }
  try {
    run()
  } finally {
    Object.assign(String.prototype, { charCodeAt, startsWith, slice, indexOf })
    JSON.parse = parse
  }
  return { looks, built }
}

const prices = { protocol: 'mcp', tools: { small: 5 }, toolErrors: 'sold' } as const
const readers: ReadonlyArray<readonly [string, looksPerByte: number, (bytes: Uint8Array) => void]> = [
  [
    'a field of a price',
    8,
    bytes => {
      const text = JsonText.of(bytes)
      if (typeof text !== 'string') for (const name of ['model', 'n', 'max_tokens']) text.member([name])
    }
  ],
  ['messages', 20, bytes => readMessages(bytes, prices)]
]

for (const [name, looksPerByte, reads] of readers)
  t.test(`${name}: work is bounded by the size of the body and by the members that may be looked at`, async t => {
    const sizes = [65_536, 131_072, 1_048_576]
    const [small, twice, large] = sizes.map(size => hostileBodies(size)) as [Bodies, Bodies, Bodies]
    for (const [shape, body] of small) {
      const work = [body, twice.get(shape) ?? '', large.get(shape) ?? ''].map(text => {
        const bytes = Buffer.from(text)
        return { ...workOf(() => reads(bytes)), bytes: bytes.byteLength }
      })
      for (const { looks, built, bytes } of work) {
        t.ok(looks <= looksPerByte * bytes + 500, `${shape}: ${looks} looks at ${bytes} bytes`)
        t.ok(built <= 3 * MAX_MEMBERS, `${shape}: ${built} values are built`)
      }
    }
  })

type Bodies = ReadonlyMap<string, string>

t.test('a field is read without building the members beside it', async t => {
  const body = `{${Array.from({ length: 20_000 }, (_none, at) => `"k${at}":[${at}]`).join(',')},"model":"large"}`
  const bytes = Buffer.from(body)
  const { built } = workOf(() => {
    const text = JsonText.of(bytes)
    if (typeof text === 'string') throw new Error(text)
    t.strictSame(text.member(['model']), { kind: 'value', value: 'large' })
  })
  t.ok(built < 20, `${built} of 20,001`)
})

t.test('jsonOrUndefined: text and bytes', async t => {
  for (const value of [null, false, 0, '', [], { a: [1, 'é'] }]) {
    t.strictSame(jsonOrUndefined(JSON.stringify(value)), value)
    t.strictSame(jsonOrUndefined(new TextEncoder().encode(JSON.stringify(value))), value)
  }
  for (const text of ['', ' ', '{"a":1', '<html>', '\ufeff{}', 'undefined', '{} {}'])
    t.equal(jsonOrUndefined(text), undefined, text)
  t.equal(jsonOrUndefined(Buffer.from([0x22, 0xff, 0x22])), '\ufffd')
})
