/** Whatever goes on as free is free for every reader that may stand behind the gateway. */
import fc from 'fast-check'
import t from 'tap'
import { readMessages } from '../../src/rpc/message.ts'

const prices = {
  protocol: 'mcp',
  tools: { dear: 50 },
  resources: { 'demo://paid/*': 3 },
  toolErrors: 'sold',
  messageLimit: 1024
} as const

type Pair = readonly [name: string, value: unknown]

/** A JSON value in which objects are lists of members, so that names can stand twice. */
interface Members {
  readonly members: readonly Pair[]
}

const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && 'members' in value

/** Names as they can be written: some letters as escapes. */
function written(name: string, escapes: boolean): string {
  if (!escapes) return JSON.stringify(name)
  return `"${[...name].map(letter => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"`
}

function textOf(value: unknown, escapes: boolean): string {
  if (isMembers(value))
    return `{${value.members.map(([name, inner]) => `${written(name, escapes)}: ${textOf(inner, escapes)}`).join(',')}}`
  return JSON.stringify(value)
}

/** What a reader finds under a name: the first or last that it takes for that name, and what a prototype lends. */
type Reader = (object: unknown, name: string) => unknown

function reader(isSame: (one: string, name: string) => boolean, takesLast: boolean, takesPrototype: boolean): Reader {
  return function find(object, name): unknown {
    if (!isMembers(object)) return undefined
    const all = object.members.filter(([one]) => isSame(one, name))
    const found = takesLast ? all.at(-1) : all[0]
    if (found !== undefined) return found[1]
    const lent = object.members.find(([one]) => one === '__proto__')?.[1]
    return takesPrototype ? find(lent, name) : undefined
  }
}

const exactly = (one: string, name: string): boolean => one === name
const inAnyCase = (one: string, name: string): boolean => one.toUpperCase().toLowerCase() === name
const readers = [exactly, inAnyCase].flatMap(isSame =>
  [true, false].flatMap(last => [true, false].map(lends => reader(isSame, last, lends)))
)

/** Whether a reader would do what costs something. */
function costs(read: Reader, message: unknown): boolean {
  const params = read(message, 'params')
  const uri = read(params, 'uri')
  switch (read(message, 'method')) {
    case 'tools/call':
      return read(params, 'name') === 'dear'
    case 'resources/read':
      return typeof uri === 'string' && (URL.parse(uri)?.href ?? uri).startsWith('demo://paid/')
    default:
      return false
  }
}

const value = fc.constantFrom(
  'dear',
  'open',
  'tools/call',
  'ping',
  'demo://paid/1',
  'DEMO://paid/1',
  'demo://x/1',
  7,
  null
)
const names =
  'method Method METHOD params Params param\u017f name Name uri URI id result __proto__ arguments _meta'.split(' ')
const membersOf = (inner: fc.Arbitrary<unknown>): fc.Arbitrary<Members> =>
  fc.record({ members: fc.array(fc.tuple(fc.constantFrom(...names), inner), { maxLength: 5 }) })
const params = membersOf(fc.oneof(value, membersOf(value)))
/** Most are nearly calls: else hardly one would get to the rules that matter. */
const message = fc
  .tuple(
    fc.constantFrom('tools/call', 'resources/read', 'ping'),
    fc.array(fc.tuple(fc.constantFrom(...names), fc.oneof(value, params)), { maxLength: 3 }),
    params,
    fc.boolean()
  )
  .map(([method, more, inner, isFirst]): Members => {
    const call: Pair[] = [
      ['id', 1],
      ['method', method],
      ['params', inner]
    ]
    return { members: isFirst ? [...call, ...more] : [...more, ...call] }
  })

t.test('no reader finds a priced call in what is free', async t => {
  let free = 0
  fc.assert(
    fc.property(fc.oneof(message, params), fc.boolean(), (sent, escapes) => {
      const read = readMessages(Buffer.from(textOf(sent, escapes)), prices)
      if ('code' in read || read.messages[0]?.kind !== 'free') return true
      free++
      return !readers.some(find => costs(find, sent))
    }),
    { numRuns: 20_000 }
  )
  t.ok(free > 500, `${free} were free`)
})
