import t, { type Test as T } from 'tap'
import type { ApprovedSubscription } from '../../../src/web/admin/schema.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { MerchantStore } from '../../../src/accounts/merchants/store.ts'
import type { TransactionSql } from '../../../src/platform/database/database.ts'
import { eachDatabase } from '../../support/database.ts'
import { administration, sameKeys, type Json } from './fixture.ts'

const path = '/api/admin/pending-subscriptions'
const createdFields = ['merchantId', 'name', 'email', 'apiKey', 'createdAt']
const linkedFields = ['merchantId', 'name', 'email', 'linked', 'message']
const canaries = { primaryApiKey: 'canary-primary-key', alternateApiKey: 'canary-alternate-key' }
/** Accounts of which one that has just been made is not seen at the first look-up, as in a race. */
class LateAccounts extends MerchantStore {
  static late = 0

  override within(sql: TransactionSql): LateAccounts {
    return new LateAccounts({ sql, transaction: run => run(sql) })
  }

  override async byEmail(email: string): Promise<Merchant | null> {
    return LateAccounts.late-- > 0 ? null : await super.byEmail(email)
  }
}

const periodEnd = Date.parse('2026-12-21T00:00:00.000Z')

await eachDatabase(t, 'pending subscriptions', async (t: T, database) => {
  await t.test('GET /api/admin/pending-subscriptions', async t => {
    const f = await administration(database)
    const list = async (query = '') => JSON.parse((await f.call('GET', `${path}${query}`)).text) as Json[]

    await t.test(
      'Fields: id, email, customerName, billingCustomerId, billingSubscriptionId, planTier, subscriptionStatus, createdAt, isApproved, isRejected, reviewedAt, rejectionReason, linkedMerchantId',
      async t => {
        t.same(await list(), [])
        const { id } = await f.pending({
          email: 'Buyer@Example.com',
          billingCustomerId: 'cus_f',
          billingSubscriptionId: 'sub_f'
        })
        const expected = {
          id,
          email: 'buyer@example.com',
          customerName: 'Ada Buyer',
          billingCustomerId: 'cus_f',
          billingSubscriptionId: 'sub_f',
          planTier: 'individual',
          subscriptionStatus: 'trialing',
          createdAt: new Date(f.clock.now()).toISOString(),
          isApproved: false,
          isRejected: false,
          reviewedAt: null,
          rejectionReason: null,
          linkedMerchantId: null
        }
        t.same(await list(), [expected])
        const one = await f.call('GET', `${path}/${id}`)
        t.equal(one.status, 200)
        t.same(one.data, expected)
      }
    )

    await t.test('query includeProcessed (boolean, default false); newest first, ties by id descending', async t => {
      const old = await f.pending()
      f.clock.advance(1000)
      const approved = await f.pending()
      const rejected = await f.pending()
      const waiting = await f.pending()
      t.equal((await f.call('POST', `${path}/${approved.id}/approve`)).status, 200)
      t.equal((await f.call('POST', `${path}/${rejected.id}/reject`)).status, 204)
      const open = [waiting.id, old.id]
      for (const query of ['', '?includeProcessed=false', '?includeProcessed='])
        t.same(
          (await list(query)).slice(0, 2).map(row => row['id']),
          open,
          query
        )
      t.same(
        (await list('?includeProcessed=true')).slice(0, 4).map(row => row['id']),
        [waiting.id, rejected.id, approved.id, old.id]
      )
      const answer = await f.call('GET', `${path}?includeProcessed=maybe`)
      t.equal(answer.status, 400)
      t.same(Object.keys(answer.data['errors'] as Json), ['IncludeProcessed'])
    })

    for (const id of ['999999999', '0', 'abc', '1.5', '-1', '2147483648', '99999999999999999999']) {
      for (const [method, suffix] of [
        ['GET', ''],
        ['POST', '/approve'],
        ['POST', '/reject']
      ] as const) {
        const answer = await f.call(method, `${path}/${id}${suffix}`)
        t.match(answer, { status: 404, text: '{"error":"Pending subscription not found"}' }, `${method} ${id}${suffix}`)
      }
    }
  })

  await t.test('pending | approve | approved: a merchant account is created', async t => {
    const heard: ApprovedSubscription[] = []
    const f = await administration(database, {
      approved: async (_sql, approved) => {
        heard.push(approved)
      }
    })
    const approve = (id: number, body?: object | string) => f.call('POST', `${path}/${id}/approve`, body)

    await t.test(
      'new merchant {merchantId, name, email, apiKey, createdAt}; tier, status, ids, period end and flags of the subscription (decision 77)',
      async t => {
        const pending = await f.pending({ planTier: 'individual' })
        f.clock.advance(1000)
        const answer = await approve(pending.id, {})
        t.equal(answer.status, 200)
        sameKeys(t, answer.data, createdFields, 'fields')
        t.match(answer.data, {
          name: 'Ada Buyer',
          email: pending.email,
          createdAt: new Date(f.clock.now()).toISOString()
        })
        t.equal(answer.header('cache-control'), 'no-store')
        const merchant = (await f.merchants.holderOf(String(answer.data['apiKey'])))?.merchant
        t.match(merchant, {
          id: answer.data['merchantId'],
          storedTier: 'individual',
          subscriptionStatus: 'trialing',
          currentPeriodEnd: periodEnd,
          billingCustomerId: pending.billingCustomerId,
          billingSubscriptionId: pending.billingSubscriptionId,
          isActive: true,
          flags: { l402Enabled: true, multiCurrencyEnabled: true, refundsEnabled: false }
        })
        t.match((await f.call('GET', `${path}/${pending.id}`)).data, {
          isApproved: true,
          isRejected: false,
          reviewedAt: new Date(f.clock.now()).toISOString(),
          linkedMerchantId: answer.data['merchantId']
        })
      }
    )

    await t.test(
      'the hook is called once, with the account and the subscription in their final state (decision 155)',
      async t => {
        heard.length = 0
        const pending = await f.pending()
        const { data } = await approve(pending.id)
        t.equal(heard.length, 1)
        t.match(heard[0], {
          merchant: { id: data['merchantId'] },
          subscription: { id: pending.id, state: 'approved', linkedMerchantId: data['merchantId'] },
          linked: false
        })
        t.notMatch(JSON.stringify(heard[0]), String(data['apiKey']), 'never the key')
      }
    )

    for (const [what, body] of [
      ['none', undefined],
      ['null', 'null'],
      ['{}', '{}']
    ] as const) {
      await t.test(`every member is optional, and so is the body: ${what}`, async t => {
        const { id } = await f.pending()
        t.equal((await approve(id, body)).status, 200)
      })
    }

    await t.test(
      '{merchantName?, alternateApiKey?, primaryApiKey?, callbackUrl?}: taken, the keys sealed, the secret shown once',
      async t => {
        const { id } = await f.pending()
        const answer = await approve(id, {
          merchantName: 'Buyers Ltd',
          ...canaries,
          callbackUrl: 'https://buyer.example.com/hook'
        })
        sameKeys(t, answer.data, [...createdFields, 'webhookSecret'], 'fields')
        t.notMatch(answer.text, /canary/)
        t.notMatch(await f.stored(), /canary/)
        const merchant = await f.merchant(Number(answer.data['merchantId']))
        t.match(merchant, {
          name: 'Buyers Ltd',
          webhookUrl: 'https://buyer.example.com/hook',
          providerChoice: 'primary'
        })
        for (const [key, text] of [
          [merchant.primaryKey, canaries.primaryApiKey],
          [merchant.alternateKey, canaries.alternateApiKey]
        ] as const) {
          if (key === null) t.fail('no key is stored')
          else t.equal(f.sealer.open(key.ciphertext, key.place).reveal(), text)
        }
        t.equal(f.merchants.webhookSecret(merchant)?.reveal(), answer.data['webhookSecret'])
      }
    )

    for (const customerName of [null, '', ' \t'])
      await t.test(
        `without merchantName, and with ${JSON.stringify(customerName)} as customerName, the name is the email`,
        async t => {
          const pending = await f.pending({ customerName })
          t.match((await approve(pending.id)).data, { name: pending.email })
        }
      )

    for (const [what, body] of [
      ['a blank key', { primaryApiKey: '  ' }],
      ['a refused callback URL', { callbackUrl: 'https://localhost.internal' }],
      ['a body that is no JSON', '{']
    ] as const) {
      await t.test(`a failure leaves it pending, and no account behind: ${what}`, async t => {
        const pending = await f.pending()
        t.equal((await approve(pending.id, body)).status, 400)
        t.match((await f.call('GET', `${path}/${pending.id}`)).data, { isApproved: false, reviewedAt: null })
        t.equal(await f.merchants.byEmail(pending.email), null)
        t.equal((await approve(pending.id)).status, 200, 'and it can be approved')
      })
    }

    await t.test('an error of the hook undoes the approval', async t => {
      const g = await administration(database, {
        approved: async () => {
          throw new Error('the outbox is full')
        }
      })
      const pending = await f.pending()
      t.equal((await g.call('POST', `${path}/${pending.id}/approve`)).status, 500)
      t.match((await f.call('GET', `${path}/${pending.id}`)).data, { isApproved: false, reviewedAt: null })
      t.equal(await f.merchants.byEmail(pending.email), null)
    })
  })

  await t.test('pending | approve | approved: linked to an existing merchant with the same email', async t => {
    const heard: ApprovedSubscription[] = []
    const f = await administration(database, {
      approved: async (_sql, approved) => {
        heard.push(approved)
      }
    })
    const approve = (id: number, body?: object) => f.call('POST', `${path}/${id}/approve`, body)

    await t.test(
      'linked {merchantId, name, email, linked: true, message}; tier, facts, period end and flags taken; its key stays',
      async t => {
        const { id, email, apiKey } = await f.account()
        await f.merchants.change(id, { refundsEnabled: true, l402Enabled: false })
        const pending = await f.pending({ email: email.toUpperCase(), planTier: 'l402', subscriptionStatus: 'active' })
        const answer = await approve(pending.id, { merchantName: 'Another name' })
        t.equal(answer.status, 200)
        sameKeys(t, answer.data, linkedFields, 'fields')
        t.match(answer.data, { merchantId: id, name: 'Shop', email, linked: true })
        t.match((await f.merchants.holderOf(apiKey))?.merchant, {
          id,
          tier: 'l402',
          subscriptionStatus: 'active',
          currentPeriodEnd: periodEnd,
          billingCustomerId: pending.billingCustomerId,
          billingSubscriptionId: pending.billingSubscriptionId,
          flags: { l402Enabled: true, multiCurrencyEnabled: true, refundsEnabled: true }
        })
        t.match((await f.call('GET', `${path}/${pending.id}`)).data, {
          isApproved: true,
          isRejected: false,
          linkedMerchantId: id
        })
        t.match(heard, [{ merchant: { id }, linked: true }])
      }
    )

    await t.test(
      'a subscription without a customer of the billing provider, as one in bitcoin, leaves the account the customer that it is',
      async t => {
        const { id, email } = await f.account()
        await f.merchants.change(id, {
          billingCustomerId: 'cus_of_before',
          billingSubscriptionId: 'sub_of_before',
          subscriptionStatus: 'canceled'
        })
        const pending = await f.pending({
          email,
          billingCustomerId: null,
          billingSubscriptionId: 'btc_of_now',
          subscriptionStatus: 'active'
        })
        t.equal((await approve(pending.id)).status, 200)
        t.match(
          await f.merchant(id),
          { billingCustomerId: 'cus_of_before', billingSubscriptionId: 'btc_of_now', subscriptionStatus: /^active$/ },
          'its portal still opens, and it has no second trial'
        )
      }
    )

    await t.test(
      'missing fields of the account are filled in, present ones are never replaced, and the message says so',
      async t => {
        const { id, email } = await f.account({
          primaryApiKey: 'its-own-primary-key',
          callbackUrl: 'https://own.example.com/hook'
        })
        const { data } = await approve((await f.pending({ email })).id, {
          ...canaries,
          callbackUrl: 'https://buyer.example.com/hook'
        })
        sameKeys(t, data, linkedFields, 'fields')
        t.match(data['message'], /primaryApiKey and callbackUrl/)
        t.notMatch(data['message'], /alternateApiKey/)
        const { primaryKey, alternateKey, webhookUrl } = await f.merchant(id)
        if (primaryKey === null || alternateKey === null) return t.fail('a key is missing')
        t.equal(f.sealer.open(primaryKey.ciphertext, primaryKey.place).reveal(), 'its-own-primary-key')
        t.equal(f.sealer.open(alternateKey.ciphertext, alternateKey.place).reveal(), canaries.alternateApiKey)
        t.equal(webhookUrl, 'https://own.example.com/hook')
        t.notMatch(await f.stored(), /canary/)
      }
    )

    await t.test('a deactivated account stays so, and the message says it', async t => {
      const { id, email } = await f.account()
      await f.merchants.deactivate(id)
      const { data } = await approve((await f.pending({ email })).id)
      t.match(data['message'], /deactivated/)
      t.equal((await f.merchant(id)).isActive, false)
    })

    await t.test(
      'two subscriptions of one address approved concurrently: one makes the account, the other is linked to it',
      async t => {
        const one = await f.pending({ email: 'twice@example.com' })
        const two = await f.pending({ email: 'twice@example.com', planTier: 'l402' })
        const answers = await Promise.all([approve(one.id), approve(two.id)])
        t.same(
          answers.map(answer => answer.status),
          [200, 200]
        )
        t.same(answers.map(answer => 'apiKey' in answer.data).sort(), [false, true])
        t.equal(new Set(answers.map(answer => answer.data['merchantId'])).size, 1)
      }
    )

    await t.test(
      'an account that appears between look-up and creation is linked, and nothing else is left behind',
      async t => {
        const g = await administration(database, { accounts: new LateAccounts(database) })
        const { id, email } = await f.account()
        const pending = await f.pending({ email })
        LateAccounts.late = 1
        const answer = await g.call('POST', `${path}/${pending.id}/approve`, { alternateApiKey: 'an-alternate-key' })
        t.equal(answer.status, 200)
        t.match(answer.data, { merchantId: id, linked: true })
        t.ok(LateAccounts.late <= 0)
        t.not((await f.merchant(id)).alternateKey, null)
        t.match((await f.call('GET', `${path}/${pending.id}`)).data, { isApproved: true, linkedMerchantId: id })
      }
    )

    await t.test('an account made with the address at the same moment is linked: neither fails', async t => {
      for (let round = 0; round < 10; round++) {
        const pending = await f.pending()
        const [approval, creation] = await Promise.all([
          approve(pending.id),
          f.call('POST', '/api/admin/merchants', { name: 'Same', email: pending.email })
        ])
        t.equal(approval.status, 200)
        t.equal(creation.status, approval.data['linked'] === true ? 201 : 409)
        t.match(await f.merchants.byEmail(pending.email), {
          id: approval.data['merchantId'],
          billingSubscriptionId: pending.billingSubscriptionId
        })
      }
    })
  })

  await t.test('pending | reject (optional reason) | rejected | 204', async t => {
    const f = await administration(database)
    const reject = (id: number, body?: object | string) => f.call('POST', `${path}/${id}/reject`, body)

    for (const [what, body, reason] of [
      ['with a reason', { reason: 'Not a business.' }, 'Not a business.'],
      ['a null reason', { reason: null }, null],
      ['no body', undefined, null]
    ] as const) {
      await t.test(what, async t => {
        const pending = await f.pending()
        f.clock.advance(1000)
        const answer = await reject(pending.id, body)
        t.same([answer.status, answer.text], [204, ''])
        t.match((await f.call('GET', `${path}/${pending.id}`)).data, {
          isApproved: false,
          isRejected: true,
          reviewedAt: new Date(f.clock.now()).toISOString(),
          rejectionReason: reason,
          linkedMerchantId: null
        })
        t.equal(await f.merchants.byEmail(pending.email), null)
      })
    }

    for (const [what, body] of [
      ['501 characters', { reason: 'x'.repeat(501) }],
      ['NUL', { reason: 'a\u0000b' }]
    ] as const) {
      await t.test(`400 problem, and it stays pending: a reason of ${what}`, async t => {
        const { id } = await f.pending()
        const answer = await reject(id, body)
        t.equal(answer.status, 400)
        t.same(Object.keys(answer.data['errors'] as Json), ['Reason'])
        t.match((await f.call('GET', `${path}/${id}`)).data, { isRejected: false, reviewedAt: null })
      })
    }
  })

  await t.test('approved or rejected | approve or reject | unchanged | 400, already processed', async t => {
    const f = await administration(database)
    for (const first of ['approve', 'reject']) {
      for (const second of ['approve', 'reject']) {
        await t.test(`${first}, then ${second}`, async t => {
          const { id } = await f.pending()
          await f.call('POST', `${path}/${id}/${first}`)
          const before = (await f.call('GET', `${path}/${id}`)).data
          f.clock.advance(1000)
          const answer = await f.call('POST', `${path}/${id}/${second}`)
          t.equal(answer.status, 400)
          sameKeys(t, answer.data, ['error'], 'fields')
          t.match(answer.data['error'], /already been (approved|rejected)/)
          t.same((await f.call('GET', `${path}/${id}`)).data, before)
        })
      }
    }
  })

  await t.test('exactly one of many concurrent reviews wins', async t => {
    const f = await administration(database)
    const accounts = async (email: string) =>
      (await database.sql`select count(*)::int as held from merchants where email = ${email}`)[0]?.['held']

    await t.test('25 approvals and 25 rejections concurrently: one verdict, and the outcome fits it', async t => {
      for (let round = 0; round < 3; round++) {
        const pending = await f.pending()
        const answers = await Promise.all(
          Array.from({ length: 50 }, (_, at) =>
            f.call('POST', `${path}/${pending.id}/${(at + round) % 2 === 0 ? 'approve' : 'reject'}`)
          )
        )
        const won = answers.filter(answer => answer.status < 300)
        t.equal(won.length, 1)
        t.equal(answers.filter(answer => answer.status === 400).length, 49)
        const { data } = await f.call('GET', `${path}/${pending.id}`)
        const approved = won[0]?.status === 200
        t.match(data, { isApproved: approved, isRejected: !approved })
        t.equal(await accounts(pending.email), approved ? 1 : 0)
      }
    })
  })

  await t.test('the store, for billing', async t => {
    const f = await administration(database)

    await t.test('billing reports events twice: one row exists, updated while it waits', async t => {
      const first = await f.pending({ billingSubscriptionId: 'sub_twice' })
      f.clock.advance(1000)
      const second = await f.pending({
        billingSubscriptionId: 'sub_twice',
        email: 'other@example.com',
        subscriptionStatus: 'canceled',
        currentPeriodEnd: null
      })
      t.same(second, { ...first, subscriptionStatus: 'canceled', currentPeriodEnd: null })
      await f.call('POST', `${path}/${first.id}/reject`)
      const third = await f.pending({
        billingSubscriptionId: 'sub_twice',
        subscriptionStatus: 'active',
        currentPeriodEnd: periodEnd
      })
      t.match(
        third,
        { id: first.id, state: 'rejected', subscriptionStatus: 'canceled', currentPeriodEnd: null },
        'once reviewed it stays as it is'
      )
    })

    await t.test('of 20 concurrent reports one row is kept', async t => {
      const rows = await Promise.all(Array.from({ length: 20 }, () => f.pending({ billingSubscriptionId: 'sub_race' })))
      t.equal(new Set(rows.map(row => row.id)).size, 1)
    })

    await t.test("on a caller's transaction it commits or rolls back with it", async t => {
      await t.rejects(
        database.transaction(async tx => {
          await f.store.insert(
            {
              email: 'undone@example.com',
              customerName: null,
              planTier: 'free',
              subscriptionStatus: null,
              currentPeriodEnd: null,
              billingCustomerId: null,
              billingSubscriptionId: 'sub_undone'
            },
            f.clock.now(),
            tx
          )
          throw new Error('undone')
        }),
        { message: 'undone' }
      )
      t.notOk((await f.store.list(true)).some(row => row.email === 'undone@example.com'))
    })
  })
})
