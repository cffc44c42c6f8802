import t, { type Test as T } from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { decodeMacaroonBase64 } from '../../../src/lightning/l402/macaroon.ts'
import { countEndpoints } from '../../../src/accounts/merchants/holdings.ts'
import {
  ProviderKeyRequired,
  ProviderRefused,
  ProviderUnavailable
} from '../../../src/lightning/provider-calls/errors.ts'
import { eachDatabase } from '../../support/database.ts'
import { TokenKeyRing } from '../../../src/lightning/l402/root-key.ts'
import { CHALLENGES, merchantApi, PROBLEMS, text, type Json, type Reply } from './producer-fixture.ts'

const quote = { resource: '/v1/quote', priceSats: 10 }
const keyed = (key: string, name = 'Idempotency-Key') => ({ headers: { [name]: key } })

/** Titles that are not their slug in words. */
const TITLES: Readonly<Record<string, string>> = {
  'provider-key-required': 'Payment provider key required',
  'provider-unavailable': 'Payment provider unavailable',
  'plan-price-limit': 'Plan price limit reached',
  'plan-monthly-limit': 'Plan monthly limit reached',
  'plan-endpoint-limit': 'Plan endpoint limit reached'
}

function isProblem(t: T, reply: Reply, status: number, slug: string) {
  const title = TITLES[slug] ?? slug.replaceAll('-', ' ').replace(/^./, letter => letter.toUpperCase())
  t.equal(reply.status, status)
  t.match(reply.headers.get('content-type'), /^application\/problem\+json/)
  t.match(reply.data, { type: `${PROBLEMS}/${slug}`, title, status, error: title })
  t.type(reply.data['detail'], 'string')
  t.notOk(reply.headers.has('www-authenticate'))
  t.equal(reply.headers.has('retry-after'), status === 503)
}

t.test(
  'create: invoice, macaroon, paymentHash, expiresAt, resource, priceSats and mppChallenge (contract; decision 104)',
  async t => {
    const { f, merchant, create } = await merchantApi(t)
    const reply = await create({ ...quote, description: 'A quote\u0001about money' })
    t.equal(reply.status, 200)
    t.same(Object.keys(reply.data).sort(), [
      'expiresAt',
      'invoice',
      'macaroon',
      'mppChallenge',
      'paymentHash',
      'priceSats',
      'resource'
    ])
    const invoice = decodeInvoice(text(reply.data, 'invoice'))
    t.match(invoice, {
      amountSats: 10,
      description: 'A quote about money',
      paymentHash: reply.data['paymentHash'],
      network: 'regtest'
    })
    t.equal(reply.data['expiresAt'], new Date(f.clock.now() + 600_000).toISOString())
    t.match(reply.data, quote)
    const caveats = decodeMacaroonBase64(text(reply.data, 'macaroon')).caveats.map(caveat =>
      Buffer.from(caveat).toString()
    )
    t.match(caveats, [
      'services=producer:0',
      'path=/v1/quote',
      `merchant_id=${merchant.id}`,
      /^charge_id=/,
      'amount_sats=10',
      /^expires=/
    ])
    t.match(
      reply.data['mppChallenge'],
      /^Payment id="[^"]+", realm="api\.example\.com", method="lightning", intent="charge", request="[^"]+", expires="[^"]+", invoice=/
    )
    t.notOk(reply.headers.has('x-idempotency-replayed'))
  }
)

t.test('create: mppChallenge is left out when the Payment scheme is off (decision 104)', async t => {
  const { create } = await merchantApi(t, undefined, { schemes: ['l402'] })
  const reply = await create(quote)
  t.equal(reply.status, 200)
  t.notOk('mppChallenge' in reply.data)
})

t.test(
  'create: any text without control characters is a resource, and the default description (decision 105)',
  async t => {
    const { f, create } = await merchantApi(t)
    for (const resource of ['weather report', 'Größe/1', '\u{1F600}'.repeat(100), 'x'.repeat(500)]) {
      const reply = await create({ resource, priceSats: 1_000_000_000 })
      t.equal(reply.status, 200)
      t.equal(reply.data['resource'], resource)
      t.equal(reply.data['priceSats'], 1_000_000_000)
    }
    t.equal(f.payee.requests[0]?.description, 'weather report')
  }
)

t.test('create: a missing or malformed field is invalid-request (contract, Errors; decision 103)', async t => {
  const { f, create } = await merchantApi(t)
  const bodies: [unknown, string][] = [
    [{ priceSats: 10 }, 'Resource'],
    [{ resource: null, priceSats: 10 }, 'Resource'],
    [{ resource: '', priceSats: 10 }, 'Resource'],
    [{ resource: 'x'.repeat(501), priceSats: 10 }, 'Resource'],
    [{ resource: 'a\nb', priceSats: 10 }, 'Resource'],
    [{ resource: 7, priceSats: 10 }, 'Resource'],
    [{ resource: '/a' }, 'PriceSats'],
    [{ ...quote, description: 5 }, 'Description'],
    ['{', '$'],
    ['', '$'],
    ['[]', '$']
  ]
  for (const [body, field] of bodies) {
    const reply = await create(body)
    isProblem(t, reply, 400, 'invalid-request')
    t.ok(field in (reply.data['errors'] as Json), `${JSON.stringify(body)} names ${field}`)
  }
  isProblem(t, await create({ resource: 'half \ud83d', priceSats: 10 }), 400, 'invalid-request')
  t.equal(f.payee.requests.length, 0)
})

t.test(
  'create: a price that is no whole number from 1 to 1,000,000,000 is invalid-price (contract, Errors; decisions 103 and 105)',
  async t => {
    const { f, create } = await merchantApi(t)
    for (const priceSats of [0, -1, 1.5, '10', 1_000_000_001, true]) {
      isProblem(t, await create({ resource: '/a', priceSats }), 400, 'invalid-price')
    }
    t.equal(f.payee.requests.length, 0)
  }
)

t.test(
  'idempotency: a blank or over-long key, from each place that counts, is invalid-idempotency-key (contract; decisions 20 and 103)',
  async t => {
    const { create } = await merchantApi(t)
    for (const idempotencyKey of ['', '  ', 'x'.repeat(201), 'a\u0000b', 5]) {
      isProblem(t, await create({ ...quote, idempotencyKey }), 400, 'invalid-idempotency-key')
    }
    for (const key of ['', ' ', 'x'.repeat(201)]) {
      isProblem(t, await create({ ...quote, idempotencyKey: 'good' }, keyed(key)), 400, 'invalid-idempotency-key')
      isProblem(t, await create(quote, keyed(key, 'X-Idempotency-Key')), 400, 'invalid-idempotency-key')
    }
    t.equal(
      (await create({ ...quote, idempotencyKey: '' }, keyed('x'.repeat(200)))).status,
      200,
      "a header takes the place of the body's"
    )
  }
)

t.test(
  'idempotency: Idempotency-Key goes before X-Idempotency-Key, and both before the body (contract; decision 20)',
  async t => {
    const { f, merchant, create } = await merchantApi(t)
    const body = { ...quote, idempotencyKey: 'three' }
    await create(body, {
      headers: { 'X-Idempotency-Key': 'two', 'Idempotency-Key': 'one' }
    })
    await create(body, { headers: { 'X-Idempotency-Key': 'two' } })
    await create(body)
    const rows = await f.database
      .sql`select idempotency_key from challenges where merchant_id = ${String(merchant.id)} order by idempotency_key`
    t.same(
      rows.map(row => row['idempotency_key']),
      ['one', 'three', 'two']
    )
  }
)

t.test(
  "idempotency: the same key, resource and price give the same challenge for the invoice's life, on every gateway (contract; decision 110)",
  async t => {
    const { f, merchant, create } = await merchantApi(t)
    const first = await create(quote, keyed('k'))
    f.clock.advance(599_999)
    const again = await create({ ...quote, description: 'not compared' }, keyed('k', 'X-Idempotency-Key'))
    t.same(again.data, first.data)
    t.equal(again.headers.get('x-idempotency-replayed'), 'true')
    const other = await (await f.elsewhere())(merchant, 'POST', CHALLENGES, { ...quote, idempotencyKey: 'k' })
    t.same(other.data, first.data, 'the record is in the database, so it survives a restart')
    t.equal(other.headers.get('x-idempotency-replayed'), 'true')
    t.equal(f.payee.requests.length, 1)
    const outsider = await f.call(await f.merchant(), 'POST', CHALLENGES, quote, keyed('k'))
    t.not(outsider.data['paymentHash'], first.data['paymentHash'], 'keys belong to one merchant')
  }
)

t.test(
  'idempotency: a challenge whose keys have been removed is not given out again, since nothing would verify its token',
  async t => {
    const { f, create } = await merchantApi(t)
    const first = await create(quote, keyed('k'))
    f.selling.configure({ settings: f.challenges.settings, keys: new TokenKeyRing(Buffer.alloc(32, 5)) })
    const next = await create(quote, keyed('k'))
    t.equal(next.status, 200)
    t.not(next.data['paymentHash'], first.data['paymentHash'])
    t.equal(next.headers.get('x-idempotency-replayed'), undefined)
  }
)

t.test(
  'idempotency: another resource or price is 409 while the invoice lives, and mints fresh once it has expired (contract; decision 110)',
  async t => {
    const { f, create } = await merchantApi(t)
    const first = await create(quote, keyed('k'))
    isProblem(t, await create({ ...quote, priceSats: 11 }, keyed('k')), 409, 'idempotency-conflict')
    isProblem(t, await create({ ...quote, resource: '/v1/other' }, keyed('k')), 409, 'idempotency-conflict')
    f.clock.advance(600_000)
    const fresh = await create({ ...quote, priceSats: 11 }, keyed('k'))
    t.equal(fresh.status, 200)
    t.notOk(fresh.headers.has('x-idempotency-replayed'))
    t.not(fresh.data['paymentHash'], first.data['paymentHash'])
    const replay = await create({ ...quote, priceSats: 11 }, keyed('k'))
    t.same(replay.data, fresh.data, 'the key is bound to the new one')
  }
)

t.test('idempotency: a create that failed leaves its key free', async t => {
  const { f, create } = await merchantApi(t)
  f.payee.fault = new ProviderUnavailable()
  const failed = await Promise.all(Array.from({ length: 5 }, () => create(quote, keyed('k'))))
  t.same(
    failed.map(reply => reply.status),
    [503, 503, 503, 503, 503]
  )
  f.payee.fault = null
  const made = await create(quote, keyed('k'))
  t.equal(made.status, 200)
  t.notOk(made.headers.has('x-idempotency-replayed'))
})

void eachDatabase(t, 'concurrent creates', async (t, database) => {
  await t.test(
    '50 concurrent creates with one key, on two gateways, get the same challenge (decision 110)',
    async t => {
      const { f, merchant } = await merchantApi(t, undefined, {}, database)
      const elsewhere = await f.elsewhere()
      const replies = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          (index % 2 === 0 ? f.call : elsewhere)(merchant, 'POST', CHALLENGES, quote, keyed('same'))
        )
      )
      t.ok(replies.every(reply => reply.status === 200))
      t.equal(new Set(replies.map(reply => reply.text)).size, 1)
      t.equal(
        replies.filter(reply => reply.headers.has('x-idempotency-replayed')).length,
        49,
        'one made it, the others were given it'
      )
      const [row] = await database.sql<
        { made: number }[]
      >`select count(*)::int as made from challenges where merchant_id = ${String(merchant.id)}`
      t.equal(row?.made, 1)
      t.ok(f.payee.requests.length <= 2, 'each gateway requested at most one invoice')
    }
  )

  await t.test('concurrent repeats at the last of the monthly cap are replays, and share a failure', async t => {
    const { f, create } = await merchantApi(t, 'free', {}, database)
    for (let made = 0; made < 4; made++) t.equal((await create(quote)).status, 200)
    const twice = () => Promise.all([create(quote, keyed('last')), create(quote, keyed('last'))])
    const requests = f.payee.requests.length
    f.payee.fault = new ProviderUnavailable('away', 5)
    for (const reply of await twice()) isProblem(t, reply, 503, 'provider-unavailable')
    t.equal(f.payee.requests.length, requests + 1)
    f.payee.fault = null
    const gate = Promise.withResolvers<void>()
    f.payee.gate = gate.promise
    const both = twice()
    while (f.payee.requests.length === requests + 1) await database.sql`select 1`
    gate.resolve()
    t.same(new Set((await both).map(({ status, text }) => `${status} ${text}`)).size, 1)
    t.equal((await both)[0].status, 200)
    t.equal(f.payee.requests.length, requests + 2)
  })

  await t.test('concurrent creates with one key and two prices: one price wins, the other is 409', async t => {
    const { f, merchant } = await merchantApi(t, undefined, {}, database)
    const elsewhere = await f.elsewhere()
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        (index % 3 === 0 ? f.call : elsewhere)(
          merchant,
          'POST',
          CHALLENGES,
          { ...quote, priceSats: 10 + (index % 2) },
          keyed('same')
        )
      )
    )
    const made = replies.filter(reply => reply.status === 200)
    t.equal(new Set(made.map(reply => reply.text)).size, 1)
    t.equal(made.length, 10)
    t.equal(replies.filter(reply => reply.status === 409).length, 10)
  })

  await t.test('the monthly cap holds under concurrent creates on two gateways (decision 87)', async t => {
    const { f, merchant } = await merchantApi(t, 'free', {}, database)
    const elsewhere = await f.elsewhere()
    const replies = await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        (index % 2 === 0 ? f.call : elsewhere)(merchant, 'POST', CHALLENGES, quote)
      )
    )
    t.equal(replies.filter(reply => reply.status === 200).length, 5)
    t.equal(replies.filter(reply => reply.status === 402).length, 25)
  })

  await t.test('the endpoint cap holds under concurrent creates for new resources (decision 84)', async t => {
    const { merchant, create } = await merchantApi(t, 'free', {}, database)
    const replies = await Promise.all(
      Array.from({ length: 5 }, (_, index) => create({ resource: `/r/${index}`, priceSats: 1 }))
    )
    t.equal(replies.filter(reply => reply.status === 200).length, 3)
    t.match(replies.find(reply => reply.status === 402)?.data, { type: `${PROBLEMS}/plan-endpoint-limit` })
    t.equal(await countEndpoints(database.sql, merchant.id), 3)
  })
})

t.test('caps: the price first, as 402 problems without WWW-Authenticate (decision 102)', async t => {
  const { f, create } = await merchantApi(t, 'free')
  for (let index = 0; index < 5; index++) t.equal((await create({ ...quote, priceSats: 1000 })).status, 200)
  const dear = await create({ ...quote, priceSats: 1001 })
  isProblem(t, dear, 402, 'plan-price-limit')
  t.match(dear.data, {
    limit: 1000,
    current: 0,
    requested: 1001,
    current_plan: 'free',
    required_plan: 'individual',
    action_required: 'upgrade_plan'
  })
  const many = await create(quote)
  isProblem(t, many, 402, 'plan-monthly-limit')
  t.match(many.data, { limit: 5, current: 5, requested: 1 })
  t.equal(f.payee.requests.length, 5, 'a request over a cap costs no invoice')
})

t.test('caps: replays are not counted, and a new UTC month begins at zero (decision 87)', async t => {
  const { f, create } = await merchantApi(t, 'free')
  for (let index = 0; index < 8; index++) t.equal((await create(quote, keyed('k'))).status, 200)
  for (let index = 0; index < 4; index++) t.equal((await create(quote)).status, 200)
  t.equal((await create(quote)).status, 402)
  f.clock.advance(Date.parse('2026-12-01T00:00:00.000Z') - f.clock.now() - 1)
  t.equal((await create(quote)).status, 402)
  f.clock.advance(1)
  t.equal((await create(quote)).status, 200)
})

t.test(
  'caps: distinct resources and proxies count together; retiring one frees its place and ends it with 409 (decisions 84 and 85)',
  async t => {
    const { f, merchant, call, create } = await merchantApi(t, 'free')
    f.proxies = 1
    const of = (resource: string) => create({ resource, priceSats: 1 })
    t.equal((await of('/a')).status, 200)
    t.equal((await of('/b')).status, 200)
    t.equal((await of('/a')).status, 200, 'a known resource takes no new place')
    const third = await of('/c')
    isProblem(t, third, 402, 'plan-endpoint-limit')
    t.match(third.data, { limit: 3, current: 3, requested: 1 })
    t.equal((await call('POST', '/api/l402/endpoints/retire', { resource: '/a' })).status, 204)
    t.equal((await call('POST', '/api/l402/endpoints/retire', { resource: '/a' })).status, 204, 'again')
    t.equal(await countEndpoints(f.database.sql, merchant.id), 1)
    t.equal((await of('/c')).status, 200)
    isProblem(t, await of('/a'), 409, 'endpoint-retired')
    const list = await call('GET', '/api/l402/endpoints')
    t.equal(list.headers.get('x-total-count'), '3')
    const now = new Date(f.clock.now()).toISOString()
    t.same(list.data, {
      endpoints: [
        { resource: '/c', createdAt: now, retiredAt: null },
        { resource: '/b', createdAt: now, retiredAt: null },
        { resource: '/a', createdAt: now, retiredAt: now }
      ],
      total: 3,
      limit: 50,
      offset: 0
    })
  }
)

t.test('retire: a resource that was never sold is 404, a missing one 400', async t => {
  const { f, call } = await merchantApi(t)
  await f.call(await f.merchant(), 'POST', CHALLENGES, quote)
  isProblem(
    t,
    await call('POST', '/api/l402/endpoints/retire', { resource: quote.resource }),
    404,
    'endpoint-not-found'
  )
  isProblem(t, await call('POST', '/api/l402/endpoints/retire', {}), 400, 'invalid-request')
})

t.test(
  'caps: unpaid invoices of anonymous clients never stop a merchant, nor is its own invoice handed out again',
  async t => {
    const { create } = await merchantApi(t, undefined, { maxPerClient: 1, maxPerPlace: 2 })
    const hashes = new Set<unknown>()
    for (let index = 0; index < 6; index++) hashes.add((await create(quote)).data['paymentHash'])
    t.equal(hashes.size, 6)
  }
)

t.test(
  'create: no provider key is 400, a provider that is unavailable or refuses is 503 with Retry-After (decisions 17 and 103)',
  async t => {
    const { f, create } = await merchantApi(t)
    f.payee.fault = new ProviderKeyRequired()
    isProblem(t, await create(quote), 400, 'provider-key-required')
    f.payee.fault = new ProviderUnavailable('away', 7)
    const reply = await create(quote)
    isProblem(t, reply, 503, 'provider-unavailable')
    t.equal(reply.headers.get('retry-after'), '7')
    f.payee.fault = new ProviderRefused('key', 'no')
    isProblem(t, await create(quote), 503, 'provider-unavailable')
    f.payee.fault = 'amount'
    isProblem(t, await create(quote), 503, 'provider-unavailable')
  }
)

t.test('create: a challenge that could not be recorded is not issued (contract, Errors: 503)', async t => {
  const { f, merchant, call, create } = await merchantApi(t)
  f.watched.broken.add('insert')
  isProblem(t, await create(quote, keyed('k')), 503, 'challenge-not-recorded')
  f.watched.broken.clear()
  f.watched.deaf.add('insert')
  isProblem(t, await create(quote, keyed('k')), 503, 'challenge-not-recorded')
  t.equal((await call('GET', CHALLENGES)).data['total'], 0, 'all or nothing is written')
  t.equal(await countEndpoints(f.database.sql, merchant.id), 0)
})

t.test(
  'list: newest first, paged and clamped, with the total in the body and in X-Total-Count (contract; decisions 11 and 12)',
  async t => {
    const { f, call, create } = await merchantApi(t)
    await f.call(await f.merchant(), 'POST', CHALLENGES, quote)
    const made: Json[] = []
    for (let index = 0; index < 5; index++) {
      made.unshift((await create({ ...quote, resource: `/${index}` }, keyed(`k${index}`))).data)
      if (index < 3) f.clock.advance(1000)
    }
    const all = await call('GET', CHALLENGES)
    t.equal(all.headers.get('x-total-count'), '5')
    t.match(all.data, { total: 5, limit: 50, offset: 0, status: null, since: null })
    const rows = all.data['challenges'] as Json[]
    const tied = [made[0], made[1]]
      .map(one => text(one ?? {}, 'paymentHash'))
      .sort()
      .toReversed()
    t.same(
      rows.map(row => row['paymentHash']),
      [...tied, ...made.slice(2).map(one => one['paymentHash'])]
    )
    t.same(
      Object.keys(rows[0] ?? {}),
      ['paymentHash', 'resource', 'amountSats', 'status', 'createdAt', 'paidAt', 'expiresAt', 'idempotencyKey'],
      'neither macaroon nor preimage'
    )
    t.match(rows[4], { resource: '/0', amountSats: 10, status: 'unpaid', paidAt: null, idempotencyKey: 'k0' })
    const page = await call('GET', `${CHALLENGES}?limit=2&offset=1`)
    t.same(
      (page.data['challenges'] as Json[]).map(row => row['paymentHash']),
      rows.slice(1, 3).map(row => row['paymentHash'])
    )
    t.match(page.data, { total: 5, limit: 2, offset: 1 })
    t.match((await call('GET', `${CHALLENGES}?limit=0&offset=-4`)).data, { limit: 1, offset: 0, total: 5 })
    t.match((await call('GET', `${CHALLENGES}?limit=1000`)).data, { limit: 200 })
    const since = text(rows[2] ?? {}, 'createdAt')
    const recent = await call('GET', `${CHALLENGES}?since=${since}`)
    t.match(recent.data, { total: 3, since })
    t.equal((recent.data['challenges'] as Json[]).length, 3)
    t.equal(
      (await call('GET', `${CHALLENGES}?since=2026-11-21T02:00:00%2B02:00`)).data['since'],
      '2026-11-21T00:00:00.000Z'
    )
    t.equal((await call('GET', `${CHALLENGES}?since=2026-11-22`)).data['total'], 0)
  }
)

t.test('list: a page, a status or a time that cannot be read is 400 (decision 12)', async t => {
  const { call } = await merchantApi(t)
  for (const query of [
    'limit=x',
    'limit=1.5',
    'offset=y',
    'status=settled',
    'status=PAID',
    'since=yesterday',
    'since=1',
    'since=2026-13-01',
    'since=2026-02-31',
    'since=2026-02-29T10:00:00Z'
  ]) {
    isProblem(t, await call('GET', `${CHALLENGES}?${query}`), 400, 'invalid-request')
  }
})

t.test('list and get: unpaid, then expired with the invoice; the filter agrees (contract; decision 109)', async t => {
  const { f, call, create } = await merchantApi(t)
  const made = await create(quote)
  const hash = text(made.data, 'paymentHash')
  const stands = async (status: string) => {
    t.match((await call('GET', `${CHALLENGES}/${hash}`)).data, {
      paymentHash: hash,
      status,
      paidAt: null,
      expiresAt: made.data['expiresAt']
    })
    for (const one of ['paid', 'unpaid', 'expired'])
      t.equal(
        (await call('GET', `${CHALLENGES}?status=${one}`)).data['total'],
        one === status ? 1 : 0,
        `${one} while ${status}`
      )
  }
  await stands('unpaid')
  await f.selling.settlements.settled(hash)
  await stands('unpaid')
  f.clock.advance(599_999)
  await stands('unpaid')
  f.clock.advance(1)
  await stands('expired')
})

t.test("get: an unknown hash, another account's and what is no hash are the same 404 (contract)", async t => {
  const { f, create } = await merchantApi(t)
  const other = await f.merchant()
  const hash = text((await create(quote)).data, 'paymentHash')
  const strange = await f.call(other, 'GET', `${CHALLENGES}/${hash}`)
  isProblem(t, strange, 404, 'challenge-not-found')
  for (const id of ['0'.repeat(64), 'x', '%00', hash.toUpperCase()]) {
    const reply = await f.call(other, 'GET', `${CHALLENGES}/${id}`)
    t.equal(reply.status, 404)
    t.same(reply.data, strange.data)
  }
})

t.test("list: holds the producer's challenges only (decision 108)", async t => {
  const { f, call, create } = await merchantApi(t)
  const hash = text((await create(quote)).data, 'paymentHash')
  await f.database.sql`update challenges set source = 'proxy' where payment_hash = ${hash}`
  t.equal((await call('GET', CHALLENGES)).data['total'], 0)
  t.equal((await call('GET', `${CHALLENGES}/${hash}`)).status, 404)
})
