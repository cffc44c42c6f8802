/** Alby's own wallet service behind a relay that is not ours either: over a node without Lightning, and over real lnd. */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t, { type Test as T } from 'tap'
import { randomBytes } from 'node:crypto'
import { openKind } from '../../lightning/open-kind.ts'
import { programsFor } from '../../../src/web/console/merchant/apis.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { publicKeyOf } from '../../../src/lightning/kinds/nwc/event.ts'
import { sharedX, conversationKey, decrypt, encrypt } from '../../../src/lightning/kinds/nwc/conversation.ts'
import { nwc } from '../../../src/lightning/kinds/nwc/nwc.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { startFakeNwc } from '../../fakes/nwc.ts'
import { refundOf } from '../../lightning/providers/contract/subject.ts'
import { openShop } from '../../security/shop.ts'
import { challengeOf, credentialOf, defaultYaml, startGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { findPrograms, openChannel, startChain, startNode, type Node } from '../lnd/nodes.ts'

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const skip = existsSync(here('node_modules/@getalby/sdk'))
  ? false
  : 'the wallet service is not installed: run test/interop/nwc/install.sh'
const python = here('../keepers/python/bin/python')
const noPython = existsSync(python) ? false : 'l402-requests is not installed: run test/interop/keepers/install.sh'

/** What a wallet answers to a method: the service puts it into its message. */
type Answer = { readonly result: object } | { readonly error: { readonly code: string; readonly message: string } }
type Act = (method: string, parameters: Readonly<Record<string, unknown>>) => Promise<Answer>

interface Service {
  /** A connection's address, as a wallet shows it. */
  key(): Promise<string>
  /** Notifies a connection of a payment. */
  notify(key: string, transaction: object): void
  /** How many sockets the relay has seen so far, the service's own among them. */
  sockets(): Promise<number>
}

/** Starts the service and its relay in a process of their own. */
async function startService(t: T, act: Act): Promise<Service> {
  const child = fork(here('wallet-service.mjs'), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  t.teardown(() => child.kill('SIGKILL'))
  // The process is ours: these are its messages.
  type Message = Readonly<Partial<Record<'relay' | 'pubkey' | 'connected' | 'failed' | 'method', string>>> & {
    readonly id?: number
    readonly connections?: number
    readonly params?: Readonly<Record<string, unknown>>
  }
  const heard: Message[] = []
  child.on('message', (message: Message) => {
    if (message.id === undefined) return void heard.push(message)
    act(message.method ?? '', message.params ?? {}).then(
      answer => child.send({ answer: message.id, ...answer }),
      (error: unknown) => child.send({ answer: message.id, error: { code: 'INTERNAL', message: String(error) } })
    )
  })
  const next = async (wanted: (message: Message) => boolean) => {
    for (;;) {
      const found = heard.find(wanted)
      if (found !== undefined) return found
      await once(child, 'message')
    }
  }
  const { relay = '', pubkey = '' } = await next(message => message.relay !== undefined)
  const connect = async (client: string) => {
    child.send({ connect: client })
    return (await next(message => message.connected === client)).connections ?? 0
  }
  return {
    key: async () => {
      const secret = randomBytes(32).toString('hex')
      await connect(publicKeyOf(secret))
      return `nostr+walletconnect://${pubkey}?relay=${encodeURIComponent(relay)}&secret=${secret}`
    },
    notify: (key, notification) => {
      const client = publicKeyOf(new URL(key).searchParams.get('secret') ?? '')
      child.send({ notify: client, content: JSON.stringify({ notification_type: 'payment_received', notification }) })
    },
    sockets: async () => await connect(publicKeyOf(randomBytes(32).toString('hex')))
  }
}

function openProvider(t: T) {
  return openKind(t, nwc, { timeout: 30_000, clock: systemClock })
}

/** A shop, and a program behind a wallet that the sandbox pays for. */
async function bought(t: T, start: (url: string, key: string) => ChildProcess) {
  const shop = await openShop(t)
  let paid = 0
  const service = await startService(t, async (method, { invoice }) => {
    if (method !== 'pay_invoice') return { error: { code: 'NOT_IMPLEMENTED', message: method } }
    paid++
    return { result: { preimage: await shop.gateway.pay(String(invoice)), fees_paid: 0 } }
  })
  const { path } = await shop.proxy()
  const child = start(`${shop.gateway.url}${path}/a`, await service.key())
  t.teardown(() => child.kill('SIGKILL'))
  const said = (await child.stdout?.setEncoding('utf8').toArray()) ?? []
  return { said: said.join(''), paid }
}

t.test("the TypeScript lines of an API's page pay for it and print what it says", { skip }, async t => {
  // Beside the libraries that it asks for.
  const file = here('buyer.ts')
  t.teardown(() => rmSync(file))
  const outcome = await bought(t, (url, key) => {
    writeFileSync(file, programsFor(url).typescript)
    return spawn(process.execPath, [file], { env: { NWC_URL: key }, stdio: ['ignore', 'pipe', 'inherit'] })
  })
  t.same(outcome, { said: 'sold\n', paid: 1 })
})

t.test('so do the Python lines', { skip: skip === false ? noPython : skip }, async t => {
  const outcome = await bought(t, (url, key) =>
    spawn(python, ['-c', programsFor(url).python], {
      env: { NWC_CONNECTION_STRING: key },
      stdio: ['ignore', 'pipe', 'inherit']
    })
  )
  t.same(outcome, { said: 'sold\n', paid: 1 })
})

t.test('a wallet service and a relay that others wrote', { skip }, async t => {
  const fake = await startFakeNwc()
  t.teardown(() => fake.close())
  const service = await startService(t, async (method, parameters) => fake.answer(method, parameters))
  const notified: string[] = []
  const provider = openProvider(t)
  const text = await service.key()
  const key = new Secret(text)

  await t.test('the key check, an invoice, its payment, the list and a refund', async t => {
    t.match(await provider.validateKey(key), { isValid: true, message: /makes invoices and pays with it/ })
    const since = Date.now() - 60_000
    const charge = await provider.createCharge(key, { amountSats: 21, description: 'Tea ⚡', expirySeconds: 600 })
    t.match(await provider.lookUp(key, charge.chargeId), { status: 'unpaid' })
    t.equal(await provider.lookUp(key, 'ab'.repeat(32)), null)
    fake.wallet.settle(charge.chargeId)
    t.match(await provider.lookUp(key, charge.chargeId), { status: /^paid$/, receivedSats: 21 })
    t.match(await provider.listSettled(key, { since, oldest: since, position: null }), {
      charges: [{ chargeId: charge.chargeId }],
      reach: 'whole'
    })
    const refund = refundOf(new ManualClock(Date.now()), 40)
    t.match(await provider.createPayout(key, refund), { status: 'confirmed', feeSats: 2 })
    t.match(await provider.createPayout(key, refund), { status: 'confirmed' })
    t.equal(fake.wallet.sendings, 1)
    const listened = await provider.createCharge(key, { amountSats: 22, description: 'Tea', expirySeconds: 600 })
    const following = provider.follow(key, new AbortController().signal, ({ chargeId }) => notified.push(chargeId))
    following.catch(() => {})
    await provider.lookUp(key, listened.chargeId)
    fake.wallet.settle(listened.chargeId)
    const paid = fake.answer('lookup_invoice', { payment_hash: listened.chargeId })
    service.notify(text, 'result' in paid ? paid.result : {})
    while (notified.length === 0) await provider.lookUp(key, 'ab'.repeat(32))
    t.same(notified, [listened.chargeId])
  })

  await t.test('connections of many merchants share one socket', async t => {
    const before = await service.sockets()
    const keys = await Promise.all(Array.from({ length: 50 }, async () => new Secret(await service.key())))
    const made = await Promise.all(
      keys.map(one => provider.createCharge(one, { amountSats: 3, description: 'x', expirySeconds: 600 }))
    )
    t.equal(new Set(made.map(({ chargeId }) => chargeId)).size, 50)
    t.equal(await service.sockets(), before)
  })

  await t.test('a key that the service does not know is reported as perhaps deleted', async t => {
    const quick = openKind(t, nwc, { timeout: 2_000, clock: systemClock })
    const unknown = new Secret(text.replace(/secret=.*/, `secret=${'ab'.repeat(32)}`))
    t.match(await quick.validateKey(unknown), { isValid: false, message: /known to its relay.*deleted in it/ })
  })

  await t.test('the encryption is that of its library, both ways', async t => {
    // The package has no types here; it is what nostr-tools publishes as nip44.
    const { nip44, getPublicKey } = (await import(here('node_modules/nostr-tools/lib/esm/index.js'))) as {
      readonly nip44: {
        getConversationKey(secret: Uint8Array, publicKey: string): Uint8Array
        encrypt(text: string, key: Uint8Array, nonce: Uint8Array): string
        decrypt(message: string, key: Uint8Array): string
      }
      getPublicKey(secret: Uint8Array): string
    }
    for (let count = 0; count < 200; count++) {
      const [ours, theirs, nonce] = [randomBytes(32), randomBytes(32), randomBytes(32)]
      const key = conversationKey(sharedX(ours, Buffer.from(getPublicKey(theirs), 'hex')))
      const same = nip44.getConversationKey(theirs, getPublicKey(ours))
      const content = 'é'.repeat(1 + (randomBytes(2).readUInt16BE() % 3_000))
      const message = encrypt(content, key, nonce)
      const isSame =
        key.equals(same) &&
        message === nip44.encrypt(content, same, nonce) &&
        nip44.decrypt(message, same) === content &&
        decrypt(message, key) === content
      if (!isSame) t.fail(`case ${count} differs`)
    }
    t.pass('200 cases')
  })
})

const programs = findPrograms()

t.test('the same over real lnd', { skip: programs === null ? 'lnd is not at hand' : skip }, async t => {
  if (programs === null) return
  const chain = await startChain(t, programs.btcd)
  const [seller, payer] = await Promise.all([startNode(t, programs.lnd, chain), startNode(t, programs.lnd, chain)])
  await openChannel(chain, payer, seller)
  const service = await startService(t, overLnd(seller))
  const text = await service.key()
  const key = new Secret(text)
  const provider = openProvider(t)

  await t.test('a 402 holds an invoice of the node behind it, and its preimage opens the route', async t => {
    const gateway = await startGateway(t, {
      yaml: defaultYaml({ replace: [['primary:   { kind: sandbox }', 'primary: { kind: nwc, key: "${KEY}" }']] }),
      env: { KEY: text }
    })
    for (const scheme of ['l402', 'payment'] as const) {
      const response = await gateway.send('GET', '/demo/quote')
      const invoice = challengeOf(response, 'l402').parameters.get('invoice') ?? ''
      const authorization = credentialOf(challengeOf(response, scheme), await payer.pay(invoice))
      t.equal((await gateway.send('GET', '/demo/quote', { headers: { authorization } })).status, 200, scheme)
    }
  })

  await t.test('a payment is found, and a refund arrives at the payer once', async t => {
    const charge = await provider.createCharge(key, { amountSats: 5_000, description: 'Tea', expirySeconds: 600 })
    await payer.pay(charge.invoice)
    t.match(await provider.lookUp(key, charge.chargeId), { status: /^paid$/, receivedSats: 5_000 })
    const { payment_request: invoice } = await payer.api('POST', '/v1/invoices', { value: '1000', memo: 'refund' })
    const refund = {
      ...refundOf(new ManualClock(Date.now()), 1_000),
      destination: { type: 'ln', invoice: String(invoice) }
    } as const
    t.match(await provider.createPayout(key, refund), { status: 'confirmed' })
    t.match(await provider.createPayout(key, refund), { status: 'confirmed' }, 'retried')
    const { payments } = await seller.api('GET', '/v1/payments?include_incomplete=true')
    t.equal(Array.isArray(payments) ? payments.length : 0, 1)
  })
})

/** A wallet whose node is lnd, over REST: as little as the methods need. */
function overLnd(node: Node): Act {
  const hex = (base64: unknown): string => Buffer.from(String(base64), 'base64').toString('hex')
  return async (method, parameters) => {
    const paymentHash = String(parameters['payment_hash'])
    if (method === 'get_info') return { result: { methods: ['make_invoice', 'lookup_invoice', 'pay_invoice'] } }
    if (method === 'make_invoice') {
      const made = await node.api('POST', '/v1/invoices', {
        value_msat: String(parameters['amount']),
        memo: parameters['description'],
        expiry: String(parameters['expiry'])
      })
      const invoice = made['payment_request']
      return { result: { type: 'incoming', invoice, payment_hash: hex(made['r_hash']) } }
    }
    if (method === 'lookup_invoice') {
      const { payments } = await node.api('GET', '/v1/payments?include_incomplete=true')
      // lnd's own answer.
      const listed = (payments ?? []) as ReadonlyArray<Readonly<Record<string, unknown>>>
      const sent = listed.find(payment => payment['payment_hash'] === paymentHash)
      if (sent !== undefined) {
        const state = sent['status'] === 'SUCCEEDED' ? 'settled' : sent['status'] === 'FAILED' ? 'failed' : 'pending'
        return { result: { type: 'outgoing', state, payment_hash: paymentHash, fees_paid: Number(sent['fee_msat']) } }
      }
      const held = await node.api('GET', `/v1/invoice/${paymentHash}`).catch(() => null)
      if (held === null) return { error: { code: 'NOT_FOUND', message: 'no such transaction' } }
      const state = held['state'] === 'SETTLED' ? 'settled' : held['state'] === 'CANCELED' ? 'expired' : 'pending'
      const amount = Number(held['value_msat'])
      return {
        result: { type: 'incoming', state, payment_hash: paymentHash, amount, settled_at: Number(held['settle_date']) }
      }
    }
    if (method === 'pay_invoice') {
      const preimage = await node.pay(String(parameters['invoice']))
      return { result: { preimage, fees_paid: 0 } }
    }
    return { error: { code: 'NOT_IMPLEMENTED', message: method } }
  }
}
