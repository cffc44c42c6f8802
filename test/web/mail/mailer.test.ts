import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test as T } from 'tap'
import { loadConfigText } from '../../../src/engine/config/load.ts'
import { openMailer } from '../../../src/web/mail/open.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { MailFailed, type Mail } from '../../../src/web/mail/mail.ts'
import { FolderMailer, SmtpMailer, type SmtpOptions } from '../../../src/web/mail/smtp.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { selfSigned } from '../../fakes/certificate.ts'
import { temporaryFolder } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { startSmtp, type SmtpFakeOptions } from './smtp.ts'

const from = { name: 'Example Ltd', address: 'no-reply@example.com' }
const mail: Mail = {
  to: 'ada@example.org',
  subject: 'Grüße',
  text: 'First\nSecond ₿\n',
  html: '<p>First</p>',
  id: 'receipt.123456789012345'
}

async function open(
  t: T,
  server: SmtpFakeOptions,
  options: Partial<SmtpOptions> & { readonly as?: string; readonly scheme?: 'smtp' | 'smtps' } = {}
) {
  const smtp = await startSmtp(server)
  const { as = '', scheme = 'smtp', ...more } = options
  const mailer = new SmtpMailer({
    url: new Secret(`${scheme}://${as}localhost:${smtp.port}`),
    from,
    requireTls: false,
    clock: systemClock,
    ...more
  })
  t.teardown(async () => {
    await mailer.close()
    await smtp.close()
  })
  return { smtp, mailer }
}

async function failureOf(sending: Promise<void>) {
  return await sending.then(
    () => null,
    (error: unknown) => {
      if (error instanceof MailFailed) return error
      throw error
    }
  )
}

t.test('a mail arrives with its sender, its recipient, both texts and our Message-ID', async t => {
  const { smtp, mailer } = await open(t, {}, { clock: new ManualClock('2026-11-21T12:00:00.000Z') })
  await mailer.send(mail)
  await mailer.send(mail)
  const [first, second] = smtp.taken
  t.match(first, { from: 'no-reply@example.com', to: ['ada@example.org'] })
  const text = first?.text ?? ''
  for (const line of [
    'From: Example Ltd <no-reply@example.com>',
    'To: ada@example.org',
    'Message-ID: <receipt.123456789012345@example.com>',
    'Date: Sat, 21 Nov 2026 12:00:00 +0000',
    'Auto-Submitted: auto-generated',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Type: text/html; charset=utf-8'
  ]) {
    t.ok(text.includes(`${line}\r\n`), line)
  }
  t.match(text, /Subject: =\?UTF-8\?/)
  t.notMatch(text, /X-Mailer/i)
  t.match(
    second?.text,
    'Message-ID: <receipt.123456789012345@example.com>',
    'a mail that is sent again can be recognized'
  )
})

t.test('user and password are used, over STARTTLS where the server has it', async t => {
  const { key, certificate: cert } = selfSigned({ names: ['localhost'] })
  const user = { name: 'mailer@example.com', password: 'p@ss/word' }
  const as = 'mailer%40example.com:p%40ss%2Fword@'
  const { smtp, mailer } = await open(t, { tls: 'starttls', key, cert, user }, { as, requireTls: true, ca: cert })
  await mailer.send(mail)
  t.match(smtp.taken, [{ secure: true, user: 'mailer@example.com' }])
  const wrong = await open(
    t,
    { tls: 'starttls', key, cert, user },
    { as: 'mailer%40example.com:other@', requireTls: true, ca: cert }
  )
  const failed = await failureOf(wrong.mailer.send(mail))
  t.match(
    failed,
    { message: 'the mail server does not accept our user and password', temporary: true },
    'our own mistake is no fault of the mail'
  )
  t.notMatch(JSON.stringify([failed, failed?.message, failed?.stack]), 'other')
})

t.test('smtps speaks TLS from the beginning', async t => {
  const { key, certificate: cert } = selfSigned({ names: ['localhost'] })
  const { smtp, mailer } = await open(t, { tls: 'implicit', key, cert }, { scheme: 'smtps', ca: cert })
  await mailer.send(mail)
  t.match(smtp.taken, [{ secure: true }])
})

t.test('STARTTLS is required in production: without it, or with an untrusted certificate, nothing is sent', async t => {
  const { key, certificate: cert } = selfSigned({ names: ['localhost'] })
  const without = await open(t, {}, { requireTls: true })
  t.match(await failureOf(without.mailer.send(mail)), { temporary: true })
  t.equal(without.smtp.taken.length, 0)
  const unknown = await open(t, { tls: 'starttls', key, cert }, { requireTls: true })
  t.match(await failureOf(unknown.mailer.send(mail)), { temporary: true })
  t.equal(unknown.smtp.taken.length, 0)
})

const refusals: ReadonlyArray<
  readonly [at: NonNullable<SmtpFakeOptions['refuse']>['at'], status: number, temporary: boolean]
> = [
  ['greeting', 421, true],
  ['greeting', 554, true],
  ['sender', 451, true],
  ['sender', 550, true],
  ['reader', 450, true],
  ['reader', 550, false],
  ['reader', 503, true],
  ['data', 452, true],
  ['data', 554, false]
]
for (const [at, status, temporary] of refusals) {
  t.test(`${status} at the ${at} is ${temporary ? 'temporary' : 'permanent'}`, async t => {
    const { smtp, mailer } = await open(t, { refuse: { at, status, words: 'not for <ada@example.org>, friend' } })
    const failed = await failureOf(mailer.send(mail))
    t.equal(failed?.temporary, temporary)
    t.match(failed?.message, /friend/, "the server's own words are the reason")
    t.notMatch(failed?.message, /ada@/, 'the reader is not named')
    t.equal(smtp.taken.length, 0)
  })
}

for (const hang of ['greeting', 'data'] as const) {
  t.test(`a server that hangs at the ${hang} is given up`, async t => {
    const { mailer } = await open(t, { hang }, { timeout: 200 })
    t.match(await failureOf(mailer.send(mail)), { temporary: true })
  })
}

t.test('an unavailable server is a temporary failure, and the signal ends a mail early', async t => {
  const { smtp, mailer } = await open(t, { hang: 'data' })
  const stop = new AbortController()
  const sending = failureOf(mailer.send(mail, stop.signal))
  stop.abort()
  t.match(await sending, { temporary: true })
  await smtp.close()
  t.match(await failureOf(mailer.send(mail)), { temporary: true, message: /cannot be reached/ })
})

t.test('nothing of a mail can add header lines or readers', async t => {
  const { smtp, mailer } = await open(t, {})
  for (const to of [
    '',
    'a',
    'a@b\r\nBcc: c@d',
    'a@b\nc@d',
    'a@b, c@d',
    'a@b;c@d',
    '<a@b>',
    'A <a@b>',
    '"a b"@c',
    'a@b>',
    'a b@c',
    'a@b\0',
    `${'a'.repeat(65)}@b`,
    `a@${'b'.repeat(260)}`,
    'a@-b',
    'ä@b'
  ]) {
    t.match(await failureOf(mailer.send({ ...mail, to })), { temporary: false }, JSON.stringify(to))
  }
  for (const subject of ['a\r\nBcc: c@d', 'a\nb', 'a\0', 'x'.repeat(501)])
    t.match(await failureOf(mailer.send({ ...mail, subject })), { temporary: false }, JSON.stringify(subject))
  for (const id of ['', 'a b', 'a@b', 'a>\r\nBcc: c@d', '../a', 'x'.repeat(129)])
    t.match(await failureOf(mailer.send({ ...mail, id })), { temporary: false }, JSON.stringify(id))
  t.equal(smtp.taken.length, 0)
  await mailer.send({ ...mail, to: "o'hara+tag@mail.example.co.uk", html: null })
  t.same(smtp.taken[0]?.to, ["o'hara+tag@mail.example.co.uk"])
})

t.test('without a mail server mail becomes files that only their owner reads', async t => {
  const folder = join(temporaryFolder(t), 'data', 'mail')
  const clock = new ManualClock('2026-11-21T12:00:00.000Z')
  const mailer = new FolderMailer({ folder, from, clock })
  await mailer.send(mail)
  t.same(readdirSync(folder), ['2026-11-21T12-00-00.000Z-receipt.123456789012345.eml'])
  const file = join(folder, '2026-11-21T12-00-00.000Z-receipt.123456789012345.eml')
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.equal(statSync(folder).mode & 0o777, 0o700)
  const text = readFileSync(file, 'utf8')
  t.match(text, 'Message-ID: <receipt.123456789012345@example.com>')
  t.match(text, 'To: ada@example.org')
  t.notOk(text.replaceAll('\r\n', '').includes('\n'), 'lines end as mail programs want them')
  t.match(await failureOf(mailer.send({ ...mail, to: 'a@b\r\nBcc: c@d' })), { temporary: false })
  t.equal(readdirSync(folder).length, 1)
})

t.test('the newest files are kept, and no other file is touched', async t => {
  const folder = temporaryFolder(t)
  const clock = new ManualClock('2026-11-21T12:00:00.000Z')
  const mailer = new FolderMailer({ folder, from, clock, keep: 3 })
  execFileSync('touch', [join(folder, 'notes.eml')])
  for (let n = 1; n <= 5; n++) {
    await mailer.send({ ...mail, id: `m${n}` })
    clock.advance(1000)
  }
  t.same(readdirSync(folder).toSorted(), [
    '2026-11-21T12-00-02.000Z-m3.eml',
    '2026-11-21T12-00-03.000Z-m4.eml',
    '2026-11-21T12-00-04.000Z-m5.eml',
    'notes.eml'
  ])
})

t.test('a folder that cannot be written to is a temporary failure', async t => {
  const file = join(temporaryFolder(t), 'file')
  execFileSync('touch', [file])
  const mailer = new FolderMailer({ folder: join(file, 'mail'), from, clock: systemClock })
  t.match(await failureOf(mailer.send(mail)), { temporary: true, message: /ENOTDIR/ })
})

t.test('the configuration chooses: a mail server, or the folder of the data folder', async t => {
  const data = temporaryFolder(t)
  const lines: string[] = []
  const log = {
    ...silentLog,
    warn: (fields: object | string, message?: string) => {
      lines.push(message ?? String(fields))
    }
  }
  const base = await loadConfigText('gateway.yaml', `data: ${data}`, {})
  const files = await openMailer(base, { clock: new ManualClock(), log })
  await files.send(mail)
  t.ok(existsSync(join(data, 'mail')))
  t.match(
    readFileSync(join(data, 'mail', readdirSync(join(data, 'mail'))[0] ?? ''), 'utf8'),
    'From: boltgate <boltgate@localhost>'
  )
  t.equal(lines.length, 0)
  await openMailer({ ...base, mode: 'production' }, { clock: new ManualClock(), log })
  t.match(lines, [/not delivered/])
  const smtp = await startSmtp()
  t.teardown(() => smtp.close())
  const config = await loadConfigText(
    'gateway.yaml',
    `mail: { from: "Example Ltd <no-reply@example.com>", smtp: "smtp://127.0.0.1:${smtp.port}" }`,
    {}
  )
  await (await openMailer(config, { clock: systemClock, log })).send(mail)
  t.match(smtp.taken, [{ from: 'no-reply@example.com' }])
  await (await openMailer({ ...config, mode: 'production' }, { clock: systemClock, log })).send(mail).then(
    () => t.fail('sent without TLS'),
    () => {}
  )
  t.equal(smtp.taken.length, 1)
})
