import type { Database } from '../platform/database/database.ts'
import { UNSEAL, UnsealError, type Sealer } from '../platform/keys/secrets.ts'
import type { Log } from '../platform/telemetry/log.ts'
import { defineError, CodedError } from '../platform/system/errors.ts'

const MASTER_MISMATCH = defineError('BG_MASTER_SECRET_MISMATCH', {
  cause:
    'The database was used with a different master secret; sold tokens and saved provider keys would stop working.',
  fix: 'Restore `secrets.master` (`BOLTGATE_SECRET`) or `master.key`. To rotate, keep the old secret under `secrets.previous`. If it is lost: `boltgate keys adopt`.'
})

function masterMismatch(): CodedError {
  return new CodedError(
    MASTER_MISMATCH,
    'The database was used with another master secret, so sold tokens and saved provider keys would fail. Set secrets.master (BOLTGATE_SECRET) or restore master.key as before; to rotate, keep the old secret under secrets.previous. If it is lost for good: `boltgate keys adopt`'
  )
}

export const FOREIGN =
  'Some stored secrets were sealed with a master secret that is not configured, so their accounts cannot use them. Put that secret under secrets.previous'

const place = { table: 'master_check', column: 'sealed', row: '1' }
const CONTENT = 'boltgate'

/**
 * Verifies that the secrets belong to the database, and seals its check value at the first start. Safe concurrently.
 * @throws CodedError; database errors
 */
export async function checkMaster(database: Database, sealer: Sealer, log: Log): Promise<void> {
  const { sealed, foreign } = await verifyMaster(database, sealer)
  if (sealed === null) {
    await database.sql`insert into master_check (id, sealed) values (1, ${sealer.seal(CONTENT, place)}) on conflict do nothing`
    // Read back: of two concurrent starts with different secrets, one must be refused.
    await verifyMaster(database, sealer)
  }
  // From now on the previous secret alone must not start a gateway: it cannot read new values.
  else if (sealer.isStale(sealed)) await adoptMaster(database, sealer)
  if (foreign > 0) log.warn({ code: UNSEAL.code, values: foreign }, FOREIGN)
}

/**
 * The check value, null before the first start, and how many stored secrets no configured one opens. Databases without a
 * check value are judged by their stored secrets.
 * @throws CodedError where the secrets do not belong to the database
 */
export async function verifyMaster(
  database: Database,
  sealer: Sealer
): Promise<{ readonly sealed: string | null; readonly foreign: number }> {
  const { foreign, own } = await countSealed(database, sealer)
  const [check] = await database.sql<{ sealed: string }[]>`select sealed from master_check`
  if (check === undefined ? foreign > 0 && own === 0 : !opens(sealer, check.sealed)) throw masterMismatch()
  return { sealed: check?.sealed ?? null, foreign }
}

/** Binds the database to the current master secret. */
export async function adoptMaster(database: Database, sealer: Sealer): Promise<void> {
  await database.sql`
    insert into master_check (id, sealed) values (1, ${sealer.seal(CONTENT, place)})
    on conflict (id) do update set sealed = excluded.sealed`
}

function opens(sealer: Sealer, sealed: string): boolean {
  try {
    return sealer.open(sealed, place).reveal() === CONTENT
  } catch (error) {
    if (error instanceof UnsealError) return false
    throw error
  }
}

/** Counts accounts' ciphertexts by whether a configured secret opens them. The tables are small. */
async function countSealed(database: Database, sealer: Sealer): Promise<{ own: number; foreign: number }> {
  const [counts] = await database.sql<{ own: number; foreign: number }[]>`
    select (count(*) filter (where key = any(${[...sealer.keyIds]})))::int as own,
      (count(*) filter (where key <> all(${[...sealer.keyIds]})))::int as foreign
    from (
      select split_part(sealed, '.', 2) as key from (
        select primary_key as sealed from merchants union all select alternate_key from merchants
        union all select webhook_secret from merchants union all select secret from webhook_endpoints
        union all select secret from provider_subscriptions union all select auth_value from proxies
        union all select client_secret from storefronts union all select admin_api_token from storefronts
      ) stored where sealed is not null
    ) keys`
  return counts ?? { own: 0, foreign: 0 }
}
