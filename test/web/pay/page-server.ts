import { createServer, type ServerResponse } from 'node:http'
import type { Test as T } from 'tap'
import { GatewayError } from '../../../src/engine/operations/errors.ts'
import { responseOf, type AnyOperation, type Result } from '../../../src/engine/operations/operation.ts'
import { isStreamBody, type Reply, type StreamBody, type StreamSink } from '../../../src/engine/message/reply.ts'
import { isLocalCaller } from '../../../src/engine/message/caller.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { Router } from '../../../src/engine/pipeline/router.ts'
import { openPages } from '../../../src/web/pay/open.ts'
import type { Payment } from '../../../src/payments/payments/schema.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { serve } from '../../support/serve.ts'

/** An invoice of BOLT 11's own examples, of the length that invoices have. */
export const INVOICE =
  'lnbc2500u1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4jsxqzpuaztrnwngzn3kdzw5hydlzf03qdgm2hdq27cqv3agm2awhz5se903vruatfhq77w3ls4evs3ch9zw97j25emudupq63nyw24cg27h2rspfj9srp'

/** What the server answers without the network, and the means to change what it knows. */
export class PageWorld {
  readonly clock = new ManualClock()
  readonly merchants = new Map([[1, { name: 'Corner Coffee' }]])
  readonly #byToken = new Map<string, Payment>()
  readonly #listeners = new Set<{ readonly invoiceId: string; readonly changed: () => void }>()
  #count = 0
  /** Reads fail while it is set. */
  fault: Error | null = null
  readonly operations: readonly AnyOperation[]

  /** Where readers come from. */
  peerAddress = '203.0.113.9'
  /** Invoices that were paid at the sandbox by a button. */
  readonly paid: string[] = []

  constructor(options: { readonly sandbox?: boolean } = {}) {
    this.operations = openPages({
      payments: {
        byPayToken: async token => {
          if (this.fault !== null) throw this.fault
          return this.#byToken.get(token) ?? null
        },
        watch: (invoiceId, changed) => {
          const listener = { invoiceId, changed }
          this.#listeners.add(listener)
          return () => {
            this.#listeners.delete(listener)
          }
        }
      },
      merchants: { byId: async id => this.merchants.get(id) ?? null },
      clock: this.clock,
      log: silentLog,
      publicUrl: () => 'http://127.0.0.1:8080',
      links: {
        find: async () => null,
        pay: async () => {
          throw new Error('there is no link')
        }
      },
      sandbox:
        options.sandbox === true
          ? {
              mayPay: isLocalCaller,
              pay: async invoice => {
                this.paid.push(invoice)
              }
            }
          : null
    }).operations
  }

  get listeners(): number {
    return this.#listeners.size
  }

  /** A new payment of 12.50 euros, but for what is said. */
  add(more: Partial<Payment> = {}): Payment {
    const count = ++this.#count
    const now = this.clock.now()
    const payment: Payment = {
      invoiceId: String(100_000_000_000_000 + count),
      merchantId: 1,
      orderId: `order-${count}`,
      status: 'unpaid',
      amount: '12.5',
      currency: 'EUR',
      description: 'Two flat whites and a slice of carrot cake',
      customerEmail: 'payer@example.com',
      customerName: null,
      successUrl: null,
      metadata: { table: 'seven-and-twenty' },
      payToken: String(count).padStart(43, 'A'),
      slot: 'primary',
      kind: 'lnd',
      chargeId: `charge-${count}`,
      invoice: INVOICE,
      paymentHash: String(count).padStart(64, '0'),
      network: 'mainnet',
      onchainAddress: null,
      checkoutUrl: null,
      amountSats: 18_342,
      receivedSats: null,
      createdAt: now,
      expiresAt: now + 3_600_000,
      confirmsAt: null,
      paidAt: null,
      ...more
    }
    this.#byToken.set(payment.payToken, payment)
    return payment
  }

  /** Changes a payment and notifies its listeners. */
  change(payment: Payment, more: Partial<Payment>): void {
    this.#byToken.set(payment.payToken, { ...this.now(payment), ...more })
    for (const listener of this.#listeners) if (listener.invoiceId === payment.invoiceId) listener.changed()
  }

  now(payment: Payment): Payment {
    return this.#byToken.get(payment.payToken) ?? payment
  }

  /** The answer of the operation at a path, its errors written as the engine does. */
  async get(path: string): Promise<PageAnswer> {
    const router = new Router<AnyOperation>()
    for (const operation of this.operations)
      router.add({ host: null, methods: [operation.method], path: operation.path }, operation)
    const found = router.find('', 'GET', path)
    if (found === null) return new PageAnswer(404, [], '{}')
    try {
      // The pages read nothing but their parameters, and whether the reader is on this machine.
      const {
        status,
        headers = [],
        body
      } = (await found.value.handle({
        params: found.params,
        ctx: { peerAddress: this.peerAddress, headers: new HeaderList() }
      } as never)) as Result & { readonly body: Reply['body'] }
      return new PageAnswer(
        status,
        ['Content-Type', responseOf(found.value, status)?.mediaType ?? 'application/json', ...headers],
        // The engine writes what is no stream.
        typeof body === 'string' || isStreamBody(body) ? body : JSON.stringify(body)
      )
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      return new PageAnswer(
        error.status,
        ['Content-Type', 'application/json'],
        JSON.stringify(error.members({ correlationId: '', now: 0, mode: 'production' }))
      )
    }
  }
}

/** One answer of the pages. */
export class PageAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Reply['body']

  constructor(status: number, flat: readonly string[], body: Reply['body']) {
    this.status = status
    this.headers = new Headers()
    for (let index = 0; index < flat.length; index += 2) this.headers.append(flat[index] ?? '', flat[index + 1] ?? '')
    this.body = body
  }

  get text(): string {
    return typeof this.body === 'string' ? this.body : ''
  }

  get stream(): StreamBody {
    if (!isStreamBody(this.body)) throw new TypeError('the answer is no stream')
    return this.body
  }
}

/** What a stream has written so far. */
export class Heard implements StreamSink {
  onDrain: (() => void) | null = null
  onStopping: (() => void) | null = null
  text = ''
  ended = false
  readonly #stop: () => void

  constructor(stream: StreamBody) {
    this.#stop = stream.open(this)
  }

  write(piece: string | Uint8Array): boolean {
    this.text += typeof piece === 'string' ? piece : Buffer.from(piece).toString()
    return true
  }

  /** The reported statuses. */
  get statuses(): string[] {
    return [...this.text.matchAll(/^event: status\ndata: (.*)$/gm)].map(
      ([, data = '']) => (JSON.parse(data) as { status: string }).status
    )
  }

  end(): void {
    if (this.ended) return
    this.ended = true
    this.#stop()
  }

  fail(error: Error): void {
    throw error
  }
}

/** The same over HTTP, for a browser. Answers the address. */
export async function servePages(t: T, world: PageWorld): Promise<string> {
  const server = createServer((request, response) => {
    const path = request.url ?? '/'
    void answerPage(world, path, response)
  })
  return `http://127.0.0.1:${await serve(t, server)}`
}

async function answerPage(world: PageWorld, path: string, response: ServerResponse) {
  const answer = await world.get(path)
  response.writeHead(answer.status, Object.fromEntries(answer.headers))
  if (!isStreamBody(answer.body)) {
    response.end(answer.body ?? '')
    return
  }
  const stop = answer.body.open({
    onDrain: null,
    onStopping: null,
    write: piece => response.write(piece),
    end: () => {
      response.end()
    },
    fail: error => {
      response.destroy(error)
    }
  })
  response.on('close', stop)
}
