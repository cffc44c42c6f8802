import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import t from 'tap'
import { readKeys } from '../../src/platform/keys/keyfile.ts'
import { temporaryFolder } from '../support/database.ts'
import { defaultYaml } from '../support/gateway.ts'
import { eventually, freshPostgres, freshRedis, spawnGateway } from '../support/gateway-process.ts'

t.test('a refund whose gateway was killed is replayed under its key within seconds, and sent once', async t => {
  const database = await freshPostgres(t)
  const redis = await freshRedis(t)
  if (database === null || redis === null) return
  const data = temporaryFolder(t)
  const env = { DATABASE_URL: database, REDIS_URL: redis, BOLTGATE_SECRET: randomBytes(32).toString('hex') }
  const victim = await spawnGateway(t, { yaml: defaultYaml(), env, data })
  const steady = await spawnGateway(t, { yaml: defaultYaml(), env, data })
  const headers = { 'x-api-key': readKeys(data)?.merchant?.apiKey.reveal() ?? '', 'idempotency-key': 'k' }
  const created = await steady.send('POST', '/api/payments', {
    headers,
    body: { orderId: 'o', amount: '0.00001', currency: 'BTC' }
  })
  const { invoiceId, lightningInvoice } = created.json() as { invoiceId: string; lightningInvoice: string }
  await steady.pay(lightningInvoice)
  const body = { invoiceId, refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080', amountSatoshis: 300 }
  const sql = postgres(database, { max: 2, onnotice: () => {} })
  t.teardown(() => sql.end())
  const rows = async () => await sql<Array<{ refund_id: string }>>`select refund_id from refunds`
  const request = () => victim.send('POST', '/api/refunds', { headers, body }).catch(() => null)
  let killed: Promise<unknown> = Promise.resolve()
  // The provider cannot write the payout, so that the refund is in flight when its gateway dies.
  await sql.begin(async locked => {
    await locked`lock table sandbox_payouts in access exclusive mode`
    killed = request()
    await eventually('the refund is reserved', async () => (await rows()).length === 1)
    victim.kill('SIGKILL')
    await victim.ended
  })
  await killed
  const from = Date.now()
  const again = await eventually('the refund is replayed', async () => {
    const answer = await steady.send('POST', '/api/refunds', { headers, body })
    return answer.status === 201 ? answer : null
  })
  t.comment(`${Date.now() - from} ms`)
  t.match(again.headers, { 'x-idempotency-replayed': 'true' })
  t.match(again.json(), { refundId: (await rows())[0]?.refund_id })
  t.equal((await rows()).length, 1)
})
