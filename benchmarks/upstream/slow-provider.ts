// A provider that takes its time: OpenNode's API as far as making charges goes, each answered after so many
// milliseconds: `slow-provider.ts <ms>`. Prints {"port":N}.
import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { encodeInvoice } from '../../src/lightning/codecs/bolt11-encode.ts'
import { paymentHashOf } from '../../src/lightning/codecs/hmac.ts'

const wait = Number(process.argv[2])
const privateKey = randomBytes(32)

async function bodyOf(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const text = Buffer.concat(await request.toArray()).toString()
  // The gateway sends objects.
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>)
}

function charge({ amount, description, ttl }: Readonly<Record<string, unknown>>): object {
  const timestamp = Math.floor(Date.now() / 1000)
  const expirySeconds = Number(ttl) * 60
  const payreq = encodeInvoice(
    {
      network: 'regtest',
      amountMsat: BigInt(Number(amount)) * 1000n,
      paymentHash: paymentHashOf(randomBytes(32).toString('hex')),
      paymentSecret: randomBytes(32).toString('hex'),
      timestamp,
      expirySeconds,
      description: String(description)
    },
    privateKey
  )
  return {
    id: randomBytes(16).toString('hex'),
    status: 'unpaid',
    amount,
    created_at: timestamp,
    lightning_invoice: { payreq, expires_at: timestamp + expirySeconds }
  }
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await bodyOf(request)
  const data = request.method === 'POST' ? charge(body) : []
  await setTimeout(wait)
  response.setHeader('Content-Type', 'application/json')
  response.end(JSON.stringify({ data }))
}

const server = createServer((request, response) => {
  void answer(request, response)
})
server.listen(0, '127.0.0.1', () => {
  // A server that listens on TCP has an address object.
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`)
})
