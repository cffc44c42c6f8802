import postgres from 'postgres'

/** Element types and their array types, by OID: PostgreSQL's own (pg_type.dat), the same on every server. */
const ARRAY_TYPES: ReadonlyArray<readonly [element: number, array: number]> = [
  [16, 1000], // boolean
  [17, 1001], // bytea
  [20, 1016], // bigint
  [21, 1005], // smallint
  [23, 1007], // integer
  [25, 1009], // text
  [114, 199], // json
  [700, 1021], // real
  [701, 1022], // double precision
  [1042, 1014], // character
  [1043, 1015], // character varying
  [1082, 1182], // date
  [1114, 1115], // timestamp
  [1184, 1185], // timestamptz
  [1700, 1231], // numeric
  [2950, 2951], // uuid
  [3802, 3807] // jsonb
]

type Parse = (text: string) => unknown
type Serialize = (value: unknown) => unknown

const elements = { bigint: postgres.BigInt }
const plain = postgres({ types: elements })
// The class of sql.json's results, which postgres.js does not export.
const Parameter = plain.json(null).constructor

/**
 * BigInt, and arrays of PostgreSQL's own types. For `fetch_types: false`: otherwise postgres.js 3.4 queries array types
 * on every new connection without handling failures, so a server that goes down then ends the process by an unhandled
 * rejection (porsager/postgres, issue 1192).
 */
export const types: typeof elements = { ...elements, ...Object.fromEntries(ARRAY_TYPES.map(arrayType)) }

function arrayType([element, array]: (typeof ARRAY_TYPES)[number]): [string, postgres.PostgresType] {
  // The package has no parsers for types it treats as text.
  const { [element]: parse = String as Parse } = plain.options.parsers
  const { [element]: serialize = String as Serialize } = plain.options.serializers
  const unwrapped: Serialize = value =>
    serialize(
      value !== null && typeof value === 'object' && value.constructor === Parameter && 'value' in value
        ? value.value
        : value
    )
  return [
    `array_${array}`,
    {
      to: array,
      from: [array],
      parse: (text: string) => readArray(text, parse),
      serialize: (value: unknown) => (Array.isArray(value) ? writeArray(value, unwrapped) : value)
    }
  ]
}

export const arrayTypes: Readonly<Record<number, number>> = Object.fromEntries(ARRAY_TYPES)

/**
 * PostgreSQL, Array Input and Output Syntax, with nulls and nested lists. A column of rows often repeats an item, which
 * is then not serialized again.
 */
export function writeArray(list: readonly unknown[], serialize: Serialize): string {
  let text = '{'
  let before: unknown
  let written = ''
  for (let at = 0; at < list.length; at++) {
    const item = list[at]
    if (at === 0 || item !== before) written = writeItem(item, serialize)
    before = item
    text += at === 0 ? written : `,${written}`
  }
  return `${text}}`
}

function writeItem(item: unknown, serialize: Serialize): string {
  if (item === undefined) throw new TypeError('A list for the database holds undefined; say null')
  if (item === null) return 'NULL'
  if (Array.isArray(item)) return writeArray(item, serialize)
  const value = String(serialize(item))
  // Two searches for one character take a tenth of the expression's time.
  return value.includes('"') || value.includes('\\') ? `"${value.replace(/["\\]/g, '\\$&')}"` : `"${value}"`
}

export function readArray(text: string, parse: Parse): unknown[] {
  // Bounds come before an array that does not begin at 1.
  let at = text.indexOf('{')
  const list = (): unknown[] => {
    const values: unknown[] = []
    at++
    while (at < text.length && text[at] !== '}') {
      if (text[at] === ',') at++
      else if (text[at] === '{') values.push(list())
      else if (text[at] === '"') values.push(parse(quoted()))
      else values.push(bare())
    }
    at++
    return values
  }
  const quoted = (): string => {
    let value = ''
    for (at++; at < text.length && text[at] !== '"'; at++) {
      if (text[at] === '\\') at++
      value += text[at] ?? ''
    }
    at++
    return value
  }
  const bare = (): unknown => {
    const from = at
    while (at < text.length && text[at] !== ',' && text[at] !== '}') at++
    const value = text.slice(from, at)
    return value === 'NULL' ? null : parse(value)
  }
  return list()
}
