import t from 'tap'
import { MAIL_QUEUE, Outbox } from '../../../src/web/mail/outbox.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { DatabaseJobs } from '../../../src/platform/jobs/queue.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { MailFailed, type Mail, type Mailer } from '../../../src/web/mail/mail.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { KeyRing, Sealer, Secret } from '../../../src/platform/keys/secrets.ts'
import { eachDatabase, openAnyDatabase } from '../../support/database.ts'
import { eventually } from '../../support/gateway-process.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { FakeJobs } from '../../payments/webhooks/fake-jobs.ts'

const sealer = new Sealer(new KeyRing(new Secret('a master secret of 32 bytes or more')))
const mail: Mail = {
  to: 'ada@example.org',
  subject: 'Hello',
  text: 'https://example.com/claim/secret-token',
  html: null,
  id: 'm1'
}
const MINUTE = 60_000

/** Keeps what it is given, or fails on demand. */
class TestMailer implements Mailer {
  readonly sent: Mail[] = []
  failures: Error[] = []

  async send(given: Mail): Promise<void> {
    const failure = this.failures.shift()
    if (failure !== undefined) throw failure
    this.sent.push(given)
  }

  async close(): Promise<void> {}
}

// Starting one takes longer than all these tests.
const database = await openAnyDatabase(t)

async function open() {
  await database.sql`drop table if exists fake_jobs`
  const clock = new ManualClock()
  const jobs = new FakeJobs(database, clock)
  const mailer = new TestMailer()
  const outbox = new Outbox({ jobs, database, mailer, sealer, clock, log: silentLog })
  jobs.declare(outbox.jobs)
  await jobs.start()
  return { database, jobs, mailer, outbox, clock }
}

t.test('a mail commits or rolls back with its transaction', async t => {
  const { database, jobs, mailer, outbox } = await open()
  await t.rejects(
    database.transaction(async sql => {
      await outbox.queue(sql, mail, 'a mail')
      throw new Error('rolled back')
    }),
    /rolled back/
  )
  t.same(await jobs.run(), [])
  await database.transaction(async sql => {
    await outbox.queue(sql, mail, 'a mail')
    t.equal(mailer.sent.length, 0, 'nothing is sent inside a transaction')
  })
  t.same(await jobs.run(), [null])
  t.same(mailer.sent, [mail])
})

t.test('entries at /jobs describe themselves, and hold no address and no text', async t => {
  const { database, jobs, outbox } = await open()
  await outbox.queue(database.sql, mail, 'receipt of payment 1')
  const [job] = await jobs.waiting()
  t.match(job?.data, { id: 'm1', about: 'receipt of payment 1', attempt: 1 })
  t.notMatch(JSON.stringify(job), /ada|secret-token|Hello/)
})

t.test('a temporary failure is tried again after 1, 5, 30 and 120 minutes, and then fails with its reason', async t => {
  const { database, jobs, mailer, outbox, clock } = await open()
  mailer.failures = Array.from({ length: 5 }, (_none, n) => new MailFailed(`away ${n + 1}`, true))
  await outbox.queue(database.sql, mail, 'a mail')
  t.same(await jobs.run(), [null])
  let attempt = 1
  for (const minutes of [1, 5, 30, 120]) {
    const [next] = await jobs.waiting()
    t.equal(next?.startAfter, clock.now() + minutes * MINUTE)
    t.match(next?.data, { attempt: attempt + 1, last: `away ${attempt}` }, 'the reason is there to be seen')
    clock.advance(minutes * MINUTE - 1)
    t.same(await jobs.run(), [])
    clock.advance(1)
    const [outcome] = await jobs.run()
    attempt++
    if (attempt < 5) t.equal(outcome, null)
    else t.match(outcome, { message: 'away 5' })
  }
  t.same(await jobs.waiting(), [])
  t.equal(mailer.sent.length, 0)
})

t.test('a mail server that comes back gets the mail, once', async t => {
  const { database, jobs, mailer, outbox, clock } = await open()
  mailer.failures = [new MailFailed('away', true), new MailFailed('away', true)]
  await outbox.queue(database.sql, mail, 'a mail')
  await jobs.run()
  clock.advance(MINUTE)
  await jobs.run()
  clock.advance(5 * MINUTE)
  await jobs.run()
  t.same(mailer.sent, [mail])
  t.same(await jobs.waiting(), [])
})

t.test('a permanently refused mail is not retried', async t => {
  const { database, jobs, mailer, outbox } = await open()
  mailer.failures = [new MailFailed('the mail server refuses it: 550 no such user', false)]
  await outbox.queue(database.sql, mail, 'a mail')
  t.match(await jobs.run(), [{ message: 'the mail server refuses it: 550 no such user' }])
  t.same(await jobs.waiting(), [])
})

t.test('when the gateway stops, a mail in flight is left to be run again unchanged', async t => {
  const { database, jobs, mailer, outbox } = await open()
  await outbox.queue(database.sql, mail, 'a mail')
  const [job] = await jobs.waiting()
  mailer.failures = [new MailFailed('ended', true)]
  if (job === undefined) throw new Error('no job waits')
  t.match(await jobs.runOne(job, AbortSignal.abort()), { message: 'ended' })
  t.equal((await jobs.waiting()).length, 1, 'no other attempt was added')
})

t.test('a job that was changed, or sealed with a lost secret, sends nothing', async t => {
  const { database, jobs, mailer, outbox } = await open()
  await outbox.queue(database.sql, mail, 'a mail')
  const [job] = await jobs.waiting()
  if (job === undefined) throw new Error('no job waits')
  t.ok((await jobs.runOne({ ...job, data: { ...job.data, id: 'm2' } })) instanceof Error)
  t.equal(mailer.sent.length, 0)
})

await eachDatabase(
  t,
  'on the real queue a mail is sent once, and one that is refused stays there with its reason',
  async (t, database) => {
    const jobs = new DatabaseJobs({
      database,
      clock: systemClock,
      log: silentLog,
      metrics: new Metrics(),
      patience: 100
    })
    t.teardown(() => jobs.close())
    const mailer = new TestMailer()
    const outbox = new Outbox({ jobs, database, mailer, sealer, clock: systemClock, log: silentLog })
    jobs.declare(outbox.jobs)
    await jobs.start()
    await database.transaction(sql => outbox.queue(sql, mail, 'a mail'))
    await eventually('the mail was sent', async () => (mailer.sent.length === 1 ? true : null))
    mailer.failures = [new MailFailed('refused', false), new MailFailed('away', true)]
    await database.transaction(sql => outbox.queue(sql, { ...mail, id: 'm2' }, 'another'))
    const failed = await eventually(
      'it failed',
      async () => (await jobs.list({ queue: MAIL_QUEUE, state: 'failed', page: 1, size: 10 })).jobs[0] ?? null
    )
    t.match(failed, { reason: 'refused', data: { id: 'm2', about: 'another' } })
    await database.transaction(sql => outbox.queue(sql, { ...mail, id: 'm3' }, 'a third'))
    // Until a worker has taken the first attempt, it is that one that waits.
    const again = await eventually(
      'it waits again',
      async () =>
        (await jobs.list({ queue: MAIL_QUEUE, state: 'waiting', page: 1, size: 10 })).jobs.find(
          job => (job.data as { attempt?: number } | null)?.attempt === 2
        ) ?? null
    )
    t.match(again, { data: { id: 'm3', attempt: 2, last: 'away' } })
    t.same(
      mailer.sent.map(({ id }) => id),
      ['m1']
    )
  }
)
