import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test as T } from 'tap'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { main } from '../../src/app/main.ts'
import { providerKinds } from '../../src/lightning/kinds/kinds.ts'
import { startFakeBlink } from '../fakes/blink.ts'
import { startFakeBtcpay } from '../fakes/btcpay.ts'
import { startFakeCln } from '../fakes/cln.ts'
import { startFakeLnd } from '../fakes/lnd.ts'
import { startFakeLnbits } from '../fakes/lnbits.ts'
import { startFakeLnurl } from '../fakes/lnurl.ts'
import type { NodeWallet } from '../fakes/node-wallet.ts'
import { startFakeNwc } from '../fakes/nwc.ts'
import { startFakeOpenNode } from '../fakes/opennode.ts'
import { startFakePhoenixd } from '../fakes/phoenixd.ts'
import { startFakeStrike } from '../fakes/strike.ts'
import { temporaryFolder } from '../support/database.ts'
import { challengeOf, credentialOf, startGateway } from '../support/gateway.ts'
import { RawUpstream } from '../support/raw-upstream.ts'

/** A maker of invoices, at a service of its own where it has a `url`. */
interface Maker {
  readonly url?: string
  key(): string
  /** Pays an invoice from another wallet; the preimage. */
  pay(invoice: string): string | Promise<string>
  close(): Promise<void>
}

/** A fake over a wallet of invoices. */
interface Walleted extends Omit<Maker, 'pay'> {
  readonly wallet: Pick<NodeWallet, 'settle'> & {
    readonly invoices: ReadonlyMap<string, { readonly invoice: string; readonly paymentHash: string }>
  }
}

const over = async (started: Promise<Walleted>): Promise<Maker> => {
  const fake = await started
  return {
    ...(fake.url === undefined ? {} : { url: fake.url }),
    key: () => fake.key(),
    pay: invoice => fake.wallet.settle(decodeInvoice(invoice).paymentHash),
    close: () => fake.close()
  }
}

/** Kinds that are called at a service of its own unless the file says otherwise. */
const SERVICES = ['blink', 'strike', 'opennode']

/** What `boltgate init` writes for a kind. */
async function written(t: T, kind: string, upstream: string) {
  const file = join(temporaryFolder(t), 'gateway.yaml')
  const said: string[] = []
  const say = (line: string) => {
    said.push(line)
  }
  const answers = ['--upstream', upstream, '--path', '/v1/*', '--price', '10 sats', '--provider', kind, '-c', file]
  t.equal(await main(['init', ...answers], { print: say, complain: say }), 0, said.join('\n'))
  return readFileSync(file, 'utf8')
}

const makers: Readonly<Record<string, () => Promise<Maker>>> = {
  strike: async () => {
    const fake = await startFakeStrike({ key: 'a-key-of-strike' })
    const held = (invoice: string) => [...fake.account.requests.values()].find(one => one.invoice === invoice)?.id ?? ''
    return { url: fake.url, key: () => 'a-key-of-strike', pay: one => fake.pay(held(one)), close: () => fake.close() }
  },
  opennode: async () => {
    const fake = await startFakeOpenNode({ key: 'a-key-of-opennode' })
    return { url: fake.url, key: () => 'a-key-of-opennode', pay: one => fake.pay(one), close: () => fake.close() }
  },
  lnd: () => over(startFakeLnd()),
  phoenixd: () => over(startFakePhoenixd()),
  cln: () => over(startFakeCln()),
  lnbits: () => over(startFakeLnbits()),
  lnurl: () => over(startFakeLnurl()),
  btcpay: () => over(startFakeBtcpay()),
  nwc: () => over(startFakeNwc()),
  blink: () => over(startFakeBlink())
}

t.test('there is a way from nothing for every kind', async t => {
  const kinds = providerKinds.filter(({ isSandbox }) => !isSandbox).map(({ name }) => name)
  t.same(Object.keys(makers).toSorted(), kinds.toSorted())
})

for (const [kind, start] of Object.entries(makers)) {
  t.test(`from nothing to a paid request over ${kind}`, async t => {
    const maker = await start()
    t.teardown(() => maker.close())
    const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsold').listen()
    t.teardown(() => upstream.close())
    const text = await written(t, kind, upstream.origin)
    const yaml = SERVICES.includes(kind)
      ? text.replace(`{ kind: ${kind},`, `{ kind: ${kind}, url: "${maker.url ?? ''}",`)
      : text
    const gateway = await startGateway(t, { yaml, env: { LIGHTNING_KEY: maker.key() } })
    const first = await gateway.send('GET', '/v1/hello')
    t.equal(first.status, 402)
    const challenge = challengeOf(first, 'l402')
    const invoice = challenge.parameters.get('invoice') ?? ''
    t.equal(decodeInvoice(invoice).amountSats, 10)
    const authorization = credentialOf(challenge, await maker.pay(invoice))
    t.match(await gateway.send('GET', '/v1/hello', { headers: { authorization } }), { status: 200, text: 'sold' })
  })
}

t.test('what LNbits and phoenixd push is accepted, and unproved notifications are not', async t => {
  const lnbits = await startFakeLnbits()
  const phoenixd = await startFakePhoenixd()
  t.teardown(async () => {
    await lnbits.close()
    await phoenixd.close()
  })
  const gateway = await startGateway(t, {
    yaml: `use: [ merchant-api ]
lightning:
  primary: { kind: lnbits, key: "\${LNBITS}" }
  alternate: { kind: phoenixd, key: "\${PHOENIXD}" }
routes:
  - { match: { path: /demo/quote }, chain: paid, price: 10 sats, upstream: { internal: demo } }
`,
    env: { LNBITS: lnbits.key(), PHOENIXD: phoenixd.key('full', true) }
  })
  const invoice = challengeOf(await gateway.send('GET', '/demo/quote'), 'l402').parameters.get('invoice')
  const held = [...lnbits.wallet.invoices.values()].find(one => one.invoice === invoice)
  const called = new URL(held?.webhook ?? '')
  lnbits.wallet.settle(held?.paymentHash ?? '')
  const post = async (target: string, body: Buffer, headers: Record<string, string> = {}) =>
    (await gateway.send('POST', target, { body, headers: { 'content-type': 'application/json', ...headers } })).status
  const body = lnbits.notification(held?.paymentHash ?? '')
  t.equal(await post(`${called.pathname}${called.search}`, body), 200)
  t.equal(await post(called.pathname, body), 401)
  t.equal(await post(`${called.pathname}?token=${'x'.repeat(22)}`, body), 401)
  // Another program's invoice at the same node.
  const foreign = phoenixd.wallet.addInvoice({ amountSats: 5, description: 'coffee', expirySeconds: 600 })
  phoenixd.wallet.settle(foreign.paymentHash)
  const event = phoenixd.notification(foreign.paymentHash)
  t.equal(await post('/api/webhooks/alternate', event.body, event.headers), 200, 'about nothing that is known here')
})
