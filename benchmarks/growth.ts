import { randomBytes, randomUUID } from 'node:crypto'
import { ProducerStore } from '../src/selling/challenges/producer-store.ts'
import { ChallengeStore } from '../src/selling/holding/store.ts'
import type { LeaseKey } from '../src/selling/holding/challenge.ts'
import { Batch } from '../src/platform/database/batch.ts'
import type { Database } from '../src/platform/database/database.ts'
import type { Payment } from '../src/payments/payments/schema.ts'
import { PaymentStore } from '../src/payments/payments/store-sql.ts'
import { challengeOf, filledDatabase, hex } from './growth/filled.ts'
import { LISTED, MERCHANTS } from './growth/rows.ts'
import { spreadOf } from './measure/statistics.ts'
import { runTimeOfTree } from './rig/cpu.ts'

// node benchmarks/growth.ts URL PID ROWS…: what the statements of 402s, redemptions, payments and lists cost with so
// many rows in `challenges` and `payments`, in databases named growth_ROWS of the PostgreSQL at URL, whose first process
// is PID. Those that are there are used again; 20,000,000 rows take 45 GB and half an hour. `--rounds=N` (7). `--warm=N`
// writes so many challenges to each before anything is measured: each page of an index that is written to for the first time since a
// checkpoint goes into the log whole, and is read from the disk where it is not in memory, so the first rows are the most expensive.

const AT_ONCE = 32
const [url = '', pid = '', ...rest] = process.argv.slice(2)
const rounds = Number(rest.find(each => each.startsWith('--rounds='))?.slice(9) ?? 7)
const warm = Number(rest.find(each => each.startsWith('--warm='))?.slice(7) ?? 0)
const sizes = rest.filter(each => !each.startsWith('--')).map(Number)

function newPayment(): Payment {
  const now = Date.now()
  return {
    // Above those of the rows made by SQL in its first digit's sense only: a clash fails the insert.
    invoiceId: `9${randomBytes(6).readUIntBE(0, 6).toString().padStart(15, '0').slice(-14)}`,
    merchantId: 2 + Math.floor(Math.random() * MERCHANTS),
    orderId: `new-${hex().slice(0, 16)}`,
    status: 'unpaid',
    amount: '0.0001',
    currency: 'BTC',
    description: 'An order',
    customerEmail: null,
    customerName: null,
    successUrl: null,
    metadata: null,
    payToken: hex().slice(0, 43),
    slot: 'primary',
    kind: 'sandbox',
    chargeId: `sbx_${hex().slice(0, 8)}`,
    invoice: `lnbcrt100n1${hex()}${hex()}${hex()}${hex()}${hex().slice(0, 33)}`,
    paymentHash: hex(),
    network: 'regtest',
    onchainAddress: null,
    checkoutUrl: null,
    amountSats: 10_000,
    receivedSats: null,
    createdAt: now,
    expiresAt: now + 3_600_000,
    confirmsAt: null,
    paidAt: null
  }
}

/** One kind of work; `prepare` makes what a round of it needs, which is not counted. */
interface Way {
  readonly label: string
  readonly count: number
  prepare(): Promise<() => Promise<void>>
}

let clients = 0

function waysOf(database: Database): readonly Way[] {
  const store = new ChallengeStore(database)
  const payments = new PaymentStore(database)
  const producer = new ProducerStore(database)
  const spends = new Batch<LeaseKey, null>({
    key: row => row.paymentHash,
    write: async keys => {
      await store.spend(keys, Date.now())
      return keys.map(() => null)
    }
  })
  const client = (): string => `client ${process.pid} ${clients++}`
  const written = async (): Promise<string> => {
    const row = challengeOf(client())
    await store.insert(database.sql, row)
    return row.paymentHash
  }
  const paid = async (): Promise<Payment> => {
    const payment = newPayment()
    const { merchantId, orderId } = payment
    const reservation = { merchantId, orderId, reservationId: randomUUID(), heldUntil: Date.now() + 60_000 }
    const held = await payments.reserve(reservation, Date.now())
    const done = await payments.insert(payment, reservation)
    if (held !== 'done' || done !== 'done') throw new Error(`no payment was made: ${held}, ${done}`)
    return payment
  }
  return [
    {
      label: 'a 402: count and row',
      count: 1_024,
      prepare: async () => async () => {
        const row = challengeOf(client())
        const { clientKey, place, binding, createdAt: now } = row
        const limits = { requestLimit: 10, placeLimit: 40 }
        await store.outstanding({ clientKey, place, binding, ...limits, now, since: now, payableUntil: now + 120_000 })
        await store.insert(database.sql, row)
      }
    },
    {
      label: 'a redemption: lease and spend',
      count: 1_024,
      prepare: async () => {
        const rows = (await several(1_024, written)).values()
        return async () => {
          const key = { paymentHash: rows.next().value ?? '', leaseId: randomUUID() }
          const now = Date.now()
          if ((await store.lease(database.sql, { ...key, gateway: 'g', until: now + 20_000, now })) === null)
            throw new Error('no lease was had')
          await spends.add(key)
        }
      }
    },
    { label: 'a payment is made', count: 512, prepare: async () => async () => void (await paid()) },
    {
      label: 'a payment is read',
      count: 512,
      prepare: async () => {
        const made = (await several(512, paid)).values()
        return async () => {
          const { merchantId = 0, invoiceId = '' } = made.next().value ?? {}
          if ((await payments.get(merchantId, invoiceId)) === null) throw new Error('the payment was not found')
        }
      }
    },
    {
      label: `a list of ${LISTED.rows} challenges, its second page of 50`,
      count: 32,
      prepare: async () => async () => {
        const page = { limit: 50, offset: 50, status: null, since: null, now: Date.now() }
        const { rows, total } = await producer.list(LISTED.merchantId, page)
        if (rows.length !== 50 || total !== LISTED.rows) throw new Error('the list is another')
      }
    }
  ]
}

/** Runs `make` so many times, `AT_ONCE` at a time. */
async function several<T>(count: number, make: () => Promise<T>): Promise<T[]> {
  const made: T[] = []
  let left = count
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (left-- > 0) made.push(await make())
    })
  )
  return made
}

const bases = [] as Array<{ rows: number; database: Database; ways: readonly Way[]; found: Map<string, number[]> }>
for (const rows of sizes) {
  const database = await filledDatabase(url, rows)
  bases.push({ rows, database, ways: waysOf(database), found: new Map() })
}
for (const { ways } of bases) {
  const [insert] = ways
  if (insert !== undefined && warm > 0) await several(warm, await insert.prepare())
}
for (let round = 0; round <= rounds; round++)
  for (const at of (bases[0]?.ways ?? []).keys())
    for (const { ways, found } of round % 2 === 0 ? bases : bases.toReversed()) {
      const way = ways[at]
      if (way === undefined) continue
      const one = await way.prepare()
      const [server, client] = [runTimeOfTree(Number(pid)), process.cpuUsage()]
      await several(way.count, one)
      const { user, system } = process.cpuUsage(client)
      const used = (runTimeOfTree(Number(pid)) ?? Number.NaN) - (server ?? Number.NaN)
      // The first round fills caches, and prepares.
      if (round > 0) found.set(way.label, [...(found.get(way.label) ?? []), (used + user + system) / way.count])
    }
const medianOf = (values: readonly number[]): number => spreadOf(values)?.median ?? Number.NaN
process.stdout.write(
  `| CPU of both, µs | ${sizes.map(rows => rows.toLocaleString('en')).join(' | ')} |\n|${'---|'.repeat(sizes.length + 1)}\n`
)
for (const { label } of bases[0]?.ways ?? []) {
  const least = bases[0]?.found.get(label) ?? []
  const cells = bases.map(({ found }, at) => {
    const values = found.get(label) ?? []
    const ratio = medianOf(values.map((value, nth) => value / (least[nth] ?? Number.NaN)))
    return `${medianOf(values).toFixed(0)}${at === 0 ? '' : ` (${ratio.toFixed(2)})`}`
  })
  process.stdout.write(`| ${label} | ${cells.join(' | ')} |\n`)
}
for (const { database } of bases) await database.close()
