/**
 * The database client: postgres.js 3.4.9, and what of its faults would cost a gateway money or its life mended. Each
 * mend has its test in `test/platform/database/postgres/postgres-mends.test.ts`, which shows the fault in the bare package too: one that
 * fails there after an upgrade can go, or must be made anew.
 *
 * | fault of the package | mended in |
 * | --- | --- |
 * | a server that goes away while array types are fetched ends the process | arrays.ts |
 * | `sql.array` sends a list in the type of its element when array types are not fetched | arrays.ts |
 * | a statement waits for ever for a server that says nothing, or for a connection | silence.ts |
 * | a goodbye that is not answered keeps the connection's place in the pool | silence.ts |
 * | a connection whose first statement was cancelled while it was made is lost to the pool | silence.ts |
 * | a statement between a connection's error and its close is forgotten, and later resolved though it never ran | socket.ts |
 * | a statement that was not yet written at the close leaves the connection unable to write | socket.ts |
 * | a server that accepts and closes without a word is tried again for ever | socket.ts |
 * | a `socket` option that rejects costs the connection its place in the pool | socket.ts |
 * | a `begin` whose write fills the socket does not get its connection: others run in its transaction | socket.ts |
 * | the same of a `begin` that is the last statement that fits the pipeline | here |
 * | a connection that was lost is tried again after seconds that count all lost ones of the pool | here |
 * | a transaction writes to the connection that it lost: outside of any transaction, or ending the process | transaction.ts |
 * | a prepared statement whose tables have changed hangs its connection, or fails its transaction | stale-plans.ts |
 * | a value that cannot be sent fails another statement, and then hangs the connection | unsendable.ts |
 * | a `listen` that the server refuses, as a standby does, is not repeated | listener.ts |
 *
 * What of this needs members of the package that it does not document goes through `inside.ts`, and nothing else does.
 */
import postgres from 'postgres'
import { readPostgresUrl } from '../../system/postgres-url.ts'
import { arrayTypes, types } from './arrays.ts'
import { setArrayTypes, type Options } from './inside.ts'
import type { Silence } from './silence.ts'
import { postgresSocket } from './socket.ts'
import { guardSerializers, UNDEFINED } from './unsendable.ts'

/** A client with its faults mended but those of its socket, which is given as the option `socket`. */
export type PostgresClient = postgres.Sql<{ bigint: bigint }>

/** What a client may be told of its connections beyond its address. */
export interface SessionOptions {
  readonly silence: Silence
  /** Settings of its sessions, which those of the address do not replace. */
  readonly settings: Readonly<Record<string, string | number>>
}

/** A client of the server at `url` that has connected to nothing yet. @throws PostgresUrlError */
export function openServer(
  url: string,
  { silence, settings }: SessionOptions,
  options: Options<typeof types>
): PostgresClient {
  const address = readPostgresUrl(url)
  const { hosts, socketFolder, user, password, database, tls, target, connectTimeout, keepAlive } = address
  const timeout = connectTimeout ?? 5_000
  return openClient({
    // The package takes lists of them, and its types do not know it.
    host: hosts.map(({ host }) => host) as unknown as string,
    port: hosts.map(({ port }) => port) as unknown as number,
    ...(socketFolder === null ? {} : { path: `${socketFolder}/.s.PGSQL.${hosts[0]?.port ?? 5432}` }),
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
    ...(database === undefined ? {} : { database }),
    ...(target === undefined ? {} : { target_session_attrs: target }),
    ...(keepAlive === null ? {} : { keep_alive: keepAlive }),
    connect_timeout: timeout / 1_000,
    // TLS is made by the socket.
    ssl: false,
    socket: postgresSocket(tls.mode === 'disable' ? null : tls, timeout, silence),
    connection: merged(settings, address.settings),
    ...options
  })
}

/** Time limits of the address count where they are stricter than ours. */
function merged(
  own: SessionOptions['settings'],
  asked: Readonly<Record<string, string>>
): Record<string, string | number> {
  const all: Record<string, string | number> = { ...own }
  for (const [name, value] of Object.entries(asked)) {
    const limit = own[name]
    const isStricter = typeof limit === 'number' && Number(value) > 0 && Number(value) < limit
    if (limit === undefined || isStricter || name === 'application_name') all[name] = value
  }
  return all
}

/** A client that has connected to nothing yet. */
export function openClient(options: Options<typeof types>): PostgresClient {
  const all: Options<typeof types> = {
    types,
    fetch_types: false,
    // Its own back-off counts every connection of the pool: when ten are lost at once the next statement waits 20
    // seconds.
    backoff: () => 0.05,
    // Behind so many statements on their way over one connection, a hundred unless said, a `begin` is the last one that
    // fits; so there is no last one.
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
