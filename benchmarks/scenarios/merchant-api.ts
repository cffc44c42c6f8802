import { plainGet, type LoadRequest } from '../load/request.ts'
import { gatewayRows, nginxRow } from './gateways.ts'
import type { Scenario } from './scenario.ts'

const text =
  'Over the whole chain of the deployment: key, throttle, gate, idempotency, and the operation with its database.'

/** A merchant creates payments. */
export const createPayment: Scenario = {
  id: 'create-payment',
  plan: {
    rounds: { quick: 3, full: 5 },
    targets: { quick: 4, full: 4 },
    warmed: 3,
    compiled: 0,
    prepare: { quick: 1, full: 1 }
  },
  title: 'Merchant API: create a payment',
  text: `POST /api/payments with an order id of its own each, an invoice of the sandbox. ${text}`,
  latency: [],
  once: { quick: 100, full: 800, warmUp: 1 },
  async prepare(fleet) {
    const post: LoadRequest = {
      method: 'POST',
      path: '/api/payments',
      headers: { 'Content-Type': 'application/json' },
      status: 201,
      varied: 'number',
      body: JSON.stringify({ orderId: 'order-{n}', amount: 0.0001, currency: 'BTC' })
    }
    const rows = await gatewayRows(
      fleet,
      async gateway => ({ ...post, headers: { ...post.headers, 'X-API-Key': gateway.apiKey } }),
      { oneOnServers: true }
    )
    return { rows: [...rows, await nginxRow(fleet)], remarks: [], request: post }
  }
}

/** A merchant reads one of its payments. */
export const readPayment: Scenario = {
  id: 'read-payment',
  plan: {
    rounds: { quick: 2, full: 4 },
    targets: { quick: 4, full: 4 },
    warmed: 3,
    compiled: 0,
    prepare: { quick: 1, full: 1 }
  },
  title: 'Merchant API: read a payment',
  text: `GET /api/payments/{invoiceId}. ${text}`,
  latency: [],
  once: null,
  async prepare(fleet) {
    const rows = await gatewayRows(
      fleet,
      async gateway => {
        const headers = { 'X-API-Key': gateway.apiKey }
        const answer = await fetch(`http://127.0.0.1:${gateway.port}/api/payments`, {
          method: 'POST',
          headers: { ...headers, 'Content-Type': 'application/json' },
          body: JSON.stringify({ orderId: 'the-one', amount: 0.0001, currency: 'BTC' })
        })
        if (answer.status !== 201)
          throw new Error(`the payment was not created: ${answer.status} ${await answer.text()}`)
        // The contract's create answer has this member.
        const { invoiceId } = (await answer.json()) as { invoiceId: string }
        return plainGet(`/api/payments/${invoiceId}`, headers)
      },
      { oneOnServers: true }
    )
    return { rows: [...rows, await nginxRow(fleet)], remarks: [], request: plainGet('/api/payments/1') }
  }
}
