import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import t, { type Test as T } from 'tap'
import { readKeys } from '../../src/platform/keys/keyfile.ts'
import { temporaryFolder } from '../support/database.ts'
import { defaultYaml, startGateway, type Answer, type TestGateway } from '../support/gateway.ts'
import { freshPostgres, freshRedis, spawnGateway, unshed } from '../support/gateway-process.ts'
import { ManualClock } from '../support/manual-clock.ts'

/** Gateways that serve the same accounts, and a look into their database. */
interface Setting {
  readonly gateways: ReadonlyArray<Pick<TestGateway, 'send' | 'pay'>>
  readonly apiKey: string
  /** Rows of a table. */
  count(table: 'payments' | 'sandbox_invoices' | 'refunds' | 'sandbox_payouts'): Promise<number>
}

/** Keys whose duplicates are in flight at the same time. */
const KEYS_AT_ONCE = 25

/** Sends `duplicates` of the same creation concurrently for each of `keys` keys, and checks that each made one payment. */
async function duplicate(t: T, { gateways, apiKey, count }: Setting, keys: number, duplicates: number) {
  const before = { payments: await count('payments'), invoices: await count('sandbox_invoices') }
  const wrong: string[] = []
  const made = new Set<string>()
  const one = async (index: number) => {
    const body = {
      orderId: `order-${index}`,
      amount: '0.00000100',
      currency: 'BTC',
      metadata: { index: String(index) }
    }
    const answers = await Promise.all(
      Array.from({ length: duplicates }, (_, copy) => {
        const gateway = gateways[(index + copy) % gateways.length]
        if (gateway === undefined) throw new Error('there is at least one gateway')
        return gateway.send('POST', '/api/payments', {
          headers: { 'x-api-key': apiKey, 'idempotency-key': `key-${index}` },
          body
        })
      })
    )
    const statuses = new Set(answers.map(answer => answer.status))
    const texts = new Set(answers.map(answer => answer.text))
    const places = new Set(answers.map(answer => answer.headers['location']))
    const replayed = answers.filter(answer => answer.headers['x-idempotency-replayed'] === 'true').length
    const first = answers.find(answer => answer.headers['x-idempotency-replayed'] === undefined)
    if (first?.status === 201) made.add((first.json() as { invoiceId: string }).invoiceId)
    if (
      statuses.size !== 1 ||
      !statuses.has(201) ||
      texts.size !== 1 ||
      places.size !== 1 ||
      replayed !== duplicates - 1
    ) {
      wrong.push(
        `key ${index}: statuses ${[...statuses].join()}, ${texts.size} bodies, ${replayed} replayed: ${[...texts].join(' ').slice(0, 500)}`
      )
    }
  }
  for (let from = 0; from < keys; from += KEYS_AT_ONCE) {
    await Promise.all(Array.from({ length: Math.min(KEYS_AT_ONCE, keys - from) }, (_, index) => one(from + index)))
  }
  t.same(
    wrong.slice(0, 5),
    [],
    `${keys} keys: all replies byte-equal, ${duplicates - 1} of ${duplicates} with X-Idempotency-Replayed`
  )
  t.equal(made.size, keys, 'one invoice id for each key')
  t.equal((await count('payments')) - before.payments, keys, `exactly ${keys} payments are stored`)
  t.equal((await count('sandbox_invoices')) - before.invoices, keys, 'and the provider made as many invoices')
}

const address = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'
const REFUNDS = 200
/** Satoshis of the payment that everybody wants back. */
const PAID = 1_000
const AMOUNTS = [30, 40, 50, 60, 70] as const

/** Requests 200 partial refunds of one payment concurrently, and checks their sum. */
async function refund(t: T, { gateways, apiKey, count }: Setting) {
  const [first] = gateways
  if (first === undefined) throw new Error('there is at least one gateway')
  const headers = { 'x-api-key': apiKey }
  const payouts = await count('sandbox_payouts')
  const created = await first.send('POST', '/api/payments', {
    headers,
    body: { orderId: `refunded-${randomBytes(4).toString('hex')}`, amount: '0.00001', currency: 'BTC' }
  })
  const { invoiceId, lightningInvoice } = created.json() as { invoiceId: string; lightningInvoice: string }
  await first.pay(lightningInvoice)
  const answers: readonly Answer[] = await Promise.all(
    Array.from({ length: REFUNDS }, (_, index) => {
      const gateway = gateways[index % gateways.length] ?? first
      return gateway.send('POST', '/api/refunds', {
        headers,
        body: { invoiceId, refundAddress: address, amountSatoshis: AMOUNTS[index % AMOUNTS.length] }
      })
    })
  )
  const good = answers
    .filter(answer => answer.status === 201)
    .map(answer => answer.json() as { refundId: string; amountSatoshis: number; status: string })
  t.same(
    answers
      .filter(answer => answer.status !== 201 && answer.status !== 400)
      .map(answer => `${answer.status} ${answer.text}`),
    [],
    'every other is refused with 400'
  )
  const sum = good.reduce((total, { amountSatoshis }) => total + amountSatoshis, 0)
  t.ok(sum <= PAID, `the sum never passes what was paid: ${sum}`)
  t.ok(sum > PAID - AMOUNTS[0], `and nothing was refused that still fitted: ${sum}`)
  t.equal(new Set(good.map(({ refundId }) => refundId)).size, good.length, 'each has an id of its own')
  t.equal((await count('sandbox_payouts')) - payouts, good.length, 'the provider paid out once for each')
  const listed = (await first.send('GET', `/api/refunds/invoice/${invoiceId}`, { headers })).json() as Array<{
    refundId: string
    amountSatoshis: number
    status: string
  }>
  t.equal(
    listed.filter(({ status }) => status !== 'failed').reduce((total, { amountSatoshis }) => total + amountSatoshis, 0),
    sum,
    'and so says the list'
  )
}

t.test(
  '100 idempotency keys × 10 concurrent duplicates over the embedded parts: 100 payments, replies byte-equal; 200 concurrent partial refunds never exceed what was paid',
  async t => {
    // No time passes, so that a slow machine is no overload.
    const gateway = await startGateway(t, { clock: new ManualClock() })
    const setting: Setting = {
      gateways: [gateway],
      apiKey: gateway.merchant.apiKey,
      count: async table =>
        Number(
          (
            await gateway.database.sql<
              { count: bigint }[]
            >`select count(*) as count from ${gateway.database.sql(table)}`
          )[0]?.count
        )
    }
    await duplicate(t, setting, 100, 10)
    await refund(t, setting)
  }
)

t.test(
  '1,000 idempotency keys × 20 concurrent duplicates on two processes over PostgreSQL and Redis: 1,000 payments, replies byte-equal; 200 concurrent partial refunds never exceed what was paid',
  async t => {
    const database = await freshPostgres(t)
    const redis = await freshRedis(t)
    if (database === null || redis === null) return
    const yaml = defaultYaml()
    const data = temporaryFolder(t)
    const env = { DATABASE_URL: database, REDIS_URL: redis, BOLTGATE_SECRET: randomBytes(32).toString('hex') }
    const first = await spawnGateway(t, { yaml, env, data })
    const second = await spawnGateway(t, { yaml, env, data })
    const apiKey = readKeys(data)?.merchant?.apiKey.reveal() ?? ''
    const sql = postgres(database, { max: 1, onnotice: () => {} })
    t.teardown(() => sql.end())
    const setting: Setting = {
      gateways: [first, second].map(unshed),
      apiKey,
      count: async table =>
        Number((await sql<{ count: string }[]>`select count(*) as count from ${sql(table)}`)[0]?.count)
    }
    await duplicate(t, setting, 1_000, 20)
    await refund(t, setting)
  }
)
