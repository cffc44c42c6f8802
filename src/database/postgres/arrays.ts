/**
 * Element types and their array types, by OID. They are PostgreSQL's own (pg_type.dat) and the same on every server.
 */
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

/**
 * Teaches a client the arrays of PostgreSQL's own types; of others, such as enumerations, it knows none. Its
 * connections must be made with `fetch_types: false`: postgres.js 3.4 else asks for them on every new connection and
 * handles no failure of that, so a server that goes away at this moment ends the whole process by an unhandled
 * rejection (porsager/postgres, issue 1192).
 */
export function addArrayTypes(client: { readonly options: object; json(value: null): object }): void {
  // All connections of the client read these maps; postgres.js' types tell neither `shared` nor that the values are
  // optional.
  const { parsers, serializers, shared } = client.options as {
    readonly parsers: Record<number, Parse | undefined>
    readonly serializers: Record<number, Serialize | undefined>
    readonly shared: { readonly typeArrayMap: Record<number, number> }
  }
  // What sql.json and the like make is of a class that postgres.js does not export.
  const Parameter = client.json(null).constructor
  for (const [element, array] of ARRAY_TYPES) {
    const parse = parsers[element] ?? String
    const serialize = serializers[element] ?? String
    const plain: Serialize = value =>
      serialize(
        value !== null && typeof value === 'object' && value.constructor === Parameter && 'value' in value
          ? value.value
          : value
      )
    parsers[array] = text => readArray(text, parse)
    serializers[array] = value => (Array.isArray(value) ? writeArray(value, plain) : value)
    shared.typeArrayMap[element] = array
  }
}

/** An array's text (PostgreSQL, Array Input and Output Syntax); null and lists inside are kept. */
export function writeArray(list: readonly unknown[], serialize: Serialize): string {
  return `{${list
    .map(item => {
      if (item === undefined) throw new TypeError('A list for the database holds undefined; say null')
      if (item === null) return 'NULL'
      if (Array.isArray(item)) return writeArray(item, serialize)
      return `"${String(serialize(item)).replace(/["\\]/g, '\\$&')}"`
    })
    .join(',')}}`
}

/** The values in an array's text, as PostgreSQL writes it. */
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
