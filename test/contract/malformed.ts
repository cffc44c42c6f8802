import { gzipSync, brotliCompressSync, deflateSync } from 'node:zlib'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import * as fc from 'fast-check'

type Json = Record<string, unknown>

/** An operation that takes a body or a query, as the OpenAPI document describes it. */
export interface Target {
  readonly id: string
  readonly method: string
  /** With `{name}` parameters. */
  readonly path: string
  readonly access: 'merchant' | 'admin' | 'public'
  /** Schema of the body; null when it takes none. */
  readonly body: Json | null
  /** Whether the body may be left out. */
  readonly optional: boolean
  /** Query parameters by name. */
  readonly query: Readonly<Record<string, Json>>
}

/** One request, ready to be sent. */
export interface Malformed {
  readonly target: Target
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | null
  /** What was done to it, for a failure's message. */
  readonly how: readonly string[]
}

/** Text that is put into the JSON unchanged, where no JavaScript value could. */
class Raw {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** Every operation of a document that takes a body or a query and can be asked without paying. */
export function targetsOf(document: Json): Target[] {
  const targets: Target[] = []
  const { schemas } = document['components'] as { schemas: Json } /* made by us */
  /** The schema with what it refers to put in. */
  const whole = (schema: unknown): unknown => {
    if (Array.isArray(schema)) return schema.map(whole)
    if (typeof schema !== 'object' || schema === null) return schema
    const { $ref } = schema as { $ref?: unknown }
    if (typeof $ref === 'string') return whole(schemas[$ref.replace('#/components/schemas/', '')])
    return Object.fromEntries(Object.entries(schema).map(([name, inner]) => [name, whole(inner)]))
  }
  for (const [path, item] of Object.entries(document['paths'] as Record<string, Json> /* made by us */)) {
    for (const [method, operation] of Object.entries(item)) {
      const {
        operationId,
        tags = [],
        requestBody,
        parameters = [],
        security = []
      } = operation as {
        operationId?: string
        tags?: string[]
        requestBody?: { required: boolean; content: Record<string, { schema: Json }> }
        parameters?: Array<{ name: string; in: string; schema: Json }>
        security?: Json[]
      } /* OpenAPI's own forms */
      if (operationId === undefined || security.some(one => 'l402' in one)) continue
      // A body with a signature is refused before it is parsed.
      if (tags.includes('Provider notifications')) continue
      const query = Object.fromEntries(
        parameters.filter(one => one.in === 'query').map(one => [one.name, whole(one.schema) as Json])
      )
      const body = (whole(requestBody?.content['application/json']?.schema) as Json | undefined) ?? null
      if (body === null && Object.keys(query).length === 0) continue
      const access = security.some(one => 'adminKey' in one) ? 'admin' : security.length > 0 ? 'merchant' : 'public'
      targets.push({
        id: operationId,
        method: method.toUpperCase(),
        path,
        access,
        body,
        optional: requestBody?.required === false,
        query
      })
    }
  }
  return targets
}

const emoji = '\u{1F9E8}'
const deep = (levels: number) => new Raw(`${'['.repeat(levels)}${']'.repeat(levels)}`)
const deepObject = (levels: number) => new Raw(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`)

/** Values that no schema wants, or that storage, logs and money may stumble over. */
const hostile: ReadonlyArray<readonly [name: string, value: unknown]> = [
  ['null', null],
  ['true', true],
  ['an array', []],
  ['an object', {}],
  ['an array of nulls', [null, null]],
  ['an object in an array', [{}]],
  ['a number', 1],
  ['a negative number', -1],
  ['a fraction', 0.1],
  ['minus zero', new Raw('-0')],
  ['a huge number', new Raw('1e400')],
  ['a tiny number', new Raw('1e-400')],
  ['beyond the safe integers', new Raw('9007199254740993')],
  ['beyond int4', 2147483648],
  ['beyond int8', new Raw('9223372036854775808')],
  ['many digits', new Raw(`0.${'1'.repeat(400)}`)],
  ['an exponent', new Raw('1E+2')],
  ['an empty text', ''],
  ['a space', ' '],
  ['NUL', '\u0000'],
  ['NUL inside', 'a\u0000b'],
  ['an escaped NUL', '\\u0000'],
  ['a lone high surrogate', '\ud800'],
  ['a lone low surrogate', 'a\udfff'],
  ['control characters', '\u0001\u0007\u001b[2J'],
  ['line ends', 'a\r\nX-Injected: 1'],
  ['right to left', '\u202egnp.exe'],
  ['a BOM', '\ufeffa'],
  ['a private use character', '\uf8ff'],
  ['a noncharacter', '\uffff'],
  ['an astral character', emoji],
  ['many combining marks', `e${'\u0301'.repeat(300)}`],
  ['100 astral characters', emoji.repeat(100)],
  ['101 astral characters', emoji.repeat(101)],
  ['500 astral characters', emoji.repeat(500)],
  ['a text of 100,000', 'x'.repeat(100_000)],
  ['NaN as text', 'NaN'],
  ['a number as text', '10'],
  ['a huge number as text', '1e400'],
  ['a negative number as text', '-1'],
  ['Arabic digits', '\u0661\u0662'],
  ['__proto__ as text', '__proto__'],
  ['SQL', "'; drop table merchants; --"],
  ['a template', '${7*7}{{7*7}}'],
  ['a path', '../../etc/passwd'],
  ['an address', 'http://169.254.169.254/latest/meta-data'],
  ['an address with a port', 'https://a.example:99999'],
  ['javascript:', 'javascript:alert(1)'],
  ['an invalid address', 'https://'],
  ['a mail address with a line end', 'a@b.example\r\nBcc: c@d.example'],
  ['a pattern', '/a/*/b'],
  ['33 levels', deep(33)],
  ['5,000 levels', deep(5_000)],
  ['100 objects deep', deepObject(100)],
  ['a wide array', Array.from({ length: 5_000 }, () => 0)],
  ['a wide object', Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`k${index}`, 'v']))],
  ['__proto__', new Raw('{"__proto__":{"isAdmin":true,"a":"b"}}')],
  ['a constructor', { constructor: { prototype: { a: 1 } } }],
  ['toJSON', { toJSON: 'a' }],
  ['keys that are odd', { '': 'a', '\u0000': 'b', '\ud800': 'c', [emoji.repeat(60)]: 'd' }]
]

/** Texts among which one fits most patterns. */
const samples = [
  'a',
  'abc',
  'a@b.example',
  'GET',
  '/a',
  '/a/*',
  'X-Key',
  'https://api.example.com',
  '0',
  '1',
  '10',
  'primary',
  'a'.repeat(30),
  'a'.repeat(64)
]

/** Values that fit a schema, or nearly: patterns and formats are tried with a few texts only. */
function fitting(schema: Json): fc.Arbitrary<unknown> {
  const {
    type,
    anyOf,
    properties,
    required,
    items,
    minimum,
    maximum,
    minLength = 0,
    maxLength = 200,
    pattern,
    format
  } = schema as {
    type?: string | string[]
    enum?: unknown[]
    anyOf?: Json[]
    properties?: Record<string, Json>
    required?: string[]
    items?: Json
    minimum?: number
    maximum?: number
    minLength?: number
    maxLength?: number
    pattern?: string
    format?: string
  } /* JSON Schema's own forms */
  if (Array.isArray(schema['enum'])) return fc.constantFrom(...(schema['enum'] as unknown[]) /* an array of anything */)
  if (anyOf !== undefined) return fc.oneof(...anyOf.map(fitting))
  const kind = Array.isArray(type) ? type[0] : type
  switch (kind) {
    case 'string': {
      const fits = fittingTexts(schema)
      const long =
        pattern === undefined && format === undefined
          ? [
              emoji.repeat(Math.min(maxLength, 9_000)),
              'x'.repeat(Math.min(maxLength, 9_000)),
              'x'.repeat(Math.min(maxLength + 1, 9_000))
            ]
          : []
      return fc.constantFrom(...fits, ...long, 'a'.repeat(minLength))
    }
    case 'integer':
      return fc.oneof(
        fc.integer({ min: minimum ?? -3, max: Math.min(maximum ?? 1_000, 1_000) }),
        fc.constantFrom(minimum ?? 0, maximum ?? 0)
      )
    case 'number':
      return fc.oneof(
        fc.constantFrom(minimum ?? 0, 0.5, 1e-8, 1e21),
        fc.double({ min: minimum ?? -3, max: maximum ?? 1e6, noNaN: true })
      )
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return fc.array(items === undefined ? fc.constant('a') : fitting(items), { maxLength: 3 })
    case 'object': {
      if (properties === undefined)
        return fc.dictionary(
          fc.constantFrom('a', 'b', emoji, 'constructor'),
          fc.constantFrom('a', emoji.repeat(500), ''),
          { maxKeys: 3 }
        )
      return fc.record(
        Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, fitting(property)])),
        { requiredKeys: required ?? [] }
      )
    }
    default:
      return fc.constantFrom<unknown>({}, 'a', 1)
  }
}

/** Texts that a schema of a text takes, as far as one of ours does. */
function fittingTexts({
  minLength = 0,
  maxLength = 200,
  pattern,
  format
}: {
  minLength?: number
  maxLength?: number
  pattern?: string
  format?: string
}) {
  return samples.filter(
    text =>
      text.length >= minLength &&
      text.length <= maxLength &&
      (pattern === undefined || new RegExp(pattern, 'u').test(text)) &&
      (format !== 'email' || text.includes('@'))
  )
}

/** One value with every member that a schema names. */
function whole(schema: Json): unknown {
  const { type, anyOf, properties, items, minimum } = schema as {
    type?: string | string[]
    anyOf?: Json[]
    properties?: Record<string, Json>
    items?: Json
    minimum?: number
  } /* JSON Schema's own forms */
  const [first] = Array.isArray(schema['enum']) ? (schema['enum'] as unknown[]) /* an array of anything */ : []
  if (first !== undefined) return first
  if (anyOf?.[0] !== undefined) return whole(anyOf[0])
  switch (Array.isArray(type) ? type[0] : type) {
    case 'string':
      return fittingTexts(schema)[0] ?? 'a'
    case 'integer':
    case 'number':
      return minimum ?? 1
    case 'boolean':
      return true
    case 'array':
      return [items === undefined ? 'a' : whole(items)]
    case 'object':
      return properties === undefined
        ? { a: 'a' }
        : Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, whole(property)]))
    default:
      return null
  }
}

/** All the places of a value: the whole, every member, every element. */
function places(value: unknown, path: ReadonlyArray<string | number> = []): Array<ReadonlyArray<string | number>> {
  if (typeof value !== 'object' || value === null || value instanceof Raw) return [path]
  return [
    path,
    ...Object.entries(value).flatMap(([name, inner]) =>
      places(inner, [...path, Array.isArray(value) ? Number(name) : name])
    )
  ]
}

const gone = Symbol('gone')

function put(value: unknown, [first, ...rest]: ReadonlyArray<string | number>, what: unknown): unknown {
  if (first === undefined) return what
  if (Array.isArray(value))
    return value.toSpliced(
      Number(first),
      1,
      ...(what === gone && rest.length === 0 ? [] : [put(value[Number(first)], rest, what)])
    )
  const members = Object.entries(value as Json /* places() found a member here */)
  return Object.fromEntries(
    members.flatMap(([name, inner]) =>
      name !== first ? [[name, inner]] : what === gone && rest.length === 0 ? [] : [[name, put(inner, rest, what)]]
    )
  )
}

function written(value: unknown): string {
  if (value instanceof Raw) return value.text
  if (Array.isArray(value)) return `[${value.map(written).join(',')}]`
  if (typeof value === 'object' && value !== null)
    return `{${Object.entries(value)
      .map(([name, inner]) => `${JSON.stringify(name)}:${written(inner)}`)
      .join(',')}}`
  return value === undefined || value === gone ? 'null' : JSON.stringify(value)
}

interface Change {
  readonly kind: 'replace' | 'drop' | 'wrap' | 'add'
  /** Which place, counted round. */
  readonly where: number
  readonly what: number
}

const changes: fc.Arbitrary<Change> = fc.record({
  kind: fc.constantFrom('replace', 'replace', 'replace', 'replace', 'drop', 'wrap', 'add'),
  where: fc.nat(40),
  what: fc.nat(hostile.length - 1)
})

function changed(value: unknown, { kind, where, what }: Change): readonly [value: unknown, how: string] {
  const all = places(value)
  const place = all[where % all.length] ?? []
  const [name, bad] = hostile[what] ?? ['nothing', null]
  const at = place.join('.') || 'the whole'
  const inner = place.reduce<unknown>(
    (found, part) => (found as Record<string | number, unknown>)[part] /* the path is the value's own */,
    value
  )
  switch (kind) {
    case 'replace':
      return [put(value, place, bad), `${at} is ${name}`]
    case 'drop':
      return [put(value, place, gone), `${at} is left out`]
    case 'wrap':
      return [put(value, place, [inner]), `${at} in an array`]
    case 'add': {
      if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Raw)
        return [value, 'nothing']
      return [
        new Raw(
          `${written(value).slice(0, -1)}${Object.keys(value).length === 0 ? '' : ','}"extra":${written(bad)},"__proto__":${written(bad)}}`
        ),
        `an extra member and __proto__ are ${name}`
      ]
    }
  }
}

/** What is done to the JSON text. */
const texts: ReadonlyArray<readonly [name: string, change: (text: string) => Uint8Array | string]> = [
  ['cut off', text => text.slice(0, -1)],
  ['half of it', text => text.slice(0, text.length / 2)],
  ['something follows', text => `${text} x`],
  ['twice', text => text + text],
  ['nothing', () => ''],
  ['white space', () => ' \r\n\t'],
  ['a trailing comma', text => text.replace(/\}$/, ',}')],
  ['single quotes', text => text.replaceAll('"', "'")],
  ['a comment', text => `/* a */${text}`],
  ['NaN', () => '{"amount":NaN}'],
  ['a leading zero', () => '{"amount":01}'],
  ['a plus', () => '[+1]'],
  ['a raw line end in a text', () => '{"orderId":"a\nb"}'],
  ['a raw NUL in a text', () => '{"orderId":"a\u0000b"}'],
  ['a bad escape', () => '{"orderId":"\\x41"}'],
  ['half an escape', () => '{"orderId":"\\u00"}'],
  ['a member twice', text => text.replace(/^\{("(?:[^"\\]|\\.)*"):/, '{$1:[{}],$1:')],
  ['a BOM', text => `\ufeff${text}`],
  ['two BOMs', text => `\ufeff\ufeff${text}`],
  ['UTF-16', text => Buffer.from(text, 'utf16le')],
  ['UTF-16 with a BOM', text => Buffer.from(`\ufeff${text}`, 'utf16le')],
  [
    'a byte that is not UTF-8',
    text => Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from([0x22, 0xff, 0x22]), Buffer.from('}')])
  ],
  [
    'an overlong NUL',
    text => Buffer.concat([Buffer.from(text.replace(/"[^"]*\}$/, '"')), Buffer.from([0xc0, 0x80]), Buffer.from('"}')])
  ],
  [
    'a surrogate in UTF-8',
    text =>
      Buffer.concat([
        Buffer.from(text.slice(0, -1)),
        Buffer.from(',"x":"'),
        Buffer.from([0xed, 0xa0, 0x80]),
        Buffer.from('"}')
      ])
  ],
  ['Latin-1', text => Buffer.from(text.replace(/"\}?$/, '\u00e9"}'), 'latin1')],
  ['random bytes', () => Buffer.from([0x00, 0xde, 0xad, 0xbe, 0xef, 0x80, 0x0d, 0x0a])],
  ['a form', () => 'orderId=a&amount=1'],
  ['XML', () => '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'],
  ['larger than the limit', () => Buffer.alloc(1_048_577, 0x20)],
  ['exactly the limit', text => text.padEnd(1_048_576)],
  ['200,000 levels', () => `${'['.repeat(200_000)}${']'.repeat(200_000)}`],
  ['a long text', () => `{"orderId":"${'x'.repeat(900_000)}"}`],
  ['many members', () => `{${Array.from({ length: 50_000 }, (_, index) => `"k${index}":0`).join(',')}}`]
]

type Bytes = (body: Uint8Array) => Uint8Array

/** What is done to the headers, and to the body for them. */
const heads: ReadonlyArray<readonly [name: string, headers: Readonly<Record<string, string>>, bytes?: Bytes]> = [
  ['text/plain', { 'content-type': 'text/plain' }],
  ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
  ['multipart', { 'content-type': 'multipart/form-data; boundary=x' }],
  ['no type', { 'content-type': '' }],
  ['an unknown type', { 'content-type': '/;;=' }],
  ['UTF-16 by name', { 'content-type': 'application/json; charset=utf-16' }],
  ['upper case', { 'content-type': 'APPLICATION/JSON' }],
  ['+json', { 'content-type': 'application/merge-patch+json' }],
  ['a list of types', { 'content-type': 'application/json, text/plain' }],
  ['gzip', { 'content-encoding': 'gzip' }, body => gzipSync(body)],
  ['invalid gzip', { 'content-encoding': 'gzip' }],
  ['br', { 'content-encoding': 'br' }, body => brotliCompressSync(body)],
  ['deflate', { 'content-encoding': 'deflate' }, body => deflateSync(body)],
  ['an unknown encoding', { 'content-encoding': 'rot13' }],
  ['identity', { 'content-encoding': 'identity' }],
  ['a long idempotency key', { 'idempotency-key': 'x'.repeat(257) }],
  ['a blank idempotency key', { 'idempotency-key': ' ' }],
  ['Latin-1 in the idempotency key', { 'idempotency-key': '\u00e9' }],
  ['the same idempotency key', { 'x-idempotency-key': 'same' }],
  ['Accept of something else', { accept: 'text/html' }],
  ['a long header', { 'x-long': 'x'.repeat(7_000) }],
  ['two payment credentials', { authorization: 'L402 a:b' }]
]

const queries = [
  '',
  '1',
  '-1',
  '99999999999999999999',
  '1e3',
  '0x10',
  '1.5',
  'NaN',
  'true',
  '%00',
  '%ff',
  '%F0%9F%A7%A8',
  '%',
  '%zz',
  "'",
  '__proto__',
  'a'.repeat(3_000),
  'paid',
  'pending',
  '2026-11-21T00:00:00Z',
  '-271821-04-20T00:00:00Z',
  '+275760-09-13T00:00:00.001Z',
  '0000-00-00',
  '%E2%80%AE'
]
const segments = [
  '%00',
  '%ff',
  '%2e%2e%2f',
  '-1',
  '0',
  '99999999999999999999',
  '1e3',
  'x'.repeat(200),
  '%F0%9F%A7%A8',
  '%ED%A0%80',
  '__proto__',
  'a%2Fb',
  '100000000000000'
]

const ajv = new Ajv2020({ strict: false })
addFormats.default(ajv)
const validators = new Map<string, ValidateFunction>()

/** The value without the members that mean absent ones (decision 4). No schema looks as deep as this stops. */
function without(absent: readonly unknown[], value: unknown, depth = 0): unknown {
  if (depth > 100) return value
  if (Array.isArray(value)) return value.map(item => without(absent, item, depth + 1))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => !absent.includes(inner))
      .map(([name, inner]) => [name, without(absent, inner, depth + 1)])
  )
}

/** Whether the body is none that its schema takes, as another reader of JSON Schema sees it. */
export function isWrong({ target, body }: Malformed): boolean {
  if (target.body === null || body === null) return false
  let value: unknown
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body)
    value = text === '' && target.optional ? {} : JSON.parse(text)
  } catch {
    return true
  }
  if (value === null && target.optional) value = {}
  let validate = validators.get(target.id)
  if (validate === undefined) validators.set(target.id, (validate = ajv.compile(target.body)))
  // Null and "" are kept where the schema takes them, so a body is wrong only when it is wrong in every reading.
  // Without either there is one reading.
  const readings = /null|""/.test(text) ? [[], [null], [''], [null, '']] : [[]]
  return readings.every(absent => !validate(without(absent, value)))
}

/** What a target's requests are made with where it matters that they nearly fit. */
export interface Known {
  /** Values of path parameters, by name. */
  readonly params: Readonly<Record<string, readonly string[]>>
  /** Members by their name, in any body that has them. */
  readonly members: Readonly<Record<string, readonly unknown[]>>
}

function at<T>(lists: Readonly<Record<string, readonly T[]>>, name: string, index: number) {
  const list = Object.hasOwn(lists, name) ? lists[name] : undefined
  return list?.[index % list.length]
}

function pathTo(target: Target, known: Known, index: number, segment: string | null = null) {
  return target.path.replaceAll(
    /\{([^}]+)\}/g,
    (_whole, name: string) => segment ?? at(known.params, name, index) ?? '1'
  )
}

/** What is known that replace members of the same name. */
function overlaid(value: unknown, known: Known, index: number): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, at(known.members, name, index) ?? inner])
  )
}

/**
 * For every member of every body every hostile value, and every hostile text in every query parameter, one at a time.
 */
export function sweep(targets: readonly Target[], known: Known): Malformed[] {
  let index = 0
  return targets.flatMap((target): Malformed[] => {
    const { body, query } = target
    const base = body === null ? null : overlaid(whole(body), known, index)
    const bodies =
      body === null
        ? []
        : places(base).flatMap(place =>
            hostile.map(([name, bad]): Malformed => ({
              target,
              path: pathTo(target, known, index++),
              headers: { 'content-type': 'application/json' },
              body: Buffer.from(written(put(overlaid(base, known, index), place, bad))),
              how: [`${place.join('.') || 'the whole'} is ${name}`]
            }))
          )
    const asked = Object.keys(query).flatMap(name =>
      queries.map((text): Malformed => ({
        target,
        path: `${pathTo(target, known, index++)}?${name}=${text}`,
        headers: {},
        body: null,
        how: [`${name} in the query is ${text.slice(0, 100)}`]
      }))
    )
    return [...bodies, ...asked]
  })
}

/** Requests for the targets: from ones that fit to ones that are no JSON at all. */
export function malformed(targets: readonly Target[], known: Known): fc.Arbitrary<Malformed> {
  const pick = <T>(list: readonly T[], freq: number) =>
    fc.integer({ min: 0, max: freq - 1 }).chain(draw => (draw === 0 ? fc.constantFrom(...list) : fc.constant(null)))
  return fc.constantFrom(...targets).chain(target =>
    fc
      .record({
        value: target.body === null ? fc.constant(undefined) : fitting(target.body),
        member: fc.nat(50),
        overlaid: fc.integer({ min: 0, max: 6 }).map(draw => draw > 0),
        changes: target.body === null ? fc.constant([]) : fc.array(changes, { maxLength: 3 }),
        text: target.body === null ? fc.constant(null) : pick(texts, 8),
        head: pick(heads, 8),
        query:
          Object.keys(target.query).length === 0
            ? pick(['?a=%00', '?%ff', '?__proto__=1'], 30)
            : fc.record(
                Object.fromEntries(Object.keys(target.query).map(name => [name, fc.constantFrom(...queries)])),
                { requiredKeys: [] }
              ),
        segment: pick(segments, 12)
      })
      .map(drawn => {
        const how: string[] = []
        let value = drawn.value
        if (drawn.overlaid) value = overlaid(value, known, drawn.member)
        for (const change of drawn.changes) {
          const [next, what] = changed(value, change)
          value = next
          how.push(what)
        }
        let body: Uint8Array | null = null
        let headers: Record<string, string> = {}
        if (target.body !== null) {
          const json = written(value)
          const out = drawn.text === null ? json : drawn.text[1](json)
          if (drawn.text !== null) how.push(`the text: ${drawn.text[0]}`)
          body = typeof out === 'string' ? Buffer.from(out) : out
          headers = { 'content-type': 'application/json' }
        }
        if (drawn.head !== null) {
          const [name, more, bytes] = drawn.head
          how.push(`the headers: ${name}`)
          headers = { ...headers, ...more }
          if (body !== null && bytes !== undefined) body = bytes(body)
          if (headers['content-type'] === '') delete headers['content-type']
        }
        const query =
          typeof drawn.query === 'string'
            ? drawn.query
            : drawn.query === null
              ? ''
              : `?${Object.entries(drawn.query)
                  .map(([name, text]) => `${name}=${text}`)
                  .join('&')}`
        if (query !== '') how.push(`the query: ${query.slice(0, 100)}`)
        const path = pathTo(target, known, drawn.member, drawn.segment)
        if (drawn.segment !== null && path !== target.path) how.push(`the path: ${drawn.segment.slice(0, 100)}`)
        return { target, path: `${path}${query}`, headers, body, how }
      })
  )
}
