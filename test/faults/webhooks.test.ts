import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import t, { type Test as T } from 'tap'
import { systemClock as clock } from '../../src/platform/system/clock.ts'
import { openDatabase } from '../../src/platform/database/database.ts'
import { silentLog as log } from '../../src/platform/telemetry/log.ts'
import { migrate } from '../../src/platform/database/migrations.ts'
import { migrations } from '../../src/platform/database/migrations/list.ts'
import { startReceiver, type Received } from '../fakes/receiver.ts'
import { serversOnly, temporaryFolder, testImage } from '../support/database.ts'
import { freshPostgres } from '../support/gateway-process.ts'
import { anAccount, secretText } from '../payments/webhooks/accounts.ts'
import { testMerchants } from '../support/merchants.ts'
import { insertPayment, type DeliveryRow } from '../payments/webhooks/fixture.ts'

/*
 * The whole campaign is BOLTGATE_WEBHOOK_EVENTS=10000 BOLTGATE_WEBHOOK_KILLS=20, with tap's --timeout raised; what runs
 * unasked is as large as a test suite can bear.
 */
const EVENTS = Number(process.env['BOLTGATE_WEBHOOK_EVENTS'] ?? 200)
const KILLS = Number(process.env['BOLTGATE_WEBHOOK_KILLS'] ?? 2)
/** Concurrent attempts of one merchant: what one kill can catch between sending and writing. */
const PLACES = 4

/** Starts the worker; `acknowledged` gathers what it says is paid. */
function start(t: T, url: string, data: string, acknowledged: Set<string>) {
  const done = Promise.withResolvers<void>()
  const child = spawn(
    'env',
    [
      '-u',
      'NODE_OPTIONS',
      process.execPath,
      fileURLToPath(new URL('../payments/webhooks/worker.ts', import.meta.url)),
      url,
      data
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] }
  )
  const ended = once(child, 'exit')
  child.once('exit', () => {
    done.reject(new Error('the worker has ended'))
  })
  done.promise.catch(() => {})
  createInterface({ input: child.stdout }).on('line', line => {
    if (line === 'done') done.resolve()
    else acknowledged.add(line)
  })
  const kill = async () => {
    child.kill('SIGKILL')
    await ended
  }
  t.teardown(kill)
  return { done: done.promise, kill }
}

/** A signature check of its own, by another implementation than the gateway's. */
function authentic({ headers, body }: Received) {
  const [, time = '', v1 = ''] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['x-service-signature'])) ?? []
  const signed = Buffer.concat([Buffer.from(`${time}.`), body])
  return Buffer.from(hmac(sha256, Buffer.from(secretText), signed)).toString('hex') === v1
}

const invoiceOf = ({ text }: Received) => (JSON.parse(text) as { invoiceId: string }).invoiceId

/** Runs the campaign over one database. */
async function campaign(t: T, url: string, data: string) {
  const open = async () => await openDatabase({ url, dataDir: data, log, clock, image: await testImage(migrations) })
  const taken = new Map<string, Buffer[]>()
  const refused = new Map<string, Buffer[]>()
  const forged: Received[] = []
  const receiver = await startReceiver({
    answer: one => {
      if (!authentic(one)) forged.push(one)
      const chance = Math.random()
      const list = chance < 0.3 ? refused : taken
      list.set(invoiceOf(one), [...(list.get(invoiceOf(one)) ?? []), one.body])
      return chance < 0.2 ? { status: 500 } : chance < 0.29 ? 'reset' : chance < 0.3 ? 'hang' : { status: 200 }
    }
  })
  t.teardown(() => receiver.close())
  const before = await open()
  await migrate(before, migrations, { clock, log })
  const account = await anAccount(testMerchants(before, clock), receiver.url)
  for (let n = 0; n < EVENTS; n++) await insertPayment(before, account.id, clock.now())
  await before.close()

  const acknowledged = new Set<string>()
  let worker = start(t, url, data, acknowledged)
  for (let kills = 1; kills <= KILLS; kills++) {
    // Killed as an attempt arrives, so that others are in flight too.
    await receiver.until(Math.floor((EVENTS * kills) / (KILLS + 1)))
    await worker.kill()
    worker = start(t, url, data, acknowledged)
  }
  await worker.done
  await worker.kill()

  const after = await open()
  t.teardown(() => after.close())
  const rows = await after.sql<Array<DeliveryRow & { invoice_id: string }>>`select * from webhook_deliveries`
  t.equal(rows.length, EVENTS, 'every payment that was paid has its event')
  t.same(
    [...acknowledged].filter(id => !rows.some(row => row.invoice_id === id)),
    [],
    'no acknowledged payment was lost'
  )
  const failed = rows.filter(row => row.status === 'failed')
  t.same(
    rows.filter(row => row.status === 'pending'),
    []
  )
  t.same(
    failed.filter(row => row.attempts !== 6),
    [],
    'what failed permanently had all of its attempts'
  )
  t.same(
    rows.filter(row => row.status === 'delivered' && !taken.has(row.invoice_id)).map(row => row.id),
    [],
    'none lost'
  )
  t.same(forged.length, 0, 'every signature verifies with an independent implementation')
  const odd = rows.filter(row =>
    [...(taken.get(row.invoice_id) ?? []), ...(refused.get(row.invoice_id) ?? [])].some(
      body => body.toString('utf8') !== row.body
    )
  )
  t.same(odd, [], 'identical bytes at each attempt')
  const duplicates = [...taken.values()].reduce((sum, list) => sum + list.length - 1, 0)
  t.ok(duplicates <= KILLS * PLACES, `${duplicates} duplicates of ${KILLS} kills`)
  if (EVENTS >= 10_000) t.ok(duplicates <= EVENTS / 100, 'duplicates at most 1 %')
  t.comment(
    `${EVENTS} events, ${receiver.received.length} attempts, ${KILLS} kills, ${duplicates} duplicates, ${failed.length} failed permanently`
  )
}

if (!serversOnly())
  await t.test(
    `${EVENTS} events to a receiver that fails 30 % of the time, killed ${KILLS} times: none lost, duplicates rare and identical (embedded)`,
    async t => {
      await campaign(t, 'pglite:', temporaryFolder(t))
    }
  )

await t.test('the same over PostgreSQL', async t => {
  const url = await freshPostgres(t)
  if (url !== null) await campaign(t, url, temporaryFolder(t))
})
