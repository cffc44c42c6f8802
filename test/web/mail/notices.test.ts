import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Notices } from '../../../src/web/mail/notices.ts'
import type { Mail } from '../../../src/web/mail/mail.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { eventually } from '../../support/gateway-process.ts'
import { startGateway, type TestGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { asPerson, sessionOf } from '../console/session.ts'

/** Subjects and texts of mails to the account. */
function mailsOf({ data }: TestGateway): string[] {
  try {
    return readdirSync(join(data, 'mail')).map(name => readFileSync(join(data, 'mail', name), 'utf8'))
  } catch {
    // No mail was written yet.
    return []
  }
}

t.test('notices: a new sign-in and a new member are mailed to the account, unless turned off', async t => {
  const gateway = await startGateway(t)
  const about = async (subject: string, count: number): Promise<readonly string[]> =>
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
  t.equal(jobs.length, 1, 'a known browser is none')
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
