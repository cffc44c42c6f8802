import t, { type Test as T } from 'tap'
import { eachDatabase } from '../../support/database.ts'
import { administration, sameKeys, type AdminFixture, type Json } from './fixture.ts'

const canaries = { primaryApiKey: 'canary-primary-key', alternateApiKey: 'canary-alternate-key' }
const summaryFields = ['merchantId', 'name', 'email', 'planTier', 'subscriptionStatus', 'isActive', 'createdAt']
const createdFields = ['merchantId', 'name', 'email', 'apiKey', 'createdAt']

/** The key that is stored in a slot, opened. */
async function storedKey(f: AdminFixture, id: number, slot: 'primaryKey' | 'alternateKey') {
  const sealed = (await f.merchant(id))[slot]
  return sealed === null ? null : f.sealer.open(sealed.ciphertext, sealed.place).reveal()
}

async function storedSecret(f: AdminFixture, id: number) {
  return f.merchants.webhookSecret(await f.merchant(id))?.reveal() ?? null
}

await eachDatabase(t, 'administration of merchants', async (t: T, database) => {
  await t.test('GET /api/admin/merchants', async t => {
    const f = await administration(database)

    await t.test(
      'array of {merchantId, name, email, planTier, subscriptionStatus, isActive, createdAt}, newest first, ties by id descending',
      async t => {
        t.same((await f.call('GET', '/api/admin/merchants')).text, '[]')
        const first = await f.account()
        f.clock.advance(1000)
        const second = await f.account()
        const third = await f.account()
        await f.merchants.deactivate(second.id)
        const { status, text } = await f.call('GET', '/api/admin/merchants')
        t.equal(status, 200)
        const rows = JSON.parse(text) as Json[]
        t.same(
          rows.map(row => row['merchantId']),
          [third.id, second.id, first.id]
        )
        for (const row of rows) sameKeys(t, row, summaryFields, 'fields')
        t.same(rows[1], {
          merchantId: second.id,
          name: 'Shop',
          email: second.email,
          planTier: 'free',
          subscriptionStatus: 'active',
          isActive: false,
          createdAt: new Date(f.clock.now()).toISOString()
        })
      }
    )

    await t.test('out of range the limit is clamped, and beyond the last row the page is empty', async t => {
      const rows = async (query: string) =>
        (JSON.parse((await f.call('GET', `/api/admin/merchants?${query}`)).text) as Json[]).length
      t.equal(await rows('limit=0'), 1)
      t.equal(await rows('limit=99999'), await rows(''))
      t.equal(await rows('after=2147483647'), 0)
      t.equal((await f.call('GET', '/api/admin/merchants?limit=x')).status, 400)
    })

    for (const [stored, shown] of [
      ['standard', 'individual'],
      ['pilot', 'free'],
      ['gold', 'free'],
      [null, 'free'],
      ['l402', 'l402']
    ] as const) {
      await t.test(`planTier of the list and the detail is the resolved tier: ${stored} as ${shown}`, async t => {
        const { id } = await f.account()
        await database.sql`update merchants set plan_tier = ${stored}, subscription_status = 'trialing' where id = ${id}`
        const rows = JSON.parse((await f.call('GET', '/api/admin/merchants')).text) as Json[]
        const row = rows.find(one => one['merchantId'] === id)
        const { data } = await f.call('GET', `/api/admin/merchants/${id}`)
        t.equal(row?.['planTier'], shown)
        t.equal(data['planTier'], shown)
        t.equal(row?.['subscriptionStatus'], data['subscriptionStatus'], 'list and detail agree')
      })
    }
  })

  await t.test('POST /api/admin/merchants', async t => {
    const f = await administration(database)

    await t.test(
      '{merchantId, name, email, apiKey, createdAt}; bypasses checkout: free, status active, l402 on (decision 76)',
      async t => {
        const answer = await f.call('POST', '/api/admin/merchants', { name: 'Acme', email: 'Owner@Example.COM' })
        t.equal(answer.status, 201)
        sameKeys(t, answer.data, createdFields, 'fields')
        t.match(answer.data, {
          name: 'Acme',
          email: 'owner@example.com',
          createdAt: new Date(f.clock.now()).toISOString()
        })
        t.equal(answer.header('location'), `/api/admin/merchants/${Number(answer.data['merchantId'])}`)
        t.equal(answer.header('cache-control'), 'no-store')
        const merchant = (await f.merchants.holderOf(String(answer.data['apiKey'])))?.merchant
        t.match(merchant, {
          id: answer.data['merchantId'],
          tier: 'free',
          subscriptionStatus: 'active',
          isActive: true,
          providerChoice: null,
          primaryKey: null,
          alternateKey: null,
          webhookUrl: null,
          flags: { l402Enabled: true, multiCurrencyEnabled: false, refundsEnabled: false }
        })
      }
    )

    await t.test('apiKey returned only this once', async t => {
      const { id, apiKey } = await f.account()
      const secret = apiKey.split('_').slice(2).join('_')
      for (const target of ['/api/admin/merchants', `/api/admin/merchants/${id}`])
        t.notMatch((await f.call('GET', target)).text, secret, target)
      t.notMatch((await f.call('PUT', `/api/admin/merchants/${id}`, { name: 'Other' })).text, secret)
      t.notMatch(await f.stored(), secret)
    })

    await t.test(
      'alternateApiKey?, primaryApiKey?: stored encrypted, in no answer; a primary key makes the choice',
      async t => {
        const { id } = await f.account(canaries)
        t.equal(await storedKey(f, id, 'primaryKey'), canaries.primaryApiKey)
        t.equal(await storedKey(f, id, 'alternateKey'), canaries.alternateApiKey)
        t.equal((await f.merchant(id)).providerChoice, 'primary')
        t.notMatch(await f.stored(), /canary/)
        t.equal((await f.merchant((await f.account({ alternateApiKey: 'alternate-key' })).id)).providerChoice, null)
      }
    )

    await t.test('callbackUrl?: with it a secret is made, shown this once as webhookSecret', async t => {
      const { data } = await f.call('POST', '/api/admin/merchants', {
        name: 'Hooked',
        email: 'hooked@example.com',
        callbackUrl: 'https://shop.example.com/hook?x=1'
      })
      sameKeys(t, data, [...createdFields, 'webhookSecret'], 'fields')
      const id = Number(data['merchantId'])
      t.equal((await f.merchant(id)).webhookUrl, 'https://shop.example.com/hook?x=1')
      t.equal(await storedSecret(f, id), data['webhookSecret'])
      t.notMatch((await f.call('GET', `/api/admin/merchants/${id}`)).text, String(data['webhookSecret']))
      t.notMatch(await f.stored(), String(data['webhookSecret']))
    })

    await t.test('409 if the email exists, whatever its case', async t => {
      const { email } = await f.account()
      const answer = await f.call('POST', '/api/admin/merchants', { name: 'Two', email: email.toUpperCase() })
      t.equal(answer.status, 409)
      t.same(answer.data, { error: 'A merchant with this email already exists' })
    })

    await t.test('of 50 concurrent creations with one email one is 201 and 49 are 409', async t => {
      const answers = await Promise.all(
        Array.from({ length: 50 }, () =>
          f.call('POST', '/api/admin/merchants', {
            name: 'Race',
            email: 'race@example.com',
            callbackUrl: 'https://shop.example.com/hook'
          })
        )
      )
      const statuses = answers.map(answer => answer.status).sort((a, b) => a - b)
      t.same(statuses, [201, ...Array.from({ length: 49 }, () => 409)])
      const [row] = await database.sql`select count(*)::int as held from merchants where email = 'race@example.com'`
      t.equal(row?.['held'], 1)
    })

    for (const [what, body, field] of [
      ['name is required', { email: 'a@example.com' }, 'Name'],
      ['email is required', { name: 'A' }, 'Email'],
      ['a blank name', { name: '   ', email: 'a@example.com' }, 'Name'],
      ['a name that is a number', { name: 7, email: 'a@example.com' }, 'Name'],
      ['an email with a second header', { name: 'A', email: 'a@example.com\r\nBcc: b@example.com' }, 'Email'],
      ['a name with NUL', { name: 'A\u0000', email: 'a@example.com' }, 'Name']
    ] as const) {
      await t.test(`400 problem: ${what}`, async t => {
        const answer = await f.call('POST', '/api/admin/merchants', body)
        t.equal(answer.status, 400)
        t.match(answer.header('content-type'), /^application\/problem\+json/)
        t.same(Object.keys(answer.data['errors'] as Json), [field])
        t.notMatch(JSON.stringify(answer.data['errors']), /pattern/, 'in words')
        t.equal(await f.merchants.byEmail('a@example.com'), null)
      })
    }

    for (const [what, members, error] of [
      ['a blank primary key', { primaryApiKey: ' ' }, /^Payment provider key required$/],
      ['an empty alternate key', { alternateApiKey: '' }, /^Payment provider key required$/],
      ['a callbackUrl that is a list', { callbackUrl: [] }, /Invalid webhook URL format/],
      ['a callbackUrl to an internal name', { callbackUrl: 'https://metadata.google.internal/' }, /not allowed/]
    ] as const) {
      await t.test(`400 {error}: ${what}; nothing is made`, async t => {
        const answer = await f.call('POST', '/api/admin/merchants', { name: 'A', email: 'a@example.com', ...members })
        t.equal(answer.status, 400)
        t.same(Object.keys(answer.data), ['error'])
        t.match(answer.data['error'], error)
        t.equal(await f.merchants.byEmail('a@example.com'), null)
      })
    }

    await t.test('an empty callbackUrl on creation is unset', async t => {
      t.equal((await f.merchant((await f.account({ callbackUrl: '' })).id)).webhookUrl, null)
    })

    await t.test(
      'localhost as callbackUrl: allowed outside production, blocked in it (decisions 153 and 162)',
      async t => {
        const body = { name: 'L', email: 'local@example.com', callbackUrl: 'http://localhost:3000/hook' }
        t.equal(
          (await (await administration(database, { production: true })).call('POST', '/api/admin/merchants', body))
            .status,
          400
        )
        t.equal((await f.call('POST', '/api/admin/merchants', body)).status, 201)
      }
    )
  })

  await t.test('GET /api/admin/merchants/{merchantId}', async t => {
    const f = await administration(database)

    await t.test(
      'Admin merchant detail adds hasAlternateKey, hasPrimaryKey, hasWebhookUrl, billingCustomerId, billingSubscriptionId and features.slaUptimePercentage',
      async t => {
        const { id, email } = await f.account({
          primaryApiKey: canaries.primaryApiKey,
          callbackUrl: 'https://shop.example.com/hook'
        })
        await f.merchants.setTier(id, 'individual')
        await f.merchants.change(id, {
          subscriptionStatus: 'trialing',
          billingCustomerId: 'cus_9',
          billingSubscriptionId: 'sub_9'
        })
        f.proxies = { count: 2, active: 1 }
        const answer = await f.call('GET', `/api/admin/merchants/${id}`)
        t.equal(answer.status, 200)
        t.same(answer.data, {
          merchantId: id,
          name: 'Shop',
          email,
          planTier: 'individual',
          subscriptionStatus: 'trialing',
          isActive: true,
          createdAt: new Date(f.clock.now()).toISOString(),
          features: {
            refundsEnabled: false,
            multiCurrencyEnabled: true,
            analyticsEnabled: true,
            prioritySupport: false,
            customBrandingEnabled: false,
            maxWebhookEndpoints: 5,
            l402Enabled: true,
            slaUptimePercentage: 99.5
          },
          onboarding: {
            hasPaymentProviderKey: true,
            hasWebhookUrl: true,
            hasActiveProxy: true,
            proxyCount: 2,
            isFullyConfigured: true
          },
          hasAlternateKey: false,
          hasPrimaryKey: true,
          hasWebhookUrl: true,
          currentPeriodEnd: null,
          billingCustomerId: 'cus_9',
          billingSubscriptionId: 'sub_9'
        })
        t.notMatch(answer.text, /canary/)
      }
    )
  })

  await t.test('PUT /api/admin/merchants/{merchantId}', async t => {
    const f = await administration(database)
    const put = (id: number, body: object) => f.call('PUT', `/api/admin/merchants/${id}`, body)

    await t.test('updated merchant summary: any of name, email; email compared and stored in lower case', async t => {
      const { id } = await f.account()
      const answer = await put(id, { name: 'Renamed', email: 'New@Example.com' })
      t.equal(answer.status, 200)
      sameKeys(t, answer.data, summaryFields, 'fields')
      t.match(answer.data, {
        merchantId: id,
        name: 'Renamed',
        email: 'new@example.com',
        planTier: 'free',
        isActive: true
      })
      t.match((await put(id, { name: 'Again' })).data, { name: 'Again', email: 'new@example.com' }, 'other fields stay')
      t.match((await put(id, {})).data, { name: 'Again', email: 'new@example.com' }, 'nothing named, nothing changed')
      t.match(
        (await put(id, { email: 'NEW@example.com' })).data,
        { email: 'new@example.com' },
        'its own address is not taken'
      )
      t.match(
        (await put(id, { name: null, email: null, planTier: null, isActive: null, features: null, callbackUrl: null }))
          .data,
        { name: 'Again', email: 'new@example.com' },
        'null is absent'
      )
    })

    for (const key of ['primaryApiKey', 'alternateApiKey']) {
      await t.test(`a blank ${key} is 400 {error} (decision 152), and the stored one stays`, async t => {
        const { id } = await f.account(canaries)
        for (const blank of ['', '  ']) {
          const answer = await put(id, { [key]: blank })
          t.equal(answer.status, 400)
          t.same(answer.data, { error: 'Payment provider key required' })
        }
        t.match((await f.call('GET', `/api/admin/merchants/${id}`)).data, {
          hasPrimaryKey: true,
          hasAlternateKey: true
        })
      })
    }

    await t.test(
      'callbackUrl: set, a secret made and shown once; set again, the secret stays; "" clears the address',
      async t => {
        const { id } = await f.account()
        const first = await put(id, { callbackUrl: 'https://shop.example.com/one' })
        sameKeys(t, first.data, [...summaryFields, 'webhookSecret'], 'fields')
        t.equal(await storedSecret(f, id), first.data['webhookSecret'])
        const second = await put(id, { callbackUrl: 'https://shop.example.com/two' })
        sameKeys(t, second.data, summaryFields, 'fields')
        t.equal((await f.merchant(id)).webhookUrl, 'https://shop.example.com/two')
        t.equal(await storedSecret(f, id), first.data['webhookSecret'])
        t.equal((await put(id, { callbackUrl: '' })).status, 200)
        t.equal((await f.merchant(id)).webhookUrl, null)
      }
    )

    await t.test('webhookSecret: one of the caller\'s is stored and not shown; "" clears it', async t => {
      const { id } = await f.account()
      const chosen = await put(id, {
        callbackUrl: 'https://shop.example.com/hook',
        webhookSecret: 'canary-webhook-secret'
      })
      sameKeys(t, chosen.data, summaryFields, 'fields')
      t.equal(await storedSecret(f, id), 'canary-webhook-secret')
      t.notMatch(await f.stored(), /canary/)
      t.equal((await put(id, { callbackUrl: '', webhookSecret: '' })).status, 200)
      t.match(await f.merchant(id), { webhookUrl: null, webhookSecret: null })
    })

    await t.test(
      'unsigned webhooks must not exist: a secret cleared while an address is set is regenerated and shown',
      async t => {
        const { id } = await f.account({ callbackUrl: 'https://shop.example.com/hook' })
        const before = await storedSecret(f, id)
        const { data } = await put(id, { webhookSecret: '' })
        t.type(data['webhookSecret'], 'string')
        t.not(data['webhookSecret'], before)
        t.equal(await storedSecret(f, id), data['webhookSecret'])
      }
    )

    for (const [length, status] of [
      [15, 400],
      [16, 200],
      [200, 200],
      [201, 400]
    ] as const) {
      await t.test(`webhookSecret of ${length} characters: ${status} (decision 67)`, async t => {
        const { id } = await f.account()
        const answer = await put(id, { webhookSecret: 'x'.repeat(length) })
        t.equal(answer.status, status)
        if (status === 400) t.same(Object.keys(answer.data['errors'] as Json), ['WebhookSecret'])
      })
    }

    for (const [given, tier, multiCurrencyEnabled] of [
      ['free', 'free', false],
      ['individual', 'individual', true],
      ['l402', 'l402', true],
      ['standard', 'individual', true],
      ['kenticocommerce', 'individual', true],
      ['standalone', 'individual', true],
      ['standaloneapi', 'individual', true],
      ['pilot', 'free', false]
    ] as const) {
      await t.test(
        `planTier (free, individual, l402; retired spellings accepted and rewritten): ${given} is stored as ${tier}, and its flags are set (decision 77)`,
        async t => {
          const { id } = await f.account()
          await f.merchants.change(id, {
            l402Enabled: false,
            multiCurrencyEnabled: !multiCurrencyEnabled,
            refundsEnabled: true
          })
          t.match((await put(id, { planTier: given })).data, { planTier: tier })
          t.match(
            await f.merchant(id),
            { storedTier: tier, flags: { l402Enabled: true, multiCurrencyEnabled, refundsEnabled: true } },
            'refunds are never touched'
          )
        }
      )
    }

    for (const planTier of ['', '  ', 'gold', 'FREE', 'constructor']) {
      await t.test(
        `unrecognized or blank planTier returns 400 naming accepted values: ${JSON.stringify(planTier)}`,
        async t => {
          const { id } = await f.account()
          const answer = await put(id, { planTier, name: 'Half' })
          t.equal(answer.status, 400)
          t.same(answer.data, { error: 'Invalid planTier. Accepted values: free, individual, l402.' })
          t.equal((await f.merchant(id)).name, 'Shop')
        }
      )
    }

    await t.test('isActive false deactivates, true reactivates', async t => {
      const { id, apiKey } = await f.account()
      t.match((await put(id, { isActive: false })).data, { isActive: false })
      t.equal(await f.merchants.holderOf(apiKey), null)
      t.match((await put(id, { isActive: true })).data, { isActive: true })
      t.equal((await f.merchants.holderOf(apiKey))?.merchant.id, id)
    })

    for (const flag of ['refundsEnabled', 'multiCurrencyEnabled', 'l402Enabled'] as const) {
      await t.test(`features.${flag} is set alone, both ways (decision 78)`, async t => {
        const { id } = await f.account()
        await f.merchants.change(id, { refundsEnabled: false, multiCurrencyEnabled: false, l402Enabled: false })
        const off = { refundsEnabled: false, multiCurrencyEnabled: false, l402Enabled: false }
        t.equal((await put(id, { features: { [flag]: true } })).status, 200)
        t.match((await f.merchant(id)).flags, { ...off, [flag]: true })
        t.equal((await put(id, { features: { [flag]: false } })).status, 200)
        t.match((await f.merchant(id)).flags, off)
      })
    }

    await t.test('features beside a planTier are set after those of the plan', async t => {
      const { id } = await f.account()
      await put(id, { planTier: 'individual', features: { multiCurrencyEnabled: false, refundsEnabled: true } })
      t.match((await f.merchant(id)).flags, { multiCurrencyEnabled: false, refundsEnabled: true, l402Enabled: true })
    })

    await t.test('unknown members, in features too, change nothing', async t => {
      const { id } = await f.account({ primaryApiKey: 'a-primary-key' })
      const before = await f.merchant(id)
      const answer = await put(id, {
        id: 1,
        merchantId: 1,
        keyId: 'x',
        providerChoice: 'alternate',
        billingCustomerId: 'cus_x',
        flags: { refundsEnabled: true },
        features: {
          isActive: false,
          planTier: 'l402',
          name: 'Mallory',
          billingCustomerId: 'cus_x',
          subscriptionStatus: 'canceled',
          providerChoice: 'alternate',
          slaUptimePercentage: 1
        }
      })
      t.equal(answer.status, 200)
      t.same(await f.merchant(id), before)
    })

    for (const [what, body] of [
      ['a flag as text', { features: { refundsEnabled: 'true' } }],
      ['a blank name', { name: ' ' }],
      ['a body that is a list', []]
    ] as const) {
      await t.test(`400 problem: ${what}`, async t => {
        const answer = await put((await f.account()).id, body)
        t.equal(answer.status, 400)
        t.match(answer.header('content-type'), /problem\+json/)
      })
    }

    const everything = {
      name: 'All',
      alternateApiKey: 'new-alternate-key',
      primaryApiKey: 'new-primary-key',
      callbackUrl: 'https://shop.example.com/new',
      webhookSecret: 'a-new-webhook-secret',
      planTier: 'l402',
      isActive: false,
      features: { refundsEnabled: true }
    }

    await t.test('all changes of one request happen', async t => {
      const { id } = await f.account()
      const { data } = await put(id, { ...everything, email: 'everything@example.com' })
      t.match(data, { name: 'All', email: 'everything@example.com', planTier: 'l402', isActive: false })
      t.match(await f.merchant(id), {
        webhookUrl: 'https://shop.example.com/new',
        flags: { refundsEnabled: true, multiCurrencyEnabled: true }
      })
      t.equal(await storedKey(f, id, 'primaryKey'), 'new-primary-key')
      t.equal(await storedKey(f, id, 'alternateKey'), 'new-alternate-key')
      t.equal(await storedSecret(f, id), 'a-new-webhook-secret')
    })

    for (const [what, wrong, status] of [
      ['a taken email', 'email', 409],
      ['an unknown plan', { planTier: 'gold' }, 400],
      ['a blank key', { alternateApiKey: '' }, 400],
      ['a callback URL that cannot be used', { callbackUrl: 'https://localhost.internal/' }, 400],
      ['a short secret', { webhookSecret: 'short' }, 400]
    ] as const) {
      await t.test(`all changes of one request happen or none: ${what}`, async t => {
        const { email } = await f.account()
        const { id, apiKey } = await f.account(canaries)
        const before = await f.merchant(id)
        t.equal((await put(id, { ...everything, ...(wrong === 'email' ? { email } : wrong) })).status, status)
        t.same(await f.merchant(id), before)
        t.equal((await f.merchants.holderOf(apiKey))?.merchant.id, id)
      })
    }

    await t.test('a failure at the last statement undoes the first', async t => {
      const { id } = await f.account()
      const before = await f.merchant(id)
      // The callback URL is written last; only the database refuses this row.
      await database.sql`alter table merchants add constraint no_hook check (webhook_url is distinct from 'https://shop.example.com/refused')`
      t.equal((await put(id, { ...everything, callbackUrl: 'https://shop.example.com/refused' })).status, 500)
      await database.sql`alter table merchants drop constraint no_hook`
      t.same(await f.merchant(id), before)
    })

    await t.test('20 concurrent changes of one account: each holds, and one secret was shown', async t => {
      const { id } = await f.account()
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, at) =>
          put(
            id,
            at % 2 === 0
              ? { callbackUrl: `https://shop.example.com/${at}` }
              : { features: { refundsEnabled: true }, planTier: 'individual' }
          )
        )
      )
      t.ok(answers.every(answer => answer.status === 200))
      const shown = answers.flatMap(answer => ('webhookSecret' in answer.data ? [answer.data['webhookSecret']] : []))
      t.same(shown, [await storedSecret(f, id)])
      t.match(await f.merchant(id), { tier: 'individual', flags: { refundsEnabled: true } })
    })
  })

  await t.test('acts on a merchant', async t => {
    const f = await administration(database)

    await t.test('POST …/regenerate-key: {merchantId, apiKey, regeneratedAt}; old key invalid immediately', async t => {
      const { id, apiKey } = await f.account()
      f.clock.advance(5000)
      const answer = await f.call('POST', `/api/admin/merchants/${id}/regenerate-key`)
      t.equal(answer.status, 200)
      sameKeys(t, answer.data, ['merchantId', 'apiKey', 'regeneratedAt'], 'fields')
      t.match(answer.data, { merchantId: id, regeneratedAt: new Date(f.clock.now()).toISOString() })
      t.equal(answer.header('cache-control'), 'no-store')
      t.equal(await f.merchants.holderOf(apiKey), null)
      t.equal((await f.merchants.holderOf(String(answer.data['apiKey'])))?.merchant.id, id)
    })

    await t.test('of 20 concurrent regenerations one key is left, and it was returned', async t => {
      const { id } = await f.account()
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => f.call('POST', `/api/admin/merchants/${id}/regenerate-key`))
      )
      const alive = await Promise.all(answers.map(answer => f.merchants.holderOf(String(answer.data['apiKey']))))
      t.equal(alive.filter(holder => holder?.merchant.id === id).length, 1)
    })

    await t.test(
      'active to inactive on admin deactivate; inactive to active on admin reactivate; 204 even when already so (decision 151)',
      async t => {
        const { id, apiKey } = await f.account()
        for (const [act, works] of [
          ['deactivate', false],
          ['deactivate', false],
          ['reactivate', true],
          ['reactivate', true]
        ] as const) {
          const answer = await f.call('POST', `/api/admin/merchants/${id}/${act}`)
          t.same([answer.status, answer.text], [204, ''], act)
          t.equal(
            (await f.merchants.holderOf(apiKey)) !== null,
            works,
            "a deactivated account's key fails authentication"
          )
        }
      }
    )
  })

  await t.test('Admin | 404 | merchant not found', async t => {
    const f = await administration(database)
    await f.account()
    for (const id of [
      '999999999',
      '0',
      '-1',
      '1.5',
      '01',
      'abc',
      '1e3',
      '2147483648',
      '99999999999999999999',
      '%31x',
      '%00',
      '__proto__',
      '１'
    ]) {
      for (const [method, suffix, body] of [
        ['GET', '', undefined],
        ['PUT', '', { name: 'X' }],
        ['POST', '/regenerate-key', undefined],
        ['POST', '/deactivate', undefined],
        ['POST', '/reactivate', undefined]
      ] as const) {
        const answer = await f.call(method, `/api/admin/merchants/${encodeURI(decodeURIComponent(id))}${suffix}`, body)
        t.match(answer, { status: 404, text: '{"error":"Merchant not found"}' }, `${method} ${id}${suffix}`)
      }
    }
  })
})
