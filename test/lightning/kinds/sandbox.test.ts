import { hash } from 'node:crypto'
import t, { type Test as T } from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { openSeats } from '../../../src/lightning/providers/seats.ts'
import { providerOperations } from '../../../src/lightning/providers/operations.ts'
import { SandboxProvider } from '../../../src/lightning/kinds/sandbox/sandbox.ts'
import { SandboxStore } from '../../../src/lightning/kinds/sandbox/store.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { eachDatabase, openTestDatabase, temporaryFolder } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { only } from '../providers/declared.ts'
import { newInvoice } from '../../support/invoices.ts'

const nodeKey = Buffer.alloc(32, 9)
const request = { amountSats: 21, description: 'a quote about money', expirySeconds: 600 }

function setUp(database: Database) {
  const clock = new ManualClock()
  const store = new SandboxStore(database.sql)
  return { clock, store, sandbox: new SandboxProvider({ store, nodeKey, clock }) }
}

void eachDatabase(t, 'the sandbox', async (t: T, database) => {
  const { clock, store, sandbox } = setUp(database)

  await t.test('a charge is a signed regtest invoice with the requested terms', async t => {
    clock.advance(250)
    const charge = await sandbox.createCharge(null, request)
    const invoice = decodeInvoice(charge.invoice)
    t.match(invoice, {
      network: 'regtest',
      amountSats: 21,
      description: 'a quote about money',
      expirySeconds: 600,
      paymentHash: charge.paymentHash
    })
    t.equal(charge.expiresAt, invoice.expiresAt * 1000)
    t.match(charge.chargeId, /^sbx_[0-9a-f]{8}-[0-9a-f-]{27}$/)
    t.match(charge, { network: 'regtest', onchainAddress: null, checkoutUrl: null })
    const other = await sandbox.createCharge(null, request)
    t.not(other.paymentHash, charge.paymentHash)
  })

  await t.test('settling gives the preimage of the hash, and the same one again', async t => {
    const charge = await sandbox.createCharge(new Secret('any key of 8'), request)
    t.match(await sandbox.lookUp(null, charge.chargeId), { status: 'unpaid', settledAt: null })
    const paid = await sandbox.settle(charge.invoice)
    t.equal(hash('sha256', Buffer.from(paid.preimage, 'hex'), 'hex'), charge.paymentHash)
    t.match(paid, { paymentHash: charge.paymentHash, amountSats: 21 })
    const at = clock.now()
    clock.advance(5000)
    t.same(await sandbox.settle(`lightning:${charge.invoice.toUpperCase()}`), paid)
    t.match(
      await sandbox.lookUp(null, charge.chargeId),
      { status: /^paid$/, receivedSats: 21, settledAt: at },
      'the first payment counts'
    )
    clock.advance(3_600_000)
    t.same(await sandbox.settle(charge.invoice), paid, 'also after its expiry')
  })

  await t.test('concurrent payments all learn the same preimage', async t => {
    const charge = await sandbox.createCharge(null, request)
    const paid = await Promise.all(Array.from({ length: 20 }, () => sandbox.settle(charge.invoice)))
    t.equal(new Set(paid.map(one => one.preimage)).size, 1)
  })

  await t.test('an expired invoice is 400 and stays unpaid, from its very second on', async t => {
    const charge = await sandbox.createCharge(null, request)
    clock.advance(charge.expiresAt - clock.now())
    await t.rejects(sandbox.settle(charge.invoice), { status: 400, error: 'Invoice expired' })
    t.match(await sandbox.lookUp(null, charge.chargeId), { status: 'expired' })
  })

  await t.test('an unknown invoice is 404, and invalid text 400', async t => {
    const foreign = newInvoice({ at: clock.now() }).invoice
    await t.rejects(sandbox.settle(foreign), { status: 404, error: 'Invoice not found' })
    for (const text of ['', 'lnbcrt', 'hello', foreign.slice(0, -1)])
      await t.rejects(sandbox.settle(text), { status: 400, error: 'Invalid invoice' }, text)
    t.equal(await sandbox.lookUp(null, 'sbx_unknown'), null)
  })

  await t.test(
    'sandbox keys: any 8 or more characters; sandbox-invalid and sandbox-no-create fail as named (decision 72)',
    async t => {
      t.match(await sandbox.validateKey(new Secret('12345678')), { isValid: true })
      t.match(await sandbox.validateKey(new Secret('1234567')), { isValid: false })
      t.match(await sandbox.validateKey(new Secret('sandbox-invalid')), { isValid: false })
      t.match(await sandbox.validateKey(new Secret('sandbox-no-create')), {
        isValid: false,
        message: /partner\.receive-request\.create/
      })
      await t.rejects(sandbox.createCharge(new Secret('sandbox-invalid'), request), { status: 502, reason: 'key' })
      await t.rejects(sandbox.createCharge(new Secret('sandbox-no-create'), request), {
        reason: 'scope',
        scope: 'partner.receive-request.create'
      })
    }
  )

  await t.test('purging removes what expired before a time, up to its limit', async t => {
    clock.advance(10_000_000)
    const live = await sandbox.createCharge(null, request)
    t.equal(await store.purge(clock.now(), 2), 2)
    t.ok((await store.purge(clock.now(), 1000)) > 2)
    t.equal(await store.purge(clock.now(), 1000), 0)
    t.match(await sandbox.lookUp(null, live.chargeId), { status: 'unpaid' })
  })
})

t.test('an unavailable database is 503, never an invoice without a row', async t => {
  const database = await openTestDatabase(t)
  const clock = new ManualClock()
  const store = new SandboxStore(database.sql)
  await database.close()
  const sandbox = new SandboxProvider({ store, nodeKey, clock })
  await t.rejects(sandbox.createCharge(null, request), { status: 503, headers: ['Retry-After', '5'] })
  await t.rejects(sandbox.lookUp(null, 'sbx_1'), { status: 503 })
})

t.test("the configuration's providers: both slots share one sandbox with a key in the data folder", async t => {
  const database = await openTestDatabase(t)
  const dataDir = temporaryFolder(t)
  const slot = { kind: 'sandbox', timeout: 10_000 } as const
  const options = {
    kinds: providerKinds,
    mode: 'development',
    lightning: { primary: [{ ...slot, key: 'operator-key' }], alternate: [slot] },
    dataDir,
    database,
    clock: new ManualClock()
  } as const
  const providers = openSeats(options)
  t.teardown(() => providers.close())
  const [primary, alternate] = [only(providers.seats.primary), only(providers.seats.alternate)]
  t.equal(primary.provider, alternate.provider)
  t.equal(primary.key?.reveal(), 'operator-key')
  t.equal(alternate.key, null)
  const charge = await primary.provider.createCharge(null, request)
  const again = openSeats(options)
  t.teardown(() => again.close())
  const other = await only(again.seats.primary).provider.createCharge(null, request)
  t.equal(
    decodeInvoice(charge.invoice).payee,
    decodeInvoice(other.invoice).payee,
    'the node is the same after a restart'
  )
  t.throws(() => openSeats({ ...options, mode: 'production' }), { code: 'BG_CONFIG_VALUE' })
})

t.test('POST /sandbox/pay', async t => {
  const database = await openTestDatabase(t)
  const { sandbox } = setUp(database)
  const { invoice, paymentHash } = await sandbox.createCharge(null, request)

  interface From {
    peerAddress?: string
    headers?: string[]
    principal?: { kind: string; id: string } | null
  }
  const pay = async (from: From = {}, mode: 'development' | 'production' = 'development', text = invoice) => {
    const [operation] = providerOperations({ sandbox, mode })
    // The handler reads only these three members of the context.
    const ctx = {
      peerAddress: from.peerAddress ?? '127.0.0.1',
      clientAddress: '127.0.0.1',
      headers: new HeaderList(from.headers ?? []),
      principal: from.principal ?? null
    }
    const handle = operation?.handle as unknown as (input: unknown) => Promise<{ status: number; body: unknown }>
    return (await handle({ body: { invoice: text }, params: {}, query: {}, ctx })).body
  }

  t.match(await pay(), { paymentHash, amountSats: 21, preimage: /^[0-9a-f]{64}$/ })
  await t.rejects(pay({ peerAddress: '203.0.113.9' }), { status: 403 }, 'whatever clientAddress says')
  t.match(
    await pay({ peerAddress: '203.0.113.9', principal: { kind: 'admin', id: 'admin' } }),
    { paymentHash },
    'the admin key pays from anywhere'
  )
  await t.rejects(pay({ peerAddress: '203.0.113.9', principal: { kind: 'merchant', id: '1' } }), { status: 403 })
  await t.rejects(pay({}, 'production'), { status: 403, error: 'Sandbox disabled' })
  await t.rejects(pay({ principal: { kind: 'admin', id: 'admin' } }, 'production'), { status: 403 })
})
