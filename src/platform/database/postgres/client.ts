/**
 * The database client: postgres.js 3.4.9 with fixes for its faults that would cost a gateway money or its life. The
 * files of this folder describe each fault beside its fix. `test/platform/database/postgres/postgres-fixes.test.ts`
 * reproduces each in the bare package: a test that fails after an upgrade means that the fix can go, or must be redone.
 *
 * Only `inside.ts` uses undocumented members of the package.
 */
import postgres from 'postgres'
import { readPostgresUrl } from '../../system/postgres-url.ts'
import { setArrayTypes, type Options, guardSerializers, UNDEFINED } from './inside.ts'
import type { Silence } from './silence.ts'
import { postgresSocket } from './socket.ts'

export type PostgresClient = postgres.Sql<{ bigint: bigint }>

interface SessionOptions {
  readonly silence: Silence
  readonly settings: Readonly<Record<string, string | number>>
}

/** A client of the server at `url`, not yet connected. @throws PostgresUrlError */
export function openServer(
  url: string,
  { silence, settings }: SessionOptions,
  options: Options<typeof types>
): PostgresClient {
  const address = readPostgresUrl(url)
  const { hosts, socketFolder, user, password, database, tls, target, connectTimeout, keepAlive } = address
  const timeout = connectTimeout ?? 5_000
  return openClient({
    // The package accepts lists; its types do not.
    host: hosts.map(({ host }) => host) as unknown as string,
    port: hosts.map(({ port }) => port) as unknown as number,
    ...(socketFolder === null ? {} : { path: `${socketFolder}/.s.PGSQL.${hosts[0]?.port ?? 5432}` }),
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
    ...(database === undefined ? {} : { database }),
    ...(target === undefined ? {} : { target_session_attrs: target }),
    ...(keepAlive === null ? {} : { keep_alive: keepAlive }),
    connect_timeout: timeout / 1_000,
    ssl: false,
    socket: postgresSocket(tls.mode === 'disable' ? null : tls, timeout, silence),
    connection: merged(settings, address.settings),
    ...options
  })
}

/** Time limits of the address apply where they are stricter than ours. */
function merged(
  own: SessionOptions['settings'],
  requested: Readonly<Record<string, string>>
): Record<string, string | number> {
  const all: Record<string, string | number> = { ...own }
  for (const [name, value] of Object.entries(requested)) {
    const limit = own[name]
    const isStricter = typeof limit === 'number' && Number(value) > 0 && Number(value) < limit
    if (limit === undefined || isStricter || name === 'application_name') all[name] = value
  }
  return all
}

export function openClient(options: Options<typeof types>): PostgresClient {
  const all: Options<typeof types> = {
    types,
    fetch_types: false,
    // Its own back-off counts every connection of the pool: when ten are lost together the next statement waits 20
    // seconds.
    backoff: () => 0.05,
    // A `begin` that is the last statement to fit a connection's pipeline, 100 by default, is broken; so there is no
    // last one.
    max_pipeline: 1_000_000_000,
    // PostgreSQL's notices ("relation already exists, skipping") would go to the console.
    onnotice: () => {},
    transform: { undefined: UNDEFINED },
    ...options
  }
  const client = postgres(all)
  guardSerializers(client.options.serializers)
  setArrayTypes(client, arrayTypes)
  return client
}

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

const arrayTypes: Readonly<Record<number, number>> = Object.fromEntries(ARRAY_TYPES)

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

/** An item in quotes, a bare one, or a brace. */
const ARRAY_TOKEN = /"((?:[^"\\]|\\.)*)"|[^{},"]+|[{}]/gs

export function readArray(text: string, parse: Parse): unknown[] {
  const json = text
    // Bounds come before an array that does not begin at 1.
    .slice(text.indexOf('{'))
    .replace(ARRAY_TOKEN, (token: string, quoted: string | undefined) => {
      if (token === '{') return '['
      if (token === '}') return ']'
      if (token === 'NULL') return 'null'
      return JSON.stringify(quoted === undefined ? token : quoted.replace(/\\(.)/gs, '$1'))
    })
  return JSON.parse(json, (_at, value: unknown) => (typeof value === 'string' ? parse(value) : value)) as unknown[]
}
