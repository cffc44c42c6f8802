/** Several providers in one slot: the first that can be asked makes the invoice, and what it made stays with it. */
import t, { type Test as T } from 'tap'
import type { Clock } from '../../src/platform/system/clock.ts'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { startFakeCln, type FakeCln } from '../fakes/cln.ts'
import { startFakePhoenixd, type FakePhoenixd } from '../fakes/phoenixd.ts'
import { openTestDatabase, temporaryFolder } from '../support/database.ts'
import { challengeOf, credentialOf, startGateway, type Answer, type TestGateway } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { newInvoice } from '../support/invoices.ts'

const ROUTES = `routes:
  - { match: { path: /demo/quote }, chain: paid, price: 10 sats, upstream: { internal: demo } }
`
const PHOENIXD = '{ kind: phoenixd, key: "${PHOENIXD}", invoicesAhead: 0 }'
const CLN = '{ kind: cln, key: "${CLN}", invoicesAhead: 0 }'

const inOrder = (...providers: readonly string[]) => `server: { listen: "127.0.0.1:\${PORT}" }
data: "\${BOLTGATE_DATA}"
lightning:
  primary: [ ${providers.join(', ')} ]
use: [ service, merchant-api ]
${ROUTES}`

interface Scene {
  readonly phoenixd: FakePhoenixd
  readonly cln: FakeCln
  readonly clock: ManualClock
  /** A gateway over the same database and data folder; the one before is closed. */
  start(yaml: string): Promise<TestGateway>
  /** Lets phoenixd answer so many requests for invoices with an error of its own. */
  breakPhoenixd(times: number): void
}

async function scene(t: T): Promise<Scene> {
  const clock = new ManualClock(Date.now())
  const [phoenixd, cln] = [await startFakePhoenixd({ clock }), await startFakeCln({ clock })]
  t.teardown(async () => {
    await Promise.all([phoenixd.close(), cln.close()])
  })
  const [database, data] = [await openTestDatabase(t, { clock }), temporaryFolder(t)]
  let before: TestGateway | null = null
  return {
    phoenixd,
    cln,
    clock,
    start: async yaml => {
      await before?.close()
      before = await startGateway(t, {
        yaml,
        clock: clock as Clock,
        database,
        data,
        env: { PHOENIXD: phoenixd.key(), CLN: cln.key() }
      })
      return before
    },
    breakPhoenixd: times => {
      for (let time = 0; time < times; time++) phoenixd.fail('server error', /createinvoice/)
    }
  }
}

type Node = FakePhoenixd | FakeCln

/** The invoice of a 402, which one of the nodes holds. */
function invoiceOf(answer: Answer) {
  return challengeOf(answer, 'l402').parameters.get('invoice') ?? ''
}

function holds(node: Node, answer: Answer) {
  return node.wallet.invoices.has(decodeInvoice(invoiceOf(answer)).paymentHash)
}

const asked = (node: Node, what: RegExp) => node.requests.filter(({ path }) => what.test(path)).length

async function makersOf(gateway: TestGateway) {
  return ((await gateway.send('GET', '/ready')).json() as { makers?: unknown }).makers
}

t.test('the second makes invoices while the first is down, and the first again once it is back', async t => {
  const { phoenixd, cln, clock, start, breakPhoenixd } = await scene(t)
  const gateway = await start(inOrder(PHOENIXD, CLN))
  const ask = () => gateway.send('GET', '/demo/quote')
  t.same(await makersOf(gateway), [
    { slot: 'primary', provider: 'phoenixd', use: 'used', reason: null, since: null },
    { slot: 'primary', provider: 'cln', use: 'standby', reason: null, since: null }
  ])
  const first = await ask()
  t.ok(holds(phoenixd, first))
  const since = new Date(clock.now()).toISOString()
  breakPhoenixd(5)
  for (let time = 1; time <= 5; time++) {
    const answer = await ask()
    t.equal(answer.status, 402, `failure ${time}`)
    t.ok(holds(cln, answer), 'clients see no difference')
  }
  const calls = asked(phoenixd, /createinvoice/)
  t.ok(holds(cln, await ask()))
  t.equal(asked(phoenixd, /createinvoice/), calls, 'the first is left alone')
  t.same(await makersOf(gateway), [
    {
      slot: 'primary',
      provider: 'phoenixd',
      use: 'passed over',
      reason: 'did not answer several calls in a row and is left alone',
      since
    },
    { slot: 'primary', provider: 'cln', use: 'used', reason: null, since: null }
  ])
  t.match(
    (await gateway.adminSend('GET', '/metrics')).text,
    /boltgate_provider_passed_over\{slot="primary",provider="phoenixd"\} 1/
  )
  // What the second made is paid and served, and so is what the first had made.
  const second = await ask()
  for (const [node, answer] of [
    [cln, second],
    [phoenixd, first]
  ] as const) {
    const preimage = node.wallet.settle(decodeInvoice(invoiceOf(answer)).paymentHash)
    const authorization = credentialOf(challengeOf(answer, 'l402'), preimage)
    t.equal((await gateway.send('GET', '/demo/quote', { headers: { authorization } })).status, 200)
  }
  clock.advance(10_000)
  t.ok(holds(phoenixd, await ask()), 'it is tried by the next request')
  t.match(await makersOf(gateway), [
    { provider: 'phoenixd', use: 'used' },
    { provider: 'cln', use: 'standby' }
  ])
})

t.test('while both are down it is 503 with the shorter wait, and nothing is lost', async t => {
  const { phoenixd, cln, start, breakPhoenixd } = await scene(t)
  const gateway = await start(inOrder(PHOENIXD, CLN))
  breakPhoenixd(5)
  for (let time = 0; time < 5; time++) cln.fail('lost before', /invoice$/)
  for (let time = 0; time < 5; time++) t.equal((await gateway.send('GET', '/demo/quote')).status, 503)
  const answer = await gateway.send('GET', '/demo/quote')
  t.equal(answer.status, 503)
  t.equal(answer.headers['www-authenticate'], undefined)
  t.equal(answer.headers['retry-after'], '1', 'a broken connection is tried sooner than a server that fails')
  t.match(await makersOf(gateway), [{ use: 'passed over' }, { use: 'passed over' }])
  t.equal(phoenixd.wallet.invoices.size + cln.wallet.invoices.size, 0)
})

t.test('a key that the first refuses does not stop the sale, and the reason is reported', async t => {
  const { phoenixd, cln, start } = await scene(t)
  const gateway = await start(
    inOrder(`{ kind: phoenixd, key: "phoenixd://${new URL(phoenixd.url).host}?password=wrong" }`, CLN)
  )
  t.ok(holds(cln, await gateway.send('GET', '/demo/quote')))
  t.match(await makersOf(gateway), [{ use: 'passed over', reason: 'refuses its key' }, { use: 'used' }])
})

t.test(
  'a payment stays with its provider, also after a restart with another order: sync, refund and notification',
  async t => {
    const { phoenixd, cln, start } = await scene(t)
    const both = () => ({ primaryApiKey: `${phoenixd.key()}\n${cln.key()}` })
    let gateway = await start(inOrder(PHOENIXD, CLN))
    t.equal((await gateway.merchantSend('PUT', '/api/merchant/primary-key', both())).status, 200)
    const validated = (await gateway.merchantSend('POST', '/api/merchant/validate-primary')).json()
    t.match(validated, { isValid: true, message: /^phoenixd: .* cln: / })
    const create = async (orderId: string) => {
      const answer = await gateway.merchantSend('POST', '/api/payments', { orderId, amount: 0.00001, currency: 'BTC' })
      t.equal(answer.status, 201)
      return answer.json() as { invoiceId: string; lightningInvoice: string }
    }
    const [one, two] = [await create('one'), await create('two')]
    const hashes = [one, two].map(({ lightningInvoice }) => decodeInvoice(lightningInvoice).paymentHash)
    t.ok(
      hashes.every(hash => phoenixd.wallet.invoices.has(hash)),
      'the first key of the account comes first'
    )
    const quote = await gateway.send('GET', '/demo/quote')

    gateway = await start(inOrder(CLN, PHOENIXD))
    for (const hash of hashes) phoenixd.wallet.settle(hash)
    const synced = await gateway.merchantSend('POST', `/api/payments/${one.invoiceId}/sync`)
    t.match(synced.json(), { status: /^paid$/ })
    const event = phoenixd.notification(hashes[1] ?? '')
    // The same receiver takes what either sends; the operator's key does not sign for the merchant.
    t.equal(
      (
        await gateway.send('POST', '/api/webhooks/primary', {
          body: event.body,
          headers: { 'content-type': 'application/json', ...event.headers }
        })
      ).status,
      401
    )
    const preimage = phoenixd.wallet.settle(decodeInvoice(invoiceOf(quote)).paymentHash)
    const authorization = credentialOf(challengeOf(quote, 'l402'), preimage)
    t.equal((await gateway.send('GET', '/demo/quote', { headers: { authorization } })).status, 200)
    t.ok(holds(cln, await gateway.send('GET', '/demo/quote')), 'new ones are made by what is first now')

    const back = newInvoice({ network: 'testnet', amountSats: 500 }).invoice
    const refund = await gateway.merchantSend('POST', '/api/refunds', {
      invoiceId: one.invoiceId,
      refundType: 'ln',
      refundAddress: back,
      amountSatoshis: 500
    })
    t.equal(refund.status, 201, refund.text)
    t.same([phoenixd.wallet.sendings, cln.wallet.sendings], [1, 0], 'it is refunded through the provider that took it')

    gateway = await start(inOrder(CLN, '{ kind: lnbits }'))
    const gone = await gateway.merchantSend('POST', '/api/refunds', {
      invoiceId: one.invoiceId,
      refundType: 'ln',
      refundAddress: back,
      amountSatoshis: 500
    })
    t.match(gone, { status: 400 })
    t.match(gone.text, /made through phoenixd, and the primary provider is cln or lnbits now/)
    const unasked = await gateway.merchantSend('POST', `/api/payments/${two.invoiceId}/sync`)
    t.match(unasked.json(), { status: /^unpaid$/ }, 'no other provider is called for it')
  }
)

t.test('an account that has a key for one of several is paid there alone', async t => {
  const { phoenixd, cln, start } = await scene(t)
  const gateway = await start(inOrder(PHOENIXD, CLN))
  const save = (primaryApiKey: string) => gateway.merchantSend('PUT', '/api/merchant/primary-key', { primaryApiKey })
  const pay = (orderId: string) =>
    gateway.merchantSend('POST', '/api/payments', { orderId, amount: 0.00001, currency: 'BTC' })
  await save(cln.key())
  t.equal((await pay('cln')).status, 201)
  t.same([phoenixd.wallet.invoices.size, cln.wallet.invoices.size], [0, 1])
  for (let time = 0; time < 5; time++) cln.fail('server error', /invoice$/)
  t.equal((await pay('away')).status, 503, "the operator's node takes only the operator's money")
  t.equal(phoenixd.wallet.invoices.size, 0)
  const refused = await save('neither of them')
  t.equal(refused.status, 400)
  t.match(refused.json(), { error: /Key 1 has the form of none that is taken here: phoenixd, cln\.$/ })
  t.equal((await pay('none')).status, 503, 'the saved key stays')
})
