import t from 'tap'
import type { TSchema } from 'typebox'
import { bodyLimitOf } from '../../src/engine/pipeline/internal.ts'
import type { AnyOperation } from '../../src/engine/operations/operation.ts'
import { bodyReader } from '../../src/engine/operations/validation.ts'
import { defaultYaml, startGateway } from '../support/gateway.ts'
import { RawClient } from '../support/raw-client.ts'

/** Values of a body that may be looked at; each is some 100 ns, with what follows from it. */
const MOST_READS = 30_000
/** Names of its members that may be listed, where anonymous clients send it. */
const MOST_NAMES = 10_000
/** Bytes that an anonymous client may send to an operation. */
const MOST_BYTES = 65_536

/** Signed with one secret over the bytes, which is looked at before anything reads them. */
const SIGNED = new Set(['receiveBillingNotification', 'receiveStoreNotification'])

interface Work {
  reads: number
  names: number
  parsed: number
}

/** Counts every look at what `JSON.parse` made, however deep. */
function counting(value: unknown, work: Work) {
  if (typeof value !== 'object' || value === null) return value
  return new Proxy(value, {
    get: (target, name) => {
      work.reads++
      return counting(Reflect.get(target, name), work)
    },
    ownKeys: target => {
      const names = Reflect.ownKeys(target)
      work.names += names.length
      return names
    }
  })
}

/** What one body costs a reader. */
function workOf(read: (bytes: Uint8Array) => unknown, text: string): Work {
  const work: Work = { reads: 0, names: 0, parsed: 0 }
  const parse = JSON.parse
  JSON.parse = source => {
    work.parsed++
    return counting(parse(source), work)
  }
  try {
    read(Buffer.from(text))
  } catch {
    // What is said of it is another test's affair.
  } finally {
    JSON.parse = parse
  }
  return work
}

/** Bytes of a hostile body: as many as an anonymous client may send, and twice that with a key. */
const SIZES = [MOST_BYTES, 2 * MOST_BYTES] as const

/** Each place of a schema, as a function that makes a body with a given text in that place. */
function places(
  schema: TSchema | undefined,
  around: (text: string) => string = text => text
): Array<(text: string) => string> {
  const { properties = {}, items } = (schema ?? {}) as { properties?: Record<string, TSchema>; items?: TSchema }
  return [
    around,
    ...(items === undefined ? [] : places(items, text => around(`[${text}]`))),
    ...Object.entries(properties).flatMap(([name, member]) =>
      places(member, text => around(`{${JSON.stringify(name)}:${text}}`))
    )
  ]
}

/** As much of something as fits. */
function filled(open: string, piece: (index: number) => string, close: string, bytes: number) {
  const pieces: string[] = []
  for (let size = 0, index = 0; size < bytes; index++) {
    const text = piece(index)
    pieces.push(text)
    size += text.length + 1
  }
  return `${open}${pieces.join(',')}${close}`
}

const hostile = (bytes: number): Array<readonly [string, string]> => [
  ['items', filled('[', () => '{"variantId":1,"quantity":1}', ']', bytes)],
  ['empty lists', filled('[', () => '[]', ']', bytes)],
  ['numbers', filled('[', () => '1', ']', bytes)],
  ['members', filled('{', index => `"a${index}":null`, '}', bytes)],
  ['levels of lists', '['.repeat(bytes / 2) + ']'.repeat(bytes / 2)],
  ['levels of objects', '{"a":'.repeat(bytes / 6) + '1' + '}'.repeat(bytes / 6)]
]

function takesBody({ method }: AnyOperation): boolean {
  return method !== 'GET'
}

t.test(
  'no operation that an anonymous client may call reads more than 64 KiB, nor parses more than a bounded part of it, whatever is in it',
  async t => {
    const { operations } = await startGateway(t)
    const open = operations.filter(
      operation => takesBody(operation) && (operation.access === 'public' || operation.access === 'credential')
    )
    t.ok(open.length >= 10, `${open.length} operations: ${open.map(({ id }) => id).join(', ')}`)
    for (const operation of open) {
      if (SIGNED.has(operation.id)) continue
      const limit = bodyLimitOf(operation)
      t.ok(limit <= MOST_BYTES, `${operation.id} takes ${limit} bytes`)
    }
    // Those with a key too: what they may send is larger, and as little of it is looked at.
    const bodies = SIZES.map(hostile)
    for (const operation of operations.filter(takesBody)) {
      if (operation.body === undefined) continue
      const read = bodyReader(operation.body)
      const outsider = open.includes(operation)
      for (const [name, text] of bodies[outsider ? 0 : 1] ?? []) {
        for (const put of places(operation.body)) {
          const { reads, names, parsed } = workOf(read, put(text))
          if (reads > MOST_READS || (outsider && names > MOST_NAMES))
            t.fail(`${operation.id}: ${reads} reads, ${names} names for ${name} in ${put('…')}`)
          if (name.startsWith('levels') && parsed > 0)
            t.fail(`${operation.id}: ${name} came to the parser in ${put('…')}`)
        }
      }
    }
  }
)

t.test('a query is read up to 8 KiB', async t => {
  const gateway = await startGateway(t)
  for (const query of ['a&'.repeat(20_000), '%zz&'.repeat(15_000)]) {
    const answer = await gateway.send('GET', `/api/l402/pricing?${query}`)
    t.equal(answer.status, 200, 'not at all where no operation needs one')
  }
  const answer = await gateway.send('GET', `/api/storefront/demo/orders/abc?${'a&'.repeat(20_000)}`)
  t.equal(answer.status, 400)
  t.match(answer.text, 'The query must have at most 8192 characters.')
})

t.test(
  'a path is 8 KiB at most, 414 beyond it, and is decoded a few times, whichever methods its routes take',
  async t => {
    const gateway = await startGateway(t, {
      yaml: defaultYaml({
        replace: [
          ['  - match: { path: /* }\n    chain: public', '  - match: { path: /*, method: GET }\n    chain: public']
        ]
      })
    })
    const decode = globalThis.decodeURI
    let decoded = 0
    globalThis.decodeURI = text => {
      decoded += text.length
      return decode(text)
    }
    t.teardown(() => {
      globalThis.decodeURI = decode
    })
    const ask = async (method: string, path: string) => {
      const client = await RawClient.connect(Number(new URL(gateway.url).port))
      client.send(`${method} ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
      const { status } = await client.response(method)
      client.close()
      return status
    }
    for (const unit of ['%zz', '%2e%2f', '%61', '%25', '/%2e', '%ff']) {
      for (const method of ['GET', 'PURGE']) {
        decoded = 0
        t.equal(await ask(method, `/${unit.repeat(78_000 / unit.length)}`), 414, `${method} ${unit}`)
        t.equal(decoded, 0, 'and it is not read')
        const status = await ask(method, `/${unit.repeat(Math.floor(8100 / unit.length))}`)
        t.ok(status === 404 || status === 405 || status === 400, `${method} ${unit}: ${status}`)
        t.ok(decoded <= 64 * 8192 * 3, `${method} ${unit}: ${decoded} characters decoded`)
      }
    }
  }
)
