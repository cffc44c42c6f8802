import { once } from 'node:events'
import { createServer } from 'node:http'
import { startKind, TIMEOUT, type Opening } from '../open-kind.ts'
import type { AddressInfo } from 'node:net'
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from 'node:tls'
import t, { type Test as T } from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { openSeats } from '../../../src/lightning/providers/seats.ts'
import { lnd as lndKind } from '../../../src/lightning/kinds/lnd/lnd.ts'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { selfSigned } from '../../fakes/certificate.ts'
import { lndConnect, startFakeLnd, type FakeLnd, type FakeLndOptions, type Permission } from '../../fakes/lnd.ts'
import { openTestDatabase, temporaryFolder } from '../../support/database.ts'
import { only } from '../providers/declared.ts'

const request = { amountSats: 21, description: 'a quote about money', expirySeconds: 600 }

async function setUp(t: T, fakeOptions: FakeLndOptions = {}, options: Opening = {}) {
  const made = await startKind(t, lndKind, parts => startFakeLnd({ ...parts, ...fakeOptions }), options)
  made.fake.onHang = () => {}
  return { ...made, node: made.fake, lnd: made.provider }
}

const keyOf = (node: FakeLnd, ...permissions: Permission[]) => new Secret(node.key(permissions))

t.test('a charge is an invoice of the node', async t => {
  const { node, lnd, key } = await setUp(t)
  await lnd.createCharge(key, request)
  t.match(node.requests.at(-1), {
    method: 'POST',
    path: '/v1/invoices',
    body: { value: '21', memo: 'a quote about money', expiry: '600' }
  })
})

t.test('a node with unannounced channels alone makes invoices with route hints, so that they can be paid', async t => {
  const { clock, node, lnd, key } = await setUp(t)
  const isPrivate = async (with_: Secret<string>) => {
    await lnd.createCharge(with_, request)
    return (node.requests.at(-1)?.body as { private?: boolean } | undefined)?.private
  }
  const requests = () => node.requests.filter(({ path }) => path.startsWith('/v1/channels')).length
  node.wallet.channels = [{ isPrivate: true }, { isPrivate: false }]
  t.equal(await isPrivate(key), undefined, 'one that is announced is enough')
  node.wallet.channels = [{ isPrivate: true }]
  t.equal(await isPrivate(key), undefined)
  t.equal(requests(), 1, 'believed for ten minutes')
  clock.advance(600_000)
  t.equal(await isPrivate(key), true)
  clock.advance(600_000)
  node.wallet.channels = [{ isPrivate: false }]
  t.equal(
    await isPrivate(keyOf(node, 'invoices:read', 'invoices:write')),
    true,
    'where the macaroon may not see the channels'
  )
})

t.test('each state of an invoice is read', async t => {
  const { clock, node, lnd, key } = await setUp(t)
  const { chargeId } = await lnd.createCharge(key, request)
  node.wallet.invoice(chargeId).state = 'ACCEPTED'
  t.match(await lnd.lookUp(key, chargeId), { status: 'processing', settledAt: null })
  node.wallet.settle(chargeId, 30)
  t.same(await lnd.lookUp(key, chargeId), { status: 'paid', receivedSats: 30, settledAt: clock.now() })
  const other = await lnd.createCharge(key, request)
  clock.advance(600_000)
  t.match(await lnd.lookUp(key, other.chargeId), { status: 'expired' })
})

for (const older of [false, true]) {
  t.test(`an unknown charge is null${older ? ', as older builds say it too' : ''}`, async t => {
    const { node, lnd, key } = await setUp(t, { older })
    t.equal(await lnd.lookUp(key, 'ab'.repeat(32)), null)
    t.equal(await lnd.lookUp(key, 'sbx_1'), null, 'an id of another kind makes no call')
    t.equal(node.requests.length, 1)
    node.fail('html as 404')
    await t.rejects(
      lnd.lookUp(key, 'ab'.repeat(32)),
      ProviderUnavailable,
      'a 404 of something in front of lnd says nothing'
    )
  })

  t.test(
    `a key is tried as far as an invoice, the missing permission is named${older ? ', as older builds answer' : ''}`,
    async t => {
      const { node, lnd, key } = await setUp(t, { older })
      t.same(await lnd.validateKey(key), {
        isValid: true,
        message: 'The node accepts this key, makes invoices and pays with it.',
        network: 'regtest'
      })
      t.match(
        node.requests.map(({ method, path }) => `${method} ${path}`),
        ['GET /v1/getinfo', 'GET /v1/invoices?num_max_invoices=1&reversed=true', 'POST /v1/invoices']
      )
      t.match(node.requests[2], { body: { value: '1', expiry: '60' } })
      node.wallet.inbound = 2_100
      t.match(await lnd.validateKey(key), {
        isValid: true,
        message: /pays with it\. Its channels can receive 2100 sats at most/
      })
      t.match(
        await lnd.validateKey(keyOf(node, 'invoices:read', 'invoices:write')),
        {
          isValid: true,
          message:
            'The node accepts this key and makes invoices with it. It only receives: refunds need a macaroon with offchain:read and offchain:write. ' +
            'Refunds on chain need a macaroon with onchain:read and onchain:write.'
        },
        'the info need not be readable'
      )
      t.equal(node.wallet.payments.size + node.wallet.transactions.length, 0, 'and nothing was sent')
      t.match(await lnd.validateKey(keyOf(node, 'info:read', 'invoices:write')), {
        isValid: false,
        message:
          /lacks the .*invoices:read\. Make one with: lncli bakemacaroon invoices:read invoices:write offchain:read$/
      })
      t.match(await lnd.validateKey(keyOf(node, 'info:read', 'invoices:read')), {
        isValid: false,
        message: /lacks the .*invoices:write\./
      })
      await t.rejects(lnd.createCharge(keyOf(node, 'invoices:read'), request), {
        name: 'ProviderRefused',
        reason: 'scope',
        scope: 'invoices:write'
      })
    }
  )
}

t.test('a macaroon of another node is a bad key, and so is other text', async t => {
  const { node, lnd } = await setUp(t)
  const foreign = new Secret(lndConnect(node.url.slice('https://'.length), node.certificate, Buffer.from([2, 1, 2, 3])))
  t.match(await lnd.validateKey(foreign), {
    isValid: false,
    message:
      'The node does not accept the macaroon in the key: it is of another node, or was revoked. Take one of this node.'
  })
  await t.rejects(lnd.createCharge(foreign, request), { reason: 'key' })
  const before = node.requests.length
  t.match(await lnd.validateKey(new Secret('not a key')), { isValid: false, message: /must have the form lndconnect:/ })
  t.equal(node.requests.length, before)
})

t.test('another certificate than the pinned one is refused before anything is sent', async t => {
  const { node, lnd, key } = await setUp(t)
  const host = node.url.slice('https://'.length)
  const macaroon = Buffer.from(new URL(key.reveal()).searchParams.get('macaroon') ?? '', 'base64url')
  for (const certificate of [selfSigned({ names: ['localhost', '127.0.0.1'] }).certificate, null]) {
    await t.rejects(
      lnd.createCharge(new Secret(lndConnect(host, certificate, macaroon)), request),
      {
        name: 'ProviderRefused',
        reason: 'key',
        message:
          certificate === null
            ? 'The lnd key holds no cert, and no authority that is trusted here signed the TLS certificate of the node: add its tls.cert to the key, as cert=<base64url>.'
            : 'The node shows another TLS certificate than the one in the lnd key: put its present tls.cert into the key, as cert=<base64url>.'
      },
      certificate === null ? 'the public authorities do not know it' : 'the same names do not help'
    )
  }
  t.same(node.requests, [])
})

t.test("a key without a certificate is valid where a trusted authority signed the node's", async t => {
  const { node, lnd, key } = await setUp(t)
  const macaroon = Buffer.from(new URL(key.reveal()).searchParams.get('macaroon') ?? '', 'base64url')
  const before = getCACertificates('default')
  t.teardown(() => {
    setDefaultCACertificates(before)
  })
  setDefaultCACertificates([...before, node.certificate])
  t.match(await lnd.validateKey(new Secret(lndConnect(node.url.slice('https://'.length), null, macaroon))), {
    isValid: true
  })
})

t.test(
  'a connection failure at the port of gRPC says that the key needs the port of REST',
  { skip: process.platform === 'linux' ? false : 'only Linux answers on all of 127/8' },
  async t => {
    const address = '127.77.3.9'
    const { open, key } = await setUp(t)
    const { certificate, key: tlsKey } = selfSigned({ names: [address] })
    const macaroon = Buffer.from(new URL(key.reveal()).searchParams.get('macaroon') ?? '', 'base64url')
    const named = (port: number) => new Secret(lndConnect(`${address}:${port}`, certificate, macaroon))
    const asOperator = (ownKey: Secret<string>) => open({ ownKey }).createCharge(ownKey, request)
    const said = /cannot be reached.*names port 10009, which is gRPC's.*port of its REST API, 8080/
    await t.rejects(
      asOperator(named(10_009)),
      { name: 'NothingSent', fault: 'network', message: said },
      'connection refused'
    )
    await t.rejects(asOperator(named(10_010)), {
      name: 'NothingSent',
      message: 'The lnd node cannot be reached at the moment.'
    })

    // gRPC speaks HTTP/2 alone: it ends what begins otherwise, in older versions behind its settings.
    let settings = Buffer.alloc(0)
    const server = createTlsServer({ cert: certificate, key: tlsKey }, socket => {
      socket.end(settings)
    }).listen(10_009, address)
    t.teardown(() => {
      server.close()
    })
    await once(server, 'listening')
    await t.rejects(
      asOperator(named(10_009)),
      { name: 'ProviderUnavailable', fault: 'network', message: said },
      'as a call that may have arrived'
    )
    for (const frame of ['', '000006040000000000000500004000']) {
      settings = Buffer.from(frame, 'hex')
      t.match(
        await open().validateKey(named(10_009)),
        { isValid: false, message: /^The lnd key names port 10009/ },
        'the check of the key is sure'
      )
    }
  }
)

t.test("a pinned certificate without the host's name is enough, an expired one is not", async t => {
  const { lnd, key } = await setUp(t, { names: ['some-node'] })
  t.match(await lnd.createCharge(key, request), { chargeId: /./ })
  const old = await setUp(t, { until: Date.now() - 60_000 })
  t.match(await old.lnd.validateKey(old.key), { isValid: false, message: /has expired/ })
})

t.test('a private address for lnd only from gateway.yaml', async t => {
  const resolved: string[] = []
  const guard = new AddressGuard({
    production: true,
    resolve: async name => {
      resolved.push(name)
      return ['127.0.0.1']
    }
  })
  const { node, open, key } = await setUp(t, { names: ['localhost', '127.0.0.1', 'node.example.com'] }, { guard })
  await t.rejects(open().createCharge(key, request), {
    name: 'ProviderRefused',
    reason: 'key',
    message: 'The host in the lnd key cannot be called: The target address lies in a blocked range.'
  })
  const named = new Secret(node.key(undefined, 'node.example.com'))
  await t.rejects(open().createCharge(named, request), {
    reason: 'key',
    message: /resolves to an address in a blocked range/
  })
  t.same(resolved, ['node.example.com'], 'the name is resolved when it is called')
  t.same(node.requests, [])

  const operated = open({ ownKey: key })
  t.match(await operated.createCharge(key, request), { chargeId: /./ }, "the operator's key may name it")
  await t.rejects(
    operated.createCharge(new Secret(key.reveal()), request),
    { reason: 'key' },
    "a merchant's key of the same text may not"
  )
  t.match(
    await open({ url: node.url }).createCharge(new Secret(key.reveal()), request),
    { chargeId: /./ },
    'what the url of the slot names, every key may'
  )
  await t.rejects(
    open({ url: 'https://127.0.0.1:1' }).createCharge(key, request),
    { reason: 'key' },
    'another port is another address'
  )
})

t.test("in production the operator's key of gateway.yaml reaches a private node, a merchant's does not", async t => {
  const { clock, node } = await setUp(t)
  const slot = { kind: 'lnd', key: node.key(), timeout: TIMEOUT } as const
  const database = await openTestDatabase(t)
  const providers = openSeats({
    kinds: providerKinds,
    mode: 'production',
    lightning: { primary: [slot], alternate: [{ kind: 'lnd', timeout: TIMEOUT }] },
    dataDir: temporaryFolder(t),
    database,
    clock
  })
  t.teardown(() => providers.close())
  const [primary, alternate] = [only(providers.seats.primary), only(providers.seats.alternate)]
  t.match(await primary.provider.createCharge(primary.key, request), { chargeId: /./ })
  await t.rejects(primary.provider.createCharge(new Secret(slot.key), request), {
    name: 'ProviderRefused',
    reason: 'key'
  })
  await t.rejects(
    alternate.provider.createCharge(primary.key, request),
    { reason: 'key' },
    'nor does the key of another slot'
  )
  t.notOk(primary.provider.keyless)
  t.type(primary.provider.listSettled, 'function')
})

t.test("an operator's invalid key or url is refused at the start", async t => {
  const { open } = await setUp(t)
  t.throws(() => open({ ownKey: new Secret('nonsense') }), { name: 'AddressKeyError' })
  t.throws(() => open({ url: 'http://10.0.0.1:8080' }), { name: 'TypeError' })
})

t.test('a port of something without TLS is a fault of the key', async t => {
  const { lnd, node, key } = await setUp(t)
  const macaroon = Buffer.from(new URL(key.reveal()).searchParams.get('macaroon') ?? '', 'base64url')
  const plain = createServer().listen(0, '127.0.0.1')
  await once(plain, 'listening')
  t.teardown(() => {
    plain.close()
  })
  // A server that listens on TCP has an address object.
  const { port } = plain.address() as AddressInfo
  t.match(await lnd.validateKey(new Secret(lndConnect(`127.0.0.1:${port}`, node.certificate, macaroon))), {
    isValid: false,
    message: 'What answers at the host and port in the lnd key speaks no TLS: the port may be that of something else.'
  })
})
