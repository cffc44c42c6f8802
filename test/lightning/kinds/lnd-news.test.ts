import { startKind } from '../open-kind.ts'
import t, { type Test as T } from 'tap'
import { lnd as lndKind } from '../../../src/lightning/kinds/lnd/lnd.ts'
import { startFakeLnd } from '../../fakes/lnd.ts'
import { QuietClock } from '../../support/quiet-clock.ts'

const request = { amountSats: 21, description: 'a quote about money', expirySeconds: 600 }

async function setUp(t: T) {
  const clock = new QuietClock(250)
  const { fake: node, provider: lnd, key } = await startKind(t, lndKind, startFakeLnd, { clock })
  node.onHang = () => {}
  let position: string | null = null
  const oldest = clock.now()
  return {
    clock,
    node,
    lnd,
    key,
    place: () => position,
    /** One call, from where the last one left off. */
    async ask(since = oldest) {
      const list = await lnd.listSettled(key, { since, oldest, position })
      position = list.position
      return list
    },
    /** Calls until everything is read; answers the ids of what was settled, and how many calls it took. */
    async all() {
      const found = new Set<string>()
      for (let calls = 1; ; calls++) {
        const list = await this.ask()
        for (const { chargeId } of list.charges) found.add(chargeId)
        if (list.reach === 'whole') return { found: [...found], calls, last: list }
        if (calls > 100) throw new Error('it does not end')
      }
    },
    others(count: number) {
      for (let at = 0; at < count; at++) node.wallet.addInvoice(1, '', 600)
    }
  }
}

t.test('a payment behind 1,200 other invoices is found', async t => {
  await t.test('by an account on its first listing', async t => {
    const made = await setUp(t)
    const { lnd, key, node, clock } = made
    const { chargeId } = await lnd.createCharge(key, request)
    node.wallet.settle(chargeId)
    clock.advance(1000)
    made.others(1200)
    const { found, last } = await made.all()
    t.same(found, [chargeId])
    t.equal(last.asOf <= clock.now(), true)
  })

  await t.test('each once, also of those pages that are read twice', async t => {
    const { lnd, key, node, ask } = await setUp(t)
    const expected: string[] = []
    for (let at = 0; at < 3; at++) {
      const { chargeId } = await lnd.createCharge(key, request)
      node.wallet.settle(chargeId)
      expected.push(chargeId)
    }
    t.same((await ask()).charges.map(({ chargeId }) => chargeId).toSorted(), expected.toSorted())
  })

  await t.test('by a later listing, in one call and two requests, since lnd counts what is settled', async t => {
    const made = await setUp(t)
    const { lnd, key, node, clock } = made
    for (let at = 0; at < 3; at++) node.wallet.settle((await lnd.createCharge(key, request)).chargeId)
    await made.all()
    const { chargeId } = await lnd.createCharge(key, request)
    clock.advance(1000)
    node.wallet.settle(chargeId)
    made.others(1200)
    node.requests.length = 0
    const list = await made.ask(clock.now())
    t.same(list.charges, [{ chargeId, state: { status: 'paid', receivedSats: 21, settledAt: clock.now() } }])
    t.match(list, { reach: /^whole$/, asOf: clock.now() })
    t.same(
      node.requests.map(({ path }) => path),
      ['/v1/invoices/subscribe?settle_index=2']
    )
    node.requests.length = 0
    t.same((await made.ask()).charges, [], 'once')
    t.same(
      node.requests.map(({ path }) => path),
      ['/v1/invoices/subscribe?settle_index=3']
    )
  })
})

t.test('nothing counts as read that was not: a long stream is read in parts', async t => {
  const made = await setUp(t)
  const { lnd, key, node } = made
  for (let at = 0; at < 2; at++) node.wallet.settle((await lnd.createCharge(key, request)).chargeId)
  await made.all()
  const expected = new Set<string>()
  for (let at = 0; at < 900; at++) {
    const held = node.wallet.addInvoice(1, 'x'.repeat(400), 600)
    node.wallet.settle(held.paymentHash)
    expected.add(held.paymentHash)
  }
  const first = await made.ask()
  t.equal(first.reach, 'more')
  const { found } = await made.all()
  t.same(new Set([...first.charges.map(({ chargeId }) => chargeId), ...found]), expected)
})

t.test('the first invoice that a node ever settles is found, which is in no stream', async t => {
  const made = await setUp(t)
  const { lnd, key, node } = made
  const [one, two] = [await lnd.createCharge(key, request), await lnd.createCharge(key, request)]
  t.same((await made.all()).found, [])
  node.wallet.settle(one.chargeId)
  made.others(300)
  t.same((await made.all()).found, [one.chargeId])
  node.wallet.settle(two.chargeId)
  t.ok((await made.all()).found.includes(two.chargeId))
})

t.test('a node that restarts its count, as one that was rebuilt, is read from the start', async t => {
  const made = await setUp(t)
  const { lnd, key, node, clock } = made
  for (let at = 0; at < 5; at++) node.wallet.settle((await lnd.createCharge(key, request)).chargeId)
  await made.all()
  node.wallet.invoices.clear()
  node.wallet.settled = 0
  const { chargeId } = await lnd.createCharge(key, request)
  node.wallet.settle(chargeId)
  node.onHang = () => {
    node.onHang = () => {}
    clock.advance(3_000)
  }
  t.ok((await made.all()).found.includes(chargeId))
  const later: string[] = []
  for (let at = 0; at < 3; at++) {
    later.push((await lnd.createCharge(key, request)).chargeId)
    node.wallet.settle(later.at(-1) ?? '')
    t.ok((await made.all()).found.includes(later.at(-1) ?? ''))
  }
  t.match(node.requests.at(-1), { path: '/v1/invoices/subscribe?settle_index=2' }, 'and soon by its stream again')
})

t.test(
  'where a proxy in front of the node buffers streams, its invoices are listed, and a stream is retried after an hour',
  async t => {
    const made = await setUp(t)
    const { lnd, key, node, clock } = made
    for (let at = 0; at < 3; at++) node.wallet.settle((await lnd.createCharge(key, request)).chargeId)
    await made.all()
    const { chargeId } = await lnd.createCharge(key, request)
    node.wallet.settle(chargeId)
    node.onHang = () => {
      clock.advance(3_000)
    }
    for (let at = 0; at < 2; at++) node.fail('hang', /subscribe/)
    t.ok((await made.all()).found.includes(chargeId))
    await made.all()
    node.onHang = () => {}
    node.requests.length = 0
    await made.all()
    t.notOk(node.requests.some(({ path }) => path.includes('subscribe')))
    clock.advance(3_600_000)
    await made.all()
    await made.all()
    t.ok(node.requests.some(({ path }) => path.includes('subscribe')))
  }
)

t.test('a page above the size limit of a response is requested in smaller ones', async t => {
  const made = await setUp(t)
  const { lnd, key, node } = made
  const { chargeId } = await lnd.createCharge(key, request)
  node.wallet.settle(chargeId)
  for (let at = 0; at < 150; at++) Object.assign(node.wallet.addInvoice(1, '', 600), { memo: 'x'.repeat(20_000) })
  t.same((await made.all()).found, [chargeId])
  t.ok(node.requests.some(({ path }) => path.includes('num_max_invoices=40')))
})

t.test('an error of the node instead of its stream is an error', async t => {
  const made = await setUp(t)
  const { lnd, key, node } = made
  for (let at = 0; at < 3; at++) node.wallet.settle((await lnd.createCharge(key, request)).chargeId)
  await made.all()
  node.fail('locked', /subscribe/)
  await t.rejects(made.ask(), { message: 'The lnd node is locked or still starting.' })
  t.equal((await made.ask()).reach, 'whole', 'and it continues afterwards')
})
