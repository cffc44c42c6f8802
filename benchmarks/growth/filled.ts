import { randomBytes } from 'node:crypto'
import { tmpdir } from 'node:os'
import type { NewChallenge } from '../../src/selling/holding/challenge.ts'
import { openDatabase, type Database } from '../../src/platform/database/database.ts'
import { migrate } from '../../src/platform/database/migrations.ts'
import { migrations } from '../../src/platform/database/migrations/list.ts'
import { systemClock } from '../../src/platform/system/clock.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { fill, fillMerchants, FILLINGS } from './rows.ts'

const options = { clock: systemClock, log: silentLog }

/**
 * The database `growth_ROWS` of the PostgreSQL at `url`, filled by SQL as if a gateway had worked on it; one that is there
 * is used again.
 */
export async function filledDatabase(url: string, rows: number): Promise<Database> {
  const name = `growth_${rows}`
  const own = new URL(url)
  const maintenance = await openDatabase({ url, dataDir: tmpdir(), ...options })
  const [found] = await maintenance.sql`select from pg_database where datname = ${name}`
  if (found === undefined) await maintenance.sql.unsafe(`create database ${name}`)
  await maintenance.close()
  own.pathname = `/${name}`
  if (found === undefined) {
    // No limit: each statement takes as long as it takes.
    const filling = await openDatabase({
      url: own.href,
      dataDir: tmpdir(),
      ...options,
      connections: 1,
      silence: 7_200_000
    })
    await migrate(filling, migrations, options)
    const now = new Date()
    await fillMerchants(filling.sql, now)
    for (const one of FILLINGS) await fill(filling.sql, one, rows, now)
    await filling.close()
  }
  return openDatabase({ url: own.href, dataDir: tmpdir(), ...options })
}

/** 64 random characters. */
export const hex = (): string => randomBytes(32).toString('hex')

/** A challenge of a route, as a mint writes it, good for an hour. */
export function challengeOf(client: string): NewChallenge {
  const now = Date.now()
  return {
    paymentHash: hex(),
    source: 'route',
    service: 'boltgate:0',
    merchantId: null,
    proxyId: null,
    place: 'route:quotes',
    resource: '/v1/quote',
    path: '/v1/quote',
    method: 'GET',
    query: '',
    amountSats: 10,
    price: null,
    asked: null,
    digest: null,
    binding: hex().slice(0, 22),
    payment: { id: hex().slice(0, 43), realm: 'api.example.com', expires: '2026-11-21T00:10:00Z' },
    wording: { location: 'l402', caveatPath: null },
    tokenId: hex(),
    invoice: `lnbcrt100n1${hex()}${hex()}${hex()}${hex()}${hex().slice(0, 33)}`,
    network: 'regtest',
    chargeId: `sbx_${hex().slice(0, 8)}`,
    providerSlot: 'primary',
    providerKind: 'sandbox',
    clientKey: client,
    idempotencyKey: null,
    description: 'A quote',
    createdAt: now,
    expiresAt: now + 3_600_000,
    tokenExpiresAt: now + 3_600_000
  }
}
