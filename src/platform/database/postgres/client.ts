/**
 * The database client: postgres.js 3.4.9 with fixes for its faults that would cost a gateway money or its life. The
 * files of this folder describe each fault beside its fix. `test/platform/database/postgres/postgres-mends.test.ts`
 * reproduces each in the bare package: a test that fails after an upgrade means that the fix can go, or must be redone.
 *
 * Only `inside.ts` uses undocumented members of the package.
 */
import postgres from 'postgres'
import { readPostgresUrl } from '../../system/postgres-url.ts'
import { arrayTypes, types } from './arrays.ts'
import { setArrayTypes, type Options } from './inside.ts'
import type { Silence } from './silence.ts'
import { postgresSocket } from './socket.ts'
import { guardSerializers, UNDEFINED } from './unsendable.ts'

export type PostgresClient = postgres.Sql<{ bigint: bigint }>

export interface SessionOptions {
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
    // The socket handles TLS.
    ssl: false,
    socket: postgresSocket(tls.mode === 'disable' ? null : tls, timeout, silence),
    connection: merged(settings, address.settings),
    ...options
  })
}

/** Time limits of the address apply where they are stricter than ours. */
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
