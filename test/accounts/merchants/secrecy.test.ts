import t from 'tap'
import { pino } from 'pino'
import { Writable } from 'node:stream'
import { openAnyDatabase, temporaryFolder } from '../../support/database.ts'
import { startGateway, type Answer } from '../../support/gateway.ts'
import { newAccount } from './accounts.ts'

t.test(
  'provider keys are encrypted at rest and never returned from any endpoint; the webhook secret neither',
  async t => {
    const canaries = {
      primary: 'canary-primary-4f1d',
      alternate: 'canary-alternate-9c2e',
      secret: 'canary-webhook-secret-77aa'
    }
    const lines: string[] = []
    const log = pino(
      { level: 'trace' },
      new Writable({
        write(chunk, _encoding, done) {
          lines.push(String(chunk))
          done()
        }
      })
    )
    const gateway = await startGateway(t, { log })
    const account = await newAccount(gateway)
    const answers: Array<readonly [string, Answer]> = []
    const call = async (method: string, path: string, body?: object | string) => {
      answers.push([`${method} ${path}`, await account.send(method, path, body)])
    }
    await call('PUT', '/api/merchant/primary-key', { primaryApiKey: canaries.primary })
    await call('PUT', '/api/merchant/alternate-key', { alternateApiKey: canaries.alternate })
    await call('PUT', '/api/merchant/webhook-url', {
      webhookUrl: 'https://shop.example/hook',
      webhookSecret: canaries.secret
    })
    // Refusals too: what was sent must not come back.
    await call('PUT', '/api/merchant/primary-key', { primaryApiKey: [canaries.primary] })
    await call('PUT', '/api/merchant/alternate-key', `{"alternateApiKey": "${canaries.alternate}`)
    await call('PUT', '/api/merchant/primary-key', { primaryApiKey: canaries.primary.repeat(600) })
    await call('PUT', '/api/merchant/webhook-url', { webhookUrl: 'nonsense', webhookSecret: canaries.secret })
    await call('PUT', '/api/merchant/webhook-url', { webhookSecret: canaries.secret.repeat(20) })
    await call('PUT', '/api/merchant/payment-provider', { provider: 'alternate' })
    for (const path of ['me', 'l402-status', 'subscription', 'api-key-info', 'quickstart'])
      await call('GET', `/api/merchant/${path}`)
    await call('POST', '/api/merchant/validate-primary')
    await call('POST', '/api/merchant/validate-alternate')
    await call('POST', '/api/l402/challenges', { resource: 'a report', priceSats: 5 })
    await call('POST', '/api/merchant/regenerate-key')
    const shown = /canary-(primary|alternate|webhook)/
    for (const [what, answer] of answers)
      t.notMatch(`${answer.text}${JSON.stringify(answer.headers)}`, shown, `${what} answered ${answer.status}`)
    t.ok(answers.filter(([, answer]) => answer.status === 200).length >= 13, 'most of them succeeded')
    t.ok(lines.length >= answers.length)
    t.notMatch(lines.join(''), shown, 'the log')

    const [row] = await gateway.database.sql<
      Array<Record<string, unknown>>
    >`select merchants.*, merchants::text as everything from merchants where id = ${account.id}`
    t.notMatch(String(row?.['everything']), shown, 'the row')
    for (const column of ['primary_key', 'alternate_key', 'webhook_secret']) {
      const ciphertext = String(row?.[column])
      t.ok(ciphertext.length >= 40, `${column} holds something`)
      for (const canary of Object.values(canaries))
        t.notOk(Buffer.from(ciphertext, 'base64url').includes(canary), 'not merely encoded')
    }
  }
)

t.test('the same key saved twice gives two ciphertexts, and each is used by its own row only', async t => {
  const gateway = await startGateway(t)
  const one = await newAccount(gateway)
  const other = await newAccount(gateway)
  for (const account of [one, other])
    await account.send('PUT', '/api/merchant/primary-key', { primaryApiKey: 'a-shared-primary-key' })
  const ciphertext = await one.column('primary_key')
  t.not(ciphertext, await other.column('primary_key'))
  await other.set({ primary_key: ciphertext })
  t.equal(
    (await other.send('POST', '/api/merchant/validate-primary')).status,
    500,
    'moved to another row it cannot be opened'
  )
})

t.test('of keys regenerated concurrently on two gateways exactly one is valid', async t => {
  const database = await openAnyDatabase(t)
  const data = temporaryFolder(t)
  const gateways = [await startGateway(t, { database, data }), await startGateway(t, { database, data })] as const
  const account = await newAccount(gateways[0])
  const answers = await Promise.all(
    [0, 1, 0, 1, 0, 1].map(at =>
      gateways[at === 0 ? 0 : 1].send('POST', '/api/merchant/regenerate-key', {
        headers: { 'x-api-key': account.apiKey }
      })
    )
  )
  const keys = answers.flatMap(answer => (answer.status === 200 ? [(answer.json() as { apiKey: string }).apiKey] : []))
  t.ok(keys.length >= 1)
  const alive = []
  for (const apiKey of [account.apiKey, ...keys])
    if ((await gateways[1].send('GET', '/api/merchant/me', { headers: { 'x-api-key': apiKey } })).status === 200)
      alive.push(apiKey)
  t.equal(alive.length, 1)
  t.not(alive[0], account.apiKey, 'the old one ends immediately, on every gateway')
})
