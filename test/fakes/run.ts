import { createInterface } from 'node:readline'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { startFakeBlink } from './blink.ts'
import { startFakeBtcpay } from './btcpay.ts'
import { startFakeCln } from './cln.ts'
import { startFakeLnbits } from './lnbits.ts'
import { startFakeLnd } from './lnd.ts'
import { startFakeLnurl } from './lnurl.ts'
import { startFakeNwc } from './nwc.ts'
import { startFakeOpenNode } from './opennode.ts'
import { startFakePhoenixd } from './phoenixd.ts'
import { pricesYaml, startFakePrices } from './prices.ts'
import { startReceiver } from './receiver.ts'
import { startFakeStrike } from './strike.ts'

// Started by hand: `npm run fakes`, or `npm run fakes -- 9500` for other ports than 9400 and those that follow; 0 takes
// free ones.

const FIRST_PORT = 9400

const first = Number(process.argv[2] ?? FIRST_PORT)
if (!Number.isInteger(first) || first < 0 || first > 65_000)
  throw new Error('The first port must be a number from 0 to 65000.')
let count = 0
const place = () => ({ port: first === 0 ? 0 : first + count++ })
const say = (text: string): void => {
  process.stdout.write(`${text}\n`)
}

const strike = await startFakeStrike(place())
const opennode = await startFakeOpenNode(place())
const lnd = await startFakeLnd(place())
const nwc = await startFakeNwc(place())
const nodes = {
  lnd,
  phoenixd: await startFakePhoenixd(place()),
  cln: await startFakeCln(place()),
  lnbits: await startFakeLnbits(place()),
  lnurl: await startFakeLnurl(place()),
  btcpay: await startFakeBtcpay(place()),
  blink: await startFakeBlink(place())
}
const prices = await startFakePrices(place())
const wallets = Object.entries({ ...nodes, nwc }).map(([name, { wallet }]) => ({ name, wallet }))
const receiver = await startReceiver({
  answer: ({ method, path, text }) => {
    say(`webhook: ${method} ${path} ${text}`)
    return { status: 200 }
  }
})
// It keeps what is to be sent until a test sends it; the real one sends automatically.
setInterval(() => {
  strike.deliver().catch((error: unknown) => {
    say(`strike could not deliver: ${String(error)}`)
  })
}, 1000)

for (const [name, fake] of Object.entries({ strike, opennode, ...nodes }))
  say(`${name.padEnd(10)}${fake.url}   key ${fake.key()}`)
say(`nwc       ${nwc.relay.url}   key ${nwc.key()}
prices    ${prices.url}
receiver  ${receiver.url}   prints the webhooks that a merchant gets

For gateway.yaml (strike, opennode and blink take their address as url, the others a key alone):

lightning:
  primary:
    kind: strike
    url: ${strike.url}
    key: ${strike.key()}
  alternate:
    kind: lnd
    key: "${lnd.key()}"
${pricesYaml(prices)}

Type "pay" and an invoice to pay it. Ctrl-C ends everything.`)

const input = createInterface({ input: process.stdin })
input.on('line', line => {
  const [command = '', invoice = ''] = line.trim().split(/\s+/)
  if (command === '') return
  if (command !== 'pay') return say(`There is no ${command}. Type "pay" and an invoice.`)
  pay(invoice).then(say, (error: unknown) => {
    say(`It could not be paid: ${error instanceof Error ? error.message : String(error)}`)
  })
})

process.once('SIGINT', () => {
  process.exit(0)
})

/** Pays an invoice that one of them made, and says so. */
async function pay(invoice: string): Promise<string> {
  const { paymentHash } = decodeInvoice(invoice, { zeroAmount: true })
  const request = [...strike.account.requests.values()].find(held => held.invoice === invoice)
  if (request !== undefined) return `paid at strike; preimage ${strike.pay(request.id)}`
  if ([...opennode.account.charges.values()].some(held => held.payreq === invoice))
    return `paid at opennode; preimage ${await opennode.pay(invoice)}`
  const found = wallets.find(({ wallet }) => wallet.invoices.has(paymentHash))
  return found === undefined
    ? 'None of them made this invoice.'
    : `paid at ${found.name}; preimage ${found.wallet.settle(paymentHash)}`
}
