import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test as T } from 'tap'
import { main } from '../../src/main.ts'
import type { ProviderNotification } from '../../src/providers/provider.ts'
import { startFakeBlink } from '../fakes/blink.ts'
import { startFakeBtcpay } from '../fakes/btcpay.ts'
import { startFakeCln } from '../fakes/cln.ts'
import { startFakeLnbits } from '../fakes/lnbits.ts'
import { startFakeLnurl } from '../fakes/lnurl.ts'
import type { NodeWallet } from '../fakes/node-wallet.ts'
import { startFakeNwc } from '../fakes/nwc.ts'
import { startFakePhoenixd } from '../fakes/phoenixd.ts'
import { temporaryFolder } from '../support/database.ts'
import { challengeOf, credentialOf, startGateway } from '../support/gateway.ts'
import { RawUpstream } from '../support/raw-upstream.ts'

type Node = { readonly wallet: NodeWallet; readonly url?: string; key(): string; close(): Promise<void> }

/** What `boltgate init` writes for a kind. */
async function written(t: T, kind: string, upstream: string): Promise<string> {
  const file = join(temporaryFolder(t), 'gateway.yaml')
  const said: string[] = []
  const say = (line: string): void => {
    said.push(line)
  }
  const wishes = ['--upstream', upstream, '--path', '/v1/*', '--price', '10 sats', '--provider', kind, '-c', file]
  t.equal(await main(['init', ...wishes], { print: say, complain: say }), 0, said.join('\n'))
  return readFileSync(file, 'utf8')
}

const nodes: Readonly<Record<string, () => Promise<Node>>> = {
  phoenixd: () => startFakePhoenixd(),
  cln: () => startFakeCln(),
  lnbits: () => startFakeLnbits(),
  lnurl: () => startFakeLnurl(),
  btcpay: () => startFakeBtcpay(),
  nwc: () => startFakeNwc(),
  blink: () => startFakeBlink()
}

for (const [kind, start] of Object.entries(nodes)) {
  t.test(`from nothing to a paid request over ${kind}`, async t => {
    const node = await start()
    t.teardown(() => node.close())
    const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsold').listen()
    t.teardown(() => upstream.close())
    const gateway = await startGateway(t, {
      // A kind at a service of its own is called there unless the file says otherwise.
      yaml: (await written(t, kind, upstream.origin)).replace(
        '{ kind: blink,',
        `{ kind: blink, url: "${node.url ?? ''}",`
      ),
      env: { LIGHTNING_KEY: node.key() }
    })
    const first = await gateway.send('GET', '/v1/hello')
    t.equal(first.status, 402)
    const challenge = challengeOf(first, 'l402')
    const invoice = challenge.parameters.get('invoice') ?? ''
    const held = [...node.wallet.invoices.values()].find(one => one.invoice === invoice)
    t.equal(held?.amountSats, 10)
    const authorization = credentialOf(challenge, node.wallet.settle(held?.paymentHash ?? ''))
    t.match(await gateway.send('GET', '/v1/hello', { headers: { authorization } }), { status: 200, text: 'sold' })
  })
}

t.test('what LNbits and phoenixd push is taken in, and what nobody proved is not', async t => {
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
  const unknown: ProviderNotification['chargeId'] = 'ab'.repeat(32)
  const event = phoenixd.notification(unknown)
  t.equal(await post('/api/webhooks/alternate', event.body, event.headers), 200, 'about nothing that is known here')
})
