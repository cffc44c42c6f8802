import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import type { Clock } from '../../system/clock.ts'
import type { PostgresClient } from './client.ts'
import { defineError, CodedError } from '../../system/errors.ts'

const DATABASE_SESSION = defineError('BG_DATABASE_SESSION', {
  cause: 'A pooler in front of PostgreSQL does not provide session time limits, prepared statements or notifications.',
  fix: 'Change its settings as the message says; docs/how-to/scaling.md has a complete `pgbouncer.ini`.'
})

/**
 * Everything used of a session beyond one transaction is here: two time limits, prepared statements, and `listen`.
 * `test/platform/database/postgres/session.test.ts` checks that nothing else is.
 *
 * Ends a statement or an idle transaction on a stalled server, by PostgreSQL's setting names, in milliseconds: without
 * them it would hold its connection forever.
 */
interface SessionLimits {
  readonly statement_timeout: number
  readonly idle_in_transaction_session_timeout: number
}

export function sessionLimits(silence: number): SessionLimits {
  return { statement_timeout: Math.floor((silence * 4) / 5), idle_in_transaction_session_timeout: 60_000 }
}

interface SessionDependencies {
  readonly client: PostgresClient
  readonly clock: Clock
  readonly limits: SessionLimits
  /** A pooler such as PgBouncer lends a session for each transaction, and settings do not persist. */
  readonly isPooled: boolean
  listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>>
}

const CHANNEL = 'boltgate_hears'
/** Milliseconds in which a notification must arrive. */
const NOTIFY_TIMEOUT = 5_000

/**
 * Checks the sessions, so that a misconfigured pooler fails the start and no request.
 * @throws CodedError; the database's error when it is unavailable
 */
export async function verifySessions(dependencies: SessionDependencies): Promise<void> {
  await verifyLimits(dependencies)
  if (!dependencies.isPooled) return
  await verifyNotify(dependencies)
  await verifyPrepared(dependencies.client)
}

async function verifyLimits({ client, limits, isPooled }: SessionDependencies): Promise<void> {
  const wanted: Record<string, number> = { ...limits }
  const found = await client<
    { name: string; ms: number }[]
  >`select name, setting::integer as ms from pg_settings where name = any(${Object.keys(wanted)})`.catch(
    (error: unknown) => {
      if (!isPooled && isRefusedParameter(error)) throw new CodedError(DATABASE_SESSION, underPooler(limits))
      throw error
    }
  )
  // 0 is no limit.
  const lacking = found.filter(({ name, ms }) => ms === 0 || ms > (wanted[name] ?? 0))
  if (lacking.length === 0) return
  if (!isPooled) throw new CodedError(DATABASE_SESSION, underPooler(limits))
  const have = lacking.map(({ name, ms }) => `${name} = ${ms}`).join(' and ')
  throw new CodedError(
    DATABASE_SESSION,
    `The sessions behind the pooler have ${have} (milliseconds, 0 for none). Give them limits there: PgBouncer with connect_query='${settings(limits)}' on the line of the database, others with "alter role … set"`
  )
}

/** PgBouncer's own words (protocol_violation); PostgreSQL says "unrecognized configuration parameter", 42704. */
function isRefusedParameter(error: unknown): boolean {
  return (
    error instanceof postgres.PostgresError && error.code === '08P01' && error.message.includes('startup parameter')
  )
}

function underPooler(limits: SessionLimits): string {
  return `A pooler before the database does not pass ${Object.keys(limits).join(' and ')} on. Set database.listenUrl to an address past it`
}

function settings(limits: SessionLimits): string {
  return Object.entries(limits)
    .map(([name, ms]) => `set ${name} = ${ms}`)
    .join('; ')
}

/**
 * PgBouncer before 1.21 does more than lose prepared statements. It lends a session on while a statement's description
 * is in flight and drops the answer: even without prepared statements writes would lose theirs.
 */
async function verifyPrepared(client: PostgresClient): Promise<void> {
  const found = await client<{ name: string }[]>`select name from pg_prepared_statements`
  // A pooler that tracks prepared statements renames them.
  if (!found.some(({ name }) => name === found.statement.name)) return
  throw new CodedError(
    DATABASE_SESSION,
    'The pooler does not carry prepared statements from one session to the next. PgBouncer does from version 1.21 on, with max_prepared_statements = 200'
  )
}

async function verifyNotify({ client, clock, listen }: SessionDependencies): Promise<void> {
  const token = randomBytes(8).toString('hex')
  const heard = Promise.withResolvers<boolean>()
  const stop = await listen(CHANNEL, payload => {
    if (payload === token) heard.resolve(true)
  })
  const timer = clock.after(NOTIFY_TIMEOUT, () => {
    heard.resolve(false)
  })
  try {
    await client`select pg_notify(${CHANNEL}, ${token})`
    if (await heard.promise) return
  } finally {
    timer.cancel()
    await stop()
  }
  throw new CodedError(
    DATABASE_SESSION,
    `A notification did not come over database.listenUrl within ${NOTIFY_TIMEOUT / 1000} seconds. It must lead to the same database as database.url, past the pooler or to a pool of it in the mode session`
  )
}
