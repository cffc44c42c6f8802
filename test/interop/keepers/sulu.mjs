// sulu's l402: reads addresses, a line each, and prints the status that each came to. The wallet is LND's REST form at argv[2].
import { createInterface } from 'node:readline'
import axios from 'axios'
import { MemoryTokenStore, PaymentResult, setupL402Interceptor, Wallet } from 'l402'

class RestWallet extends Wallet {
  async payInvoice(invoice) {
    const answer = await axios
      .create()
      .post(`${process.argv[2]}/v1/channels/transactions`, { payment_request: invoice })
    return new PaymentResult(Buffer.from(answer.data.payment_preimage, 'base64').toString('hex'), true)
  }
}

const client = axios.create()
setupL402Interceptor(client, new RestWallet(), new MemoryTokenStore())
for await (const url of createInterface({ input: process.stdin })) {
  const status = await client.get(url).then(
    answer => answer.status,
    error => error.response?.status ?? String(error)
  )
  process.stdout.write(`${status}\n`)
}
