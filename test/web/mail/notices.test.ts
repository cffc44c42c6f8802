import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { SandboxProvider } from '../../../src/lightning/kinds/sandbox/sandbox.ts'
import { ProviderRefused } from '../../../src/lightning/provider-calls/errors.ts'
import { Notices } from '../../../src/web/mail/notices.ts'
import type { Mail } from '../../../src/web/mail/mail.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { freePort } from '../../support/free-port.ts'
import { eventually } from '../../support/gateway-process.ts'
import { startGateway, type TestGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { asPerson, sessionOf } from '../console/session.ts'

/** Subjects and texts of mails to the account. */
function mailsOf({ data }: TestGateway) {
  try {
    return readdirSync(join(data, 'mail')).map(name => readFileSync(join(data, 'mail', name), 'utf8'))
  } catch {
    // No mail was written yet.
    return []
  }
}

t.test('notices: a new sign-in and a new member are mailed to the account, unless turned off', async t => {
  const gateway = await startGateway(t)
  const about = async (subject: string, count: number) =>
    await eventually(`${count} mails: ${subject}`, async () => {
      const mails = mailsOf(gateway).filter(mail => mail.includes(`Subject: ${subject}`))
      return mails.length >= count ? mails : null
    })
  const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
  const [mail = ''] = await about('New sign-in', 1)
  t.notMatch(mail, new RegExp(gateway.merchant.apiKey))

  t.match((await gateway.merchantSend('GET', '/api/merchant/notices')).json(), { off: [] })
  t.match((await asPerson(gateway, cookie, '/console/settings')).text, /name="notices" value="member" checked/)
  const saved = await asPerson(gateway, cookie, '/console/settings', { do: 'notices', notices: 'signIn' })
  t.equal(saved.status, 303)
  t.same((await gateway.merchantSend('GET', '/api/merchant/notices')).json(), {
    off: ['member', 'provider', 'webhook']
  })
  t.equal((await gateway.merchantSend('PUT', '/api/merchant/notices', { off: ['else'] })).status, 400)
  await gateway.merchantSend('POST', '/api/merchant/members', { email: 'bob@example.com', role: 'viewer' })
  await gateway.merchantSend('PUT', '/api/merchant/notices', { off: [] })
  await gateway.merchantSend('POST', '/api/merchant/members', { email: 'eve@example.com', role: 'viewer' })
  const members = await about('New member', 1)
  t.equal(members.length, 1)
  t.match(members[0], /eve@example/)

  await sessionOf(gateway, gateway.merchant.apiKey)
  const jobs = await gateway.database.sql`select 1 from jobs where data->>'about' like 'notice signIn%'`
  t.equal(jobs.length, 1, 'a known browser sends no mail')
})

t.test('notices: one mail of a kind is sent in an hour, without line breaks of others', async t => {
  const gateway = await startGateway(t)
  const clock = new ManualClock('2026-11-20T10:10:00.000Z')
  const sent: Mail[] = []
  const notices = new Notices({
    clock,
    database: gateway.database,
    log: silentLog,
    merchants: {
      within: () => ({ byId: async () => ({ email: 'ada@example.com', name: 'Ada\r\nBcc: x@example.com' }) }) as never
    },
    outbox: {
      queue: async (_sql, mail) => {
        sent.push(mail)
      }
    }
  })
  for (let nth = 0; nth < 2; nth++) await notices.send(1, 'webhook', [['Reason', 'one\r\ntwo']])
  clock.advance(3_600_000)
  await notices.send(1, 'webhook', [['Reason', 'x']])
  await notices.send(2, 'webhook', [['Reason', 'x']])
  t.equal(new Set(sent.map(({ id }) => id)).size, 3)
  t.notMatch(sent[0]?.subject, /[\r\n]/)
  t.match(sent[0]?.text, /one two/)
})

t.test('notices: a webhook whose last attempt failed and a refused provider key are mailed', async t => {
  const gateway = await startGateway(t)
  const mailed = async (subject: string) =>
    await eventually(`a mail: ${subject}`, async () => mailsOf(gateway).find(mail => mail.includes(subject)) ?? null)
  const port = await freePort()
  await gateway.merchantSend('PUT', '/api/merchant/webhook-url', { webhookUrl: `http://127.0.0.1:${port}/hook` })
  const input = (orderId: string) => ({ orderId, amount: '0.00001', currency: 'BTC' })
  const { lightningInvoice } = (await gateway.merchantSend('POST', '/api/payments', input('w-1'))).json() as {
    lightningInvoice: string
  }
  await gateway.pay(lightningInvoice)
  await eventually('a first attempt', async () => {
    const [row] = await gateway.database.sql`select 1 from webhook_deliveries where attempts = 1`
    return row ?? null
  })
  // The attempts between them have the backoff of hours.
  await gateway.database.sql`update webhook_deliveries set attempts = 5`
  await gateway.database.sql`
    update jobs set data = data || '{"attempt": 6}', next_at = now() where queue like 'webhook%' and state = 'waiting'`
  const mail = await mailed('Webhook failed')
  t.match(mail, new RegExp(`127\\.0\\.0\\.1:${port}`))
  t.notMatch(mail, /\/hook/, 'no full address')

  const honest = SandboxProvider.prototype.createCharge
  t.teardown(() => {
    SandboxProvider.prototype.createCharge = honest
  })
  SandboxProvider.prototype.createCharge = async () => {
    throw new ProviderRefused('key', 'The key is not valid.')
  }
  t.equal((await gateway.merchantSend('POST', '/api/payments', input('k-1'))).status, 502)
  t.match(await mailed('Provider key rejected'), /refuses its key/)
})
