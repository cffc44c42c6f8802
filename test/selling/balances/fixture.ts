import { randomBytes } from 'node:crypto'
import type { Test as T } from 'tap'
import type { Use } from '../../../src/selling/balances/entries.ts'
import { Ledger, type Settled } from '../../../src/selling/balances/ledger.ts'
import type { Refused, BalanceReservation } from '../../../src/selling/balances/slice.ts'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import type { BalanceNow, NewBalance } from '../../../src/selling/balances/balance.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import type { ManualClock } from '../../support/manual-clock.ts'
import { eventually } from '../../support/gateway-process.ts'
import { passTime } from '../../support/passing-time.ts'

/** A bundle of 1,000 satoshis with an id of its own. */
export function newBalance(clock: ManualClock, changes: Partial<NewBalance> = {}): NewBalance {
  return {
    id: randomBytes(32).toString('hex'),
    kind: 'bundle',
    merchantId: null,
    proxyId: null,
    place: 'route:chat',
    unit: 'token',
    depositedMsat: 1_000_000,
    openedAt: clock.now(),
    expiresAt: clock.now() + 30 * 86_400_000,
    ...changes
  }
}

export async function opened(
  store: BalanceStore,
  clock: ManualClock,
  changes: Partial<NewBalance> = {}
): Promise<NewBalance> {
  const balance = newBalance(clock, changes)
  await store.open(balance)
  return balance
}

/** The one balance that there is, once this is true of it. */
export async function balanceWhen(
  what: string,
  store: BalanceStore,
  isTrue: (balance: BalanceNow) => boolean
): Promise<BalanceNow> {
  return await eventually(what, async () => {
    const [one] = await store.list({ skip: 0, take: 1 })
    return one !== undefined && isTrue(one) ? one : null
  })
}

/** What a request used, with a name of its own. */
export function use(changes: Partial<Use> = {}): Use {
  return {
    at: Date.parse('2026-11-21T00:00:00.123Z'),
    request: randomBytes(8).toString('hex'),
    model: 'small',
    markup: null,
    input: 1,
    output: 2,
    basis: 'usage',
    ...changes
  }
}

/** A gateway whose process can be killed: from then on nothing of it comes to the database. */
export interface KillableLedger {
  readonly ledger: Ledger
  kill(): void
}

export function killableLedger(database: Database, clock: ManualClock, gateway: string): KillableLedger {
  const store = new BalanceStore(database)
  let isDead = false
  const never = new Promise<never>(() => {})
  const killable = new Proxy(store, {
    get: (target, name: keyof BalanceStore) => (isDead ? () => never : target[name].bind(target))
  })
  const ledger = new Ledger({ store: killable, database, clock, log: silentLog, gateway })
  return {
    ledger,
    kill: () => {
      isDead = true
    }
  }
}

/** A ledger for each of these gateways, over stores that a test may change. */
export function ledgers<const Names extends readonly string[]>(
  t: Pick<T, 'teardown'>,
  database: Database,
  clock: ManualClock,
  ...names: Names
) {
  const made = names.map(gateway => {
    const ledger = new Ledger({ store: new BalanceStore(database), database, clock, log: silentLog, gateway })
    t.teardown(() => ledger.close())
    return ledger
  })
  return made as { [Index in keyof Names]: Ledger } // One for each name.
}

export function isReserved(answer: BalanceReservation | Refused): answer is BalanceReservation {
  return answer.kind === 'reserved'
}

/** Reserves what must be there. */
export async function reserved(ledger: Ledger, id: string, msat: number): Promise<BalanceReservation> {
  const answer = await ledger.reserve(id, msat)
  if (!isReserved(answer)) throw new Error(`refused: ${answer.why}`)
  return answer
}

export async function settled(ledger: Ledger, reservation: BalanceReservation, msat: number): Promise<Settled> {
  return await ledger.settle(reservation, msat, use())
}

/** A request that reserves and is charged. */
export async function spend(ledger: Ledger, id: string, reservedMsat: number, msat: number): Promise<Settled> {
  return await settled(ledger, await reserved(ledger, id, reservedMsat), msat)
}

/** Numbers of chance by xorshift; a failure says with what `begun` they can be had again. */
export function randoms(begun: number): () => number {
  let state = begun
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
}

/** Lets time pass in which gateways that live keep their slices, until what was settled has been written. */
export async function written(clock: ManualClock, ledgers: readonly Ledger[], ms = 200): Promise<void> {
  for (let left = ms; left > 0; left -= 5_000) {
    clock.advance(Math.min(left, 5_000))
    await Promise.all(ledgers.map(ledger => ledger.written()))
  }
}

/** When the database has answered twice, one after the other. */
export async function answered({ sql }: Pick<Database, 'sql'>): Promise<void> {
  await sql`select 1`
  await sql`select 1`
}

/** What is answered, while time passes for those who wait for it, `step` milliseconds at a time (`passTime`). */
export async function passing<R>(
  t: T,
  clock: ManualClock,
  database: Database,
  answer: R | Promise<R>,
  step = 50
): Promise<R> {
  const over = new AbortController()
  t.teardown(() => {
    over.abort()
  })
  const time = passTime(clock, () => answered(database), over.signal, step)
  try {
    return await answer
  } finally {
    over.abort()
    await time
  }
}
