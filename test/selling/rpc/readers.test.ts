/** Whatever goes on as free is free for every reader that may be behind the gateway. */
import fc from 'fast-check'
import t from 'tap'
import { readMessages } from '../../../src/selling/rpc/message.ts'

const prices = {
  protocol: 'mcp',
  tools: { costly: 50 },
  resources: { 'demo://paid/*': 3 },
  toolErrors: 'sold'
} as const

type Pair = readonly [name: string, value: unknown]

/** A JSON value in which objects are lists of members, so that names can occur twice. */
interface Members {
  readonly members: readonly Pair[]
}

const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && 'members' in value

/** Names as they can be written: some letters as escapes. */
function written(name: string, escapes: boolean) {
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

const exactly = (one: string, name: string) => one === name
const inAnyCase = (one: string, name: string) => one.toUpperCase().toLowerCase() === name
const readers = [exactly, inAnyCase].flatMap(isSame =>
  [true, false].flatMap(last => [true, false].map(lends => reader(isSame, last, lends)))
)

/** Whether a reader would do what costs something. */
function costs(read: Reader, message: unknown) {
  const params = read(message, 'params')
  const uri = read(params, 'uri')
  switch (read(message, 'method')) {
    case 'tools/call':
      return read(params, 'name') === 'costly'
    case 'resources/read':
      return typeof uri === 'string' && (URL.parse(uri)?.href ?? uri).startsWith('demo://paid/')
    default:
      return false
  }
}

const value = fc.constantFrom(
  'costly',
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
const membersOf = (inner: fc.Arbitrary<unknown>) =>
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
  .map(([method, more, inner, isFirst]) => {
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

/** What is asked for each name; null for what is free or refused. */
function amountOf(method: string, params: object, list: object) {
  const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))
  const read = readMessages(body, { protocol: 'mcp', toolErrors: 'sold', ...list })
  if ('code' in read) return read.message
  const [message] = read.messages
  if (message?.kind === 'refused') return message.refusal.message
  return message?.kind === 'priced' && typeof message.call.amount === 'number' ? message.call.amount : null
}

t.test('a resource has one price under every spelling that a server may serve it by', async t => {
  const resources = { 'file:///secret': 50, 'demo://paid/*': 3, 'https://host.example/caf\u00e9': 7 }
  const of = (uri: string) => amountOf('resources/read', { uri }, { resources })
  const ends = ['#a', '?', '?a=1', '?#', '/', '//', '#\0', '\0', '\0.txt', '%00', '%23a', '%3Fa', ' ', '\n']
  const spellings = [
    'file:////secret',
    'file://///secret',
    'file:///%73ecret',
    'file:///%2573ecret',
    'file:///%252573ecret',
    'FILE:///secret',
    'file://localhost/secret',
    'file:/secret',
    'file:///a/../secret',
    'file:///a/%2e%2e/secret',
    'file:///a/%252e%252e/secret',
    'file:///.//secret',
    'file:///\\secret',
    'fi\tle:///secret'
  ]
  for (const uri of [...ends.map(end => `file:///secret${end}`), ...spellings])
    t.equal(of(uri), 50, JSON.stringify(uri))
  for (const uri of ['DEMO://PAID/1', 'demo://user@paid/1', 'demo://u:p@paid:80/1', 'demo://paid//1'])
    t.equal(of(uri), 3, uri)
  const host = 'https://host.example'
  for (const uri of [`${host}/cafe\u0301`, 'https://HOST.example/caf%C3%A9', `${host}:443/caf\u00e9`])
    t.equal(of(uri), 7, uri)
  for (const uri of ['file:///secrets', 'file:///a/secret', 'demo://free/1', 'demo://paid']) t.equal(of(uri), null, uri)
})

t.test('a URI that the list has costs what the list says', async t => {
  const resources = { 'demo://list': 10, 'demo://list?page=1': 0, 'demo://list?page=2': 2 }
  const of = (uri: string) => amountOf('resources/read', { uri }, { resources })
  t.same(['demo://list', 'demo://list?page=1', 'demo://list?page=2', 'demo://list?page=3'].map(of), [10, null, 2, 10])
})

t.test('a tool has one price under names that end at a NUL, have spaces around, or another Unicode form', async t => {
  const tools = { costly: 50, 'caf\u00e9': 7 }
  const of = (name: string) => amountOf('tools/call', { name }, { tools })
  for (const name of ['costly\0', 'costly\0x', ' costly', 'costly\n', 'costly\u00a0', '\uff43ostly'])
    t.equal(of(name), 50, JSON.stringify(name))
  t.equal(of('cafe\u0301'), 7)
  for (const name of ['costl', 'costlys', '\0costly']) t.equal(of(name), null, JSON.stringify(name))
})

t.test('a batch cannot make the gateway look up spellings without end', async t => {
  const uris = {
    many: `demo://p/${'%C3%A9'.repeat(40)}\u00e9?a#b`,
    'too many': `demo://U@P:1//a/\u00e9%252525C3%2525A9\u1e9b\u0323/%2525253Fa%2523b//%25253F%252523?a#b\0 `
  }
  for (const [name, uri] of Object.entries(uris)) {
    const call = (_none: unknown, id: number) => ({
      jsonrpc: '2.0',
      id,
      method: 'resources/read',
      params: { uri }
    })
    const body = Buffer.from(JSON.stringify(Array.from({ length: 1000 }, call)))
    let parsed = 0
    const { parse } = URL
    URL.parse = (...of) => {
      parsed++
      return parse(...of)
    }
    const read = readMessages(body, prices)
    URL.parse = parse
    t.ok('messages' in read)
    if ('messages' in read)
      t.match(read.messages.at(-1), { kind: 'refused', refusal: { message: /too many spellings/ } }, name)
    t.ok(parsed < 3000, `${name}: ${parsed} URLs parsed`)
  }
})
