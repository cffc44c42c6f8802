import { createInterface } from 'node:readline'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { startFakeBlink } from './blink.ts'
import { startFakeBtcpay } from './btcpay.ts'
import { startFakeCln } from './cln.ts'
import { startFakeLnbits } from './lnbits.ts'
import { startFakeLnd, type FakeLnd } from './lnd.ts'
import { startFakeLnurl } from './lnurl.ts'
import { startFakeNwc } from './nwc.ts'
import type { NodeWallet } from './node-wallet.ts'
import { startFakeOpenNode, type FakeOpenNode } from './opennode.ts'
import { startFakePhoenixd } from './phoenixd.ts'
import { startFakePrices } from './prices.ts'
import { startReceiver } from './receiver.ts'
import { startFakeStrike, type FakeStrike } from './strike.ts'

// Started by hand: `npm run fakes`, or `npm run fakes -- 9500` for other ports than 9400 and those that follow; 0 takes
// free ones.

const FIRST_PORT = 9400
const STRIKE_KEY = 'strike-test-key'
const OPENNODE_KEY = 'opennode-test-key'

const first = Number(process.argv[2] ?? FIRST_PORT)
if (!Number.isInteger(first) || first < 0 || first > 65_000)
  throw new Error('The first port must be a number from 0 to 65000.')
const port = (index: number): number => (first === 0 ? 0 : first + index)
const say = (text: string): void => {
  process.stdout.write(`${text}\n`)
}

const strike = await startFakeStrike({ key: STRIKE_KEY, port: port(0) })
const opennode = await startFakeOpenNode({ key: OPENNODE_KEY, port: port(1) })
const lnd = await startFakeLnd({ port: port(2) })
const prices = await startFakePrices({ port: port(3) })
const phoenixd = await startFakePhoenixd({ port: port(5) })
const cln = await startFakeCln({ port: port(6) })
const lnbits = await startFakeLnbits({ port: port(7) })
const lnurl = await startFakeLnurl({ port: port(8) })
const btcpay = await startFakeBtcpay({ port: port(9) })
const nwc = await startFakeNwc({ port: port(10) })
const blink = await startFakeBlink({ port: port(11) })
const wallets = {
  phoenixd: phoenixd.wallet,
  cln: cln.wallet,
  lnbits: lnbits.wallet,
  lnurl: lnurl.wallet,
  btcpay: btcpay.wallet,
  nwc: nwc.wallet,
  blink: blink.wallet
}
const receiver = await startReceiver({
  answer: ({ method, path, text }) => {
    say(`webhook: ${method} ${path} ${text}`)
    return { status: 200 }
  }
})
// It keeps what is to be sent until a test sends it; the real one sends automatically.
const deliveries = setInterval(() => {
  strike.deliver().catch((error: unknown) => {
    say(`strike could not deliver: ${String(error)}`)
  })
}, 1000)

say(`strike    ${strike.url}   key ${STRIKE_KEY}
opennode  ${opennode.url}   key ${OPENNODE_KEY}
lnd       ${lnd.url}   key ${lnd.key()}
phoenixd  ${phoenixd.url}   key ${phoenixd.key('full', true)}
cln       ${cln.url}   key ${cln.key()}
lnbits    ${lnbits.url}   key ${lnbits.key()}
lnurl     ${lnurl.url}   key ${lnurl.key()}
btcpay    ${btcpay.url}   key ${btcpay.key()}
nwc       ${nwc.relay.url}   key ${nwc.key()}
blink     ${blink.url}   key ${blink.key()}   with its address as url
prices    ${prices.url}
receiver  ${receiver.url}   prints the webhooks that a merchant gets

For gateway.yaml, with strike or lnd in the first place (sandbox in one of the two is fine as well):

lightning:
  primary:
    kind: strike
    url: ${strike.url}
    key: ${STRIKE_KEY}
  alternate:
    kind: opennode
    url: ${opennode.url}
    key: ${OPENNODE_KEY}

# or, for a node of your own, here lnd; phoenixd, cln, lnbits, lnurl, btcpay and nwc likewise:
#   primary:
#     kind: lnd
#     url: ${lnd.url}
#     key: "${lnd.key()}"

Type "pay" and an invoice to pay it. Ctrl-C ends everything.`)

const input = createInterface({ input: process.stdin })
input.on('line', line => {
  const [command = '', invoice = ''] = line.trim().split(/\s+/)
  if (command === '') return
  if (command !== 'pay') return say(`There is no ${command}. Type "pay" and an invoice.`)
  pay(invoice, { strike, opennode, lnd, wallets }).then(say, (error: unknown) => {
    say(`It could not be paid: ${error instanceof Error ? error.message : String(error)}`)
  })
})

process.once('SIGINT', () => {
  void end()
})
process.once('SIGTERM', () => {
  void end()
})

async function end(): Promise<void> {
  clearInterval(deliveries)
  input.close()
  await Promise.all(
    [strike, opennode, lnd, prices, phoenixd, cln, lnbits, lnurl, btcpay, nwc, blink, receiver].map(fake =>
      fake.close()
    )
  )
  process.stdin.destroy()
}

/** Pays an invoice that one of them made, and says so. */
async function pay(
  invoice: string,
  fakes: {
    readonly strike: FakeStrike
    readonly opennode: FakeOpenNode
    readonly lnd: FakeLnd
    readonly wallets: Readonly<Record<string, NodeWallet>>
  }
): Promise<string> {
  const { paymentHash } = decodeInvoice(invoice, { zeroAmount: true })
  const request = [...fakes.strike.account.requests.values()].find(held => held.invoice === invoice)
  if (request !== undefined) return `paid at strike; preimage ${fakes.strike.pay(request.id)}`
  if ([...fakes.opennode.account.charges.values()].some(held => held.payreq === invoice))
    return `paid at opennode; preimage ${await fakes.opennode.pay(invoice)}`
  if (fakes.lnd.wallet.invoices.has(paymentHash)) return `paid at lnd; preimage ${fakes.lnd.wallet.settle(paymentHash)}`
  for (const [name, wallet] of Object.entries(fakes.wallets))
    if (wallet.invoices.has(paymentHash)) return `paid at ${name}; preimage ${wallet.settle(paymentHash)}`
  return 'None of them made this invoice.'
}
