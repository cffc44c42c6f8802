import type { Test as T } from 'tap'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { JobTable } from '../../src/platform/jobs/table.ts'
import { pricesYaml, startFakePrices } from '../fakes/prices.ts'
import { isAuthentic, startReceiver, type Received } from '../fakes/receiver.ts'
import { defaultYaml, startGateway, type Answer } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import type { ManualClock } from '../support/manual-clock.ts'
import { inTimeOf } from '../support/passing-time.ts'
import type { Till } from './tills.ts'

export type Json = Record<string, unknown>

/** How long a request of ours waits for the provider, in milliseconds. */
export const PATIENCE = 30_000
const POLICIES = ['global', 'read', 'write', 'payment-create', 'admin', 'l402-proxy', 'webhook']

/**
 * A merchant's account on a whole gateway, with its provider's fake in one slot: key, webhook address and choice of the
 * provider are saved over the API.
 */
export async function openShopFront(t: T, till: Till, clock: ManualClock) {
  const prices = await startFakePrices({ clock })
  const receiver = await startReceiver()
  t.teardown(() => Promise.all([prices.close(), receiver.close()]))
  const seat = `${till.slot}: `.padEnd(11)
  const yaml = defaultYaml({
    policies: POLICIES.map(
      name => `  ${name}: { limit: 100000, window: 1m${name === 'l402-proxy' ? ', by: address' : ''} }`
    ).join('\n'),
    replace: [[`${seat}{ kind: sandbox }`, `${seat}{ kind: ${till.kind}, url: "${till.url}", timeout: ${PATIENCE}ms }`]]
  })
  const gateway = await startGateway(t, { yaml: `${yaml}\n${pricesYaml(prices)}\n`, clock, log: silentLog })
  const jobs = new JobTable(gateway.database)
  const useKey = async (key: string) => {
    json(await gateway.merchantSend('PUT', `/api/merchant/${till.slot}-key`, { [`${till.slot}ApiKey`]: key }), 200)
  }
  await useKey(till.key)
  json(await gateway.merchantSend('PUT', '/api/merchant/payment-provider', { provider: till.slot }), 200)
  const { webhookSecret } = json(
    await gateway.merchantSend('PUT', '/api/merchant/webhook-url', { webhookUrl: receiver.url }),
    200
  )
  let orders = 0
  /** The payment as the merchant reads it. */
  const payment = async (invoiceId: unknown) =>
    json(await gateway.merchantSend('GET', `/api/payments/${String(invoiceId)}`), 200)
  /** Webhooks about an invoice or a challenge, as the merchant got them. */
  const webhooksOf = (id: unknown) => receiver.received.filter(({ text }) => text.includes(String(id)))
  return {
    gateway,
    till,
    clock,
    receiver,
    webhookSecret: String(webhookSecret),
    /** Saves a key for the slot. */
    useKey,
    /** A payment of 10,000 satoshis in BTC unless said. */
    order: async (fields?: Json) =>
      json(
        await gateway.merchantSend('POST', '/api/payments', {
          orderId: `order-${++orders}`,
          amount: 0.0001,
          currency: 'BTC',
          ...fields
        }),
        201
      ),
    payment,
    becomes: (invoiceId: unknown, status: string) =>
      eventually(`the payment is ${status}`, async () => {
        const found = await payment(invoiceId)
        return found['status'] === status ? found : null
      }),
    webhooksOf,
    /** Statuses of an invoice in the webhooks, in their order. */
    statusesOf: (id: unknown) => webhooksOf(id).map(({ text }) => (JSON.parse(text) as { status: string }).status),
    /** Waits for the first of them. */
    webhookOf: (id: unknown) => eventually('the webhook has arrived', () => Promise.resolve(webhooksOf(id)[0] ?? null)),
    /** Time goes on, and a periodic job has its turn now and then, until `look` answers something. */
    inTime: <R>(what: string, job: string, look: () => Promise<R | null>) =>
      inTimeOf(
        gateway,
        clock,
        eventually(what, async () => {
          const found = await look()
          if (found !== null) return found
          await jobs.bringForward(job)
          return null
        })
      ),
    /** Every job of a queue that is due has been done. */
    idle: async (queue: string) => {
      await eventually(`${queue} is idle`, async () => {
        const counts = (await jobs.counts()).find(({ name }) => name === queue)
        return counts === undefined || counts.waiting + counts.running === 0 ? true : null
      })
    }
  }
}

export type ShopFront = Awaited<ReturnType<typeof openShopFront>>

/** The body of an answer that must have this status. */
export function json(answer: Answer, status: number): Json {
  if (answer.status !== status) throw new Error(`${answer.status} instead of ${status}: ${answer.text}`)
  return answer.json() as Json
}

/** Checks a webhook as a merchant would, and that its body has exactly these members. */
export function isWebhook(t: T, { webhookSecret, clock }: ShopFront, received: Received, body: Json): void {
  t.equal(received.method, 'POST')
  t.equal(received.headers['content-type'], 'application/json')
  t.ok(isAuthentic(received, webhookSecret, clock.now()), 'X-Service-Signature')
  t.notOk(isAuthentic(received, `${webhookSecret}x`, clock.now()), 'with the webhook secret alone')
  t.same(JSON.parse(received.text), body)
}
