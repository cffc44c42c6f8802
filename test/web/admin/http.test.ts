import { readFileSync } from 'node:fs'
import t from 'tap'
import { SqlAdminStore } from '../../../src/web/admin/store.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { rootFolder, startGateway, type Answer, type TestGateway } from '../../support/gateway.ts'

type Json = Record<string, unknown>

/** Sends with the admin key, or another one; null sends none. */
function sendAs(
  gateway: TestGateway,
  key: string | null = gateway.adminKey
): (method: string, path: string, body?: object) => Promise<Answer> {
  return (method, path, body) =>
    gateway.send(method, path, {
      headers: key === null ? {} : { 'x-api-key': key },
      ...(body === undefined ? {} : { body })
    })
}

function json(answer: Answer): Json {
  return answer.json() as Json
}

await t.test('the administration over HTTP', async t => {
  const gateway = await startGateway(t)
  const admin = sendAs(gateway)
  const me = (key: string, from = gateway) => sendAs(from, key)('GET', '/api/merchant/me')
  const created = async (email: string, more: object = {}): Promise<{ id: number; apiKey: string }> => {
    const answer = await admin('POST', '/api/admin/merchants', { name: 'Shop', email, ...more })
    t.equal(answer.status, 201, answer.text)
    return { id: Number(json(answer)['merchantId']), apiKey: String(json(answer)['apiKey']) }
  }

  await t.test("a new merchant's key works immediately; the detail is me and more (decision 156)", async t => {
    const { id, apiKey } = await created('detail@example.com')
    const seen = json(await me(apiKey))
    const detail = json(await admin('GET', `/api/admin/merchants/${id}`))
    const { slaUptimePercentage, ...features } = detail['features'] as Json
    t.equal(slaUptimePercentage, 99)
    const own = {
      hasAlternateKey: false,
      hasPrimaryKey: false,
      hasWebhookUrl: false,
      billingCustomerId: null,
      billingSubscriptionId: null,
      currentPeriodEnd: null
    }
    t.same(detail, { ...seen, ...own, features: detail['features'] })
    t.same(features, seen['features'])
  })

  await t.test(
    "an admin's changes apply to the merchant's next request: plan, refunds, provider key, callback URL",
    async t => {
      const { id, apiKey } = await created('effect@example.com')
      const refund = () =>
        sendAs(gateway, apiKey)('POST', '/api/refunds', {
          invoiceId: '123456789012345',
          refundAddress: 'x'.repeat(30),
          amountSatoshis: 1
        })
      t.equal((await refund()).status, 403)
      const changed = await admin('PUT', `/api/admin/merchants/${id}`, {
        planTier: 'standard',
        features: { refundsEnabled: true },
        primaryApiKey: 'sandbox-canary-key',
        callbackUrl: 'https://shop.example.com/hook'
      })
      t.equal(changed.status, 200)
      t.notMatch(changed.text, /canary/)
      t.match((await me(apiKey)).json(), {
        planTier: 'individual',
        features: { refundsEnabled: true, multiCurrencyEnabled: true },
        onboarding: { hasPaymentProviderKey: true, hasWebhookUrl: true, isFullyConfigured: true }
      })
      t.equal((await refund()).status, 400, 'past the gate')
    }
  )

  await t.test(
    "a deactivated account's key is indistinguishable from an invalid key, and works again when reactivated",
    async t => {
      const { id, apiKey } = await created('deactivated@example.com')
      t.equal((await admin('POST', `/api/admin/merchants/${id}/deactivate`)).status, 204)
      const [inactive, invalid] = [await me(apiKey), await me('nonsense')]
      t.equal(inactive.status, 401)
      t.equal(inactive.text, invalid.text)
      t.equal((await admin('POST', `/api/admin/merchants/${id}/reactivate`)).status, 204)
      t.equal((await me(apiKey)).status, 200)
    }
  )

  await t.test('deactivation and a new key apply immediately on every node', async t => {
    const other = await startGateway(t, { database: gateway.database, data: gateway.data })
    const { id, apiKey } = await created('nodes@example.com')
    t.equal((await me(apiKey, other)).status, 200)
    const { apiKey: next } = json(await admin('POST', `/api/admin/merchants/${id}/regenerate-key`))
    t.equal((await me(apiKey, other)).status, 401)
    t.equal((await me(String(next), other)).status, 200)
    t.equal((await admin('POST', `/api/admin/merchants/${id}/deactivate`)).status, 204)
    t.equal((await me(String(next), other)).status, 401)
  })

  await t.test(
    'canary provider keys are in no answer of the administration, and only as ciphertext in the table',
    async t => {
      const keys = { primaryApiKey: 'sandbox-canary-primary', alternateApiKey: 'sandbox-canary-alternate' }
      const store = new SqlAdminStore(gateway.database)
      const pending = async (email: string) =>
        (
          await store.insert(
            {
              email,
              customerName: null,
              planTier: 'individual',
              subscriptionStatus: 'active',
              currentPeriodEnd: null,
              billingCustomerId: null,
              billingSubscriptionId: null
            },
            Date.now()
          )
        ).id
      const answers: Answer[] = []
      const ask = async (method: string, path: string, body?: object): Promise<Json> => {
        const answer = await admin(method, path, body)
        answers.push(answer)
        return answer.text === '' ? {} : json(answer)
      }
      const merchants = '/api/admin/merchants'
      const subscriptions = '/api/admin/pending-subscriptions'
      const { merchantId } = await ask('POST', merchants, { name: 'C', email: 'canary@example.com', ...keys })
      await ask('POST', merchants, { name: 'C', email: 'canary@example.com', ...keys })
      await ask('POST', merchants, { name: 7, email: 'canary@example.com', ...keys })
      await ask('GET', merchants)
      for (const path of [`${merchants}/${Number(merchantId)}`, `${merchants}/999999999`]) {
        await ask('PUT', path, { name: 'C2', ...keys })
        await ask('PUT', path, { planTier: 'gold', ...keys })
        await ask('GET', path)
        for (const act of ['regenerate-key', 'deactivate', 'reactivate']) await ask('POST', `${path}/${act}`, keys)
      }
      const [fresh, linked, rejected] = [
        await pending('canary-2@example.com'),
        await pending('canary@example.com'),
        await pending('canary-3@example.com')
      ]
      for (const id of [fresh, linked]) await ask('POST', `${subscriptions}/${id}/approve`, keys)
      await ask('POST', `${subscriptions}/${fresh}/approve`, keys)
      await ask('POST', `${subscriptions}/${rejected}/reject`, { reason: 'no', ...keys })
      await ask('GET', `${subscriptions}/${fresh}`)
      await ask('GET', `${subscriptions}?includeProcessed=true`)
      t.equal(answers.length, 22)
      for (const answer of answers) t.notMatch(answer.text, /sandbox-canary/)
      const rows = await gateway.database.sql<{ everything: string; primary_key: string; alternate_key: string }[]>`
      select m::text as everything, primary_key, alternate_key from merchants m where email like 'canary%'`
      t.equal(rows.length, 2)
      for (const row of rows) {
        t.notMatch(row.everything, /sandbox-canary/)
        t.match(row.primary_key, /^v1\./)
        t.match(row.alternate_key, /^v1\./)
      }
      const [everything] = await gateway.database
        .sql`select string_agg(p::text, ' ') as text from pending_subscriptions p`
      t.notMatch(String(everything?.['text']), /sandbox-canary/)
    }
  )
})

await t.test('Limits | Admin | 30 | 1 minute | admin endpoints', async t => {
  const clock = new ManualClock()
  const gateway = await startGateway(t, { clock, yaml: readFileSync(`${rootFolder}/gateway.yaml`, 'utf8') })
  const admin = sendAs(gateway)
  for (let request = 1; request <= 30; request++) {
    t.equal(
      (await admin('GET', request % 2 === 0 ? '/api/admin/merchants' : '/api/admin/pending-subscriptions')).status,
      200,
      `request ${request}`
    )
  }
  clock.advance(20_000)
  const refused = await admin('GET', '/api/admin/merchants')
  t.equal(refused.status, 429)
  t.match(refused.json(), { error: 'Too many requests', message: String, retryAfter: 40 })
  clock.advance(40_000)
  t.equal((await admin('GET', '/api/admin/merchants')).status, 200)
})
