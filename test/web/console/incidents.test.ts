import http from 'node:http'
import { once } from 'node:events'
import t, { type Test as T } from 'tap'
import { ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import { SandboxProvider } from '../../../src/lightning/kinds/sandbox/sandbox.ts'
import { openTestDatabase } from '../../support/database.ts'
import { freePort } from '../../support/free-port.ts'
import { defaultYaml, type TestGateway } from '../../support/gateway.ts'
import { asPerson, openConsole } from './session.ts'

/** The notice of the overview: its tone, and its words. */
async function noticeOf(gateway: TestGateway, cookie: string) {
  const { status, text } = await asPerson(gateway, cookie, '/operator')
  t.equal(status, 200)
  const [, tone = '', words = ''] = /class="notice (\w+)"[^>]*>(.*?)<\/(?:section|p)>/s.exec(text) ?? []
  return { tone, words: words.replaceAll(/<[^>]*>/g, '') }
}

await t.test('the overview is red in each incident that is staged, and green after it', async t => {
  const port = await freePort()
  const yaml = defaultYaml({
    replace: [
      [
        'routes:',
        `routes:
  - { name: weather, match: { path: /weather/* }, price: 7 sats, chain: paid, upstream: { url: "http://127.0.0.1:${port}" } }
  - { name: free weather, match: { path: /free/* }, chain: public, upstream: { url: "http://127.0.0.1:${port}" } }`
      ]
    ]
  })
  const database = await openTestDatabase(t)
  const { gateway, cookie } = await openConsole(t, { database, yaml }, 'operator')
  const isRed = async (t: T, ...words: RegExp[]) => {
    const notice = await noticeOf(gateway, cookie)
    t.equal(notice.tone, 'bad', notice.words)
    for (const each of [...words, /Since 20\d\d-/, /Effect: /]) t.match(notice.words, each)
  }
  const isGreen = async (t: T) => {
    const notice = await noticeOf(gateway, cookie)
    t.equal(notice.tone, 'good', notice.words)
  }
  await isGreen(t)

  await t.test('a dead upstream', async t => {
    for (let request = 0; request < 2; request++) t.equal((await gateway.send('GET', '/free/today')).status, 502)
    await isRed(
      t,
      /Upstreams: Failing: free weather at http:\/\/127\.0\.0\.1:\d+ \(failed requests in a row: 2\)/,
      /Start the upstream/
    )
    const server = http.createServer((_request, response) => response.end('sunny')).listen(port, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    t.equal((await gateway.send('GET', '/free/today')).status, 200)
    await isGreen(t)
  })

  await t.test('the only provider dead', async t => {
    const honest = SandboxProvider.prototype.createCharge
    const revive = () => {
      SandboxProvider.prototype.createCharge = honest
    }
    t.teardown(revive)
    SandboxProvider.prototype.createCharge = async () => {
      throw new ProviderUnavailable('It is down.', 9, undefined, 'network')
    }
    t.equal((await gateway.send('GET', '/weather/today')).status, 503)
    await isRed(
      t,
      /Payment providers: Failing: sandbox \(primary\) cannot be reached/,
      /a new sale is answered with 503/
    )
    revive()
    t.equal((await gateway.send('GET', '/weather/today')).status, 402)
    await isGreen(t)
  })

  await t.test('a file that is rejected', async t => {
    await t.rejects(gateway.reload(`${yaml}\nnonsense: <b>1</b>\n`))
    await isRed(
      t,
      /Configuration: The changed file was rejected: .*nonsense/,
      /the previous configuration stays active/
    )
    await gateway.reload(yaml)
    await isGreen(t)
  })

  await t.test('failed jobs', async t => {
    await database.sql`
      insert into jobs (queue, data, state, next_at, ended_at, reason)
      values ('webhooks', '{}', 'failed', now() + interval '1 day', now(), 'no')`
    await isRed(
      t,
      /Background jobs: Failed jobs, which are not retried: Webhooks to merchants \(1\)/,
      /retry them there/
    )
    await database.sql`delete from jobs where state = 'failed'`
    await isGreen(t)
  })

  await t.test('a refund whose outcome is unknown', async t => {
    await database.sql`
      insert into refunds (refund_id, merchant_id, invoice_id, status, refund_type, refund_address, amount_sats, provider_slot,
        provider_kind, created_at, updated_at, next_check_at)
      values (123456789012345, ${gateway.merchant.id}, 'ord_1', 'pending', 'chain', 'bcrt1', 40, 'primary', 'sandbox',
        now() - interval '1 hour', now(), now() + interval '1 year')`
    await isRed(t, /Refunds: Refunds with an unknown outcome: 1\. Since/, /settle it on Refunds/)
    await database.sql`delete from refunds`
    await isGreen(t)
  })
})
