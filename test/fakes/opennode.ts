import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { InvoiceNetwork } from '../../src/lightning/codecs/bolt11.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { FakeAccount, Refusal, type HeldCharge, type HeldWithdrawal } from './opennode-account.ts'
import { chargeForm, chargeView, withdrawalForm, withdrawalView } from './opennode-views.ts'

/** What a key may do; each level is chosen when the key is made. */
export type Permission = 'Read' | 'Invoices' | 'Withdrawals'

const EVERYTHING: readonly Permission[] = ['Read', 'Invoices', 'Withdrawals']

/**
 * What goes wrong with a request. `lost after` has acted when the connection breaks, `lost before` has not; `hang
 * after` has acted and never answers.
 */
export type Fault =
  | 'hang'
  | 'hang after'
  | 'lost before'
  | 'lost after'
  | 'html'
  | 'html as 200'
  | 'html as 403'
  | 'server error'
  | 'server error after'
  | 'rate limit'
  | 'empty'

/** How the fake is made. */
export interface FakeOpenNodeOptions {
  /** Key of the first account, with every permission. */
  readonly key?: string
  readonly network?: InvoiceNetwork
  readonly clock?: Clock
  /** 0 takes a free one. */
  readonly port?: number
}

/** One request as it came. */
export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly authorization: string | undefined
  readonly body: unknown
}

/** A notification that was sent; `status` is the receiver's answer, null when it could not be reached. */
export interface SentNotification {
  readonly url: string
  readonly form: string
  readonly status: number | null
}

interface Key {
  readonly account: FakeAccount
  readonly permissions: ReadonlySet<Permission>
}
interface Call {
  readonly key: string
  readonly account: FakeAccount
  readonly body: Readonly<Record<string, unknown>>
  readonly id: string
}
interface Route {
  readonly method: string
  readonly path: RegExp
  readonly needs: Permission
  readonly run: (call: Call) => { readonly status: number; readonly body: object }
}

const HTML =
  '<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Checking your browser</body></html>'

/** A server on loopback that speaks OpenNode's API as providers.md describes it. */
export class FakeOpenNode {
  /** Without a slash at the end. */
  url = ''
  /** The account of the first key. */
  readonly account: FakeAccount
  readonly requests: SeenRequest[] = []
  readonly notifications: SentNotification[] = []
  /** The status with which a missing permission is answered; undocumented. */
  permissionStatus: 401 | 403 = 403
  /** Called when a request is left unanswered: a test moves its clock here. */
  onHang: () => void = () => {}
  readonly #key: string
  readonly #keys = new Map<string, Key>()
  readonly #clock: Clock
  readonly #network: InvoiceNetwork
  readonly #server: Server
  readonly #routes: readonly Route[]
  #faults: Array<{ readonly fault: Fault; readonly on: RegExp }> = []

  constructor(options: FakeOpenNodeOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#network = options.network ?? 'regtest'
    this.#key = options.key ?? 'opennode-test-key'
    this.account = this.addKey(this.#key)
    this.#server = createServer((request, response) => {
      void this.#serve(request, response)
    })
    this.#routes = this.#table()
  }

  /** The key of the first account. */
  key(): string {
    return this.#key
  }

  async listen(port: number): Promise<this> {
    this.#server.listen(port, '127.0.0.1')
    await once(this.#server, 'listening')
    // A server that listens on TCP has an address object.
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return this
  }

  /** Makes a key with these permissions, of an account of its own unless one is named. */
  addKey(
    key: string,
    permissions: readonly Permission[] = EVERYTHING,
    account = new FakeAccount(this.#clock, this.#network)
  ): FakeAccount {
    this.#keys.set(key, { account, permissions: new Set(permissions) })
    return account
  }

  /** The key is gone: expired, or deleted by its owner. */
  revokeKey(key: string): void {
    this.#keys.delete(key)
  }

  /** The next request whose `METHOD /path` fits goes wrong; several are used up in order. */
  fail(fault: Fault, on = /./): void {
    this.#faults.push({ fault, on })
  }

  /** Every fault that waits is forgotten. */
  heal(): void {
    this.#faults = []
  }

  /** Pays the charge of an invoice over Lightning and notifies; answers the preimage, as a payer gets it. */
  async pay(payreq: string): Promise<string> {
    const charge = [...this.account.charges.values()].find(held => held.payreq === payreq)
    if (charge === undefined) throw new Error('no charge has this invoice')
    await this.notify(this.account.payLightning(charge.id))
    return charge.preimage
  }

  /** Sees a transaction of `amount` satoshis to the charge, enough or not, and notifies. */
  async payOnChain(chargeId: string, amount: number): Promise<void> {
    await this.notify(this.account.seeTransaction(chargeId, amount))
  }

  /** The charge's transactions are confirmed; notifies. */
  async confirm(chargeId: string): Promise<void> {
    await this.notify(this.account.confirmChain(chargeId))
  }

  /** The charge is put into a state by hand, and notifies. */
  async become(chargeId: string, status: HeldCharge['status']): Promise<void> {
    await this.notify(Object.assign(this.account.charge(chargeId), { status }))
  }

  /** Posts the charge's form to its callback_url, or `form` in its place; a charge without one sends nothing. */
  async notify(charge: HeldCharge, form = chargeForm(charge)): Promise<SentNotification | null> {
    return charge.callbackUrl === null ? null : await this.#post(charge.callbackUrl, form)
  }

  /** The same with a signature by a wrong key. */
  async notifyForged(charge: HeldCharge): Promise<SentNotification | null> {
    const form = chargeForm(charge)
    form.set('hashed_order', chargeForm({ ...charge, key: 'not the key' }).get('hashed_order') ?? '')
    return await this.notify(charge, form)
  }

  /** A withdrawal has got further; notifies where it was asked to. */
  async moveWithdrawal(id: string, status: HeldWithdrawal['status'], error?: string): Promise<void> {
    const withdrawal = this.account.moveWithdrawal(id, status, error)
    if (withdrawal.callbackUrl !== null) await this.#post(withdrawal.callbackUrl, withdrawalForm(withdrawal))
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  async #post(url: string, form: URLSearchParams): Promise<SentNotification> {
    const text = form.toString()
    const status = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: text,
      redirect: 'manual'
    })
      // The receiver is down: the real one would not report it either.
      .then(
        answer => answer.status,
        () => null
      )
    const sent = { url, form: text, status }
    this.notifications.push(sent)
    return sent
  }

  #table(): Route[] {
    const checkout = 'https://checkout.dev.opennode.com'
    const withdrawal = ({ account, id }: Call) => ({
      status: 200,
      body: { data: withdrawalView(account.withdrawal(id), account.listsCustomId) }
    })
    return [
      {
        method: 'GET',
        path: /^\/v1\/account\/balance$/,
        needs: 'Read',
        run: ({ account }) => ({ status: 200, body: { data: { balance: { BTC: account.balance, USD: 0 } } } })
      },
      {
        method: 'POST',
        path: /^\/v1\/charges$/,
        needs: 'Invoices',
        run: ({ key, account, body }) => ({
          status: 201,
          body: { data: chargeView(account.createCharge(key, body), checkout) }
        })
      },
      {
        method: 'GET',
        path: /^\/v1\/charges$/,
        needs: 'Read',
        run: ({ account }) => ({
          status: 200,
          body: { data: account.listed().map(charge => chargeView(charge, checkout)) }
        })
      },
      {
        method: 'GET',
        path: /^\/v1\/charge\/([^/]+)$/,
        needs: 'Read',
        run: ({ account, id }) => ({ status: 200, body: { data: chargeView(account.charge(id), checkout) } })
      },
      {
        method: 'POST',
        path: /^\/v2\/withdrawals$/,
        needs: 'Withdrawals',
        run: ({ key, account, body }) => ({
          status: 201,
          body: { data: withdrawalView(account.createWithdrawal(key, body), true) }
        })
      },
      {
        method: 'GET',
        path: /^\/v1\/withdrawals$/,
        needs: 'Read',
        run: ({ account }) => ({
          status: 200,
          body: {
            data: [...account.withdrawals.values()]
              .toReversed()
              .map(held => withdrawalView(held, account.listsCustomId))
          }
        })
      },
      { method: 'GET', path: /^\/v1\/withdrawal\/([^/]+)$/, needs: 'Read', run: withdrawal },
      { method: 'GET', path: /^\/v2\/withdrawal\/([^/]+)$/, needs: 'Read', run: withdrawal },
      {
        method: 'POST',
        path: /^\/v1\/refunds$/,
        needs: 'Withdrawals',
        run: ({ account, body }) => ({ status: 201, body: { data: account.createRefund(body) } })
      },
      {
        method: 'GET',
        path: /^\/v1\/refunds$/,
        needs: 'Read',
        run: ({ account }) => ({ status: 200, body: { data: [...account.refunds.values()].toReversed() } })
      },
      {
        method: 'GET',
        path: /^\/v1\/refund\/([^/]+)$/,
        needs: 'Read',
        run: ({ account, id }) => ({ status: 200, body: { data: account.refund(id) } })
      }
    ]
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url: path = '' } = request
    const text = await readBody(request)
    const authorization = request.headers.authorization
    this.requests.push({ method, path, authorization, body: parsed(text) })
    const at = this.#faults.findIndex(({ on }) => on.test(`${method} ${path}`))
    const fault = at < 0 ? null : (this.#faults.splice(at, 1)[0]?.fault ?? null)
    if (fault === 'hang') return this.onHang()
    if (fault === 'lost before') return void request.socket.destroy()
    if (fault === 'server error') return send(response, 500, { success: false, message: 'Internal server error' })
    if (fault === 'rate limit')
      return send(response.setHeader('retry-after', '7'), 429, { success: false, message: 'Too many requests' })
    if (fault === 'html') return sendHtml(response, 502)
    if (fault === 'html as 403') return sendHtml(response, 403)
    const { status, body } = this.#answer(method, path, authorization, request.headers['content-type'], text)
    if (fault === 'hang after') return this.onHang()
    if (fault === 'lost after') return void request.socket.destroy()
    if (fault === 'server error after') return send(response, 500, { success: false, message: 'Internal server error' })
    if (fault === 'html as 200') return sendHtml(response, 200)
    if (fault === 'empty') return void response.writeHead(status).end()
    send(response, status, body)
  }

  #answer(
    method: string,
    path: string,
    authorization: string | undefined,
    type: string | undefined,
    text: string
  ): { readonly status: number; readonly body: object } {
    try {
      const key = this.#keys.get(authorization ?? '')
      if (key === undefined || authorization === undefined) throw new Refusal(401, 'Failed to authenticate token')
      for (const route of this.#routes) {
        const match = route.method === method ? route.path.exec(path) : null
        if (match === null) continue
        if (!key.permissions.has(route.needs))
          throw new Refusal(this.permissionStatus, 'This key does not have permission to perform this action')
        if (method === 'POST' && !/^application\/json\b/.test(type ?? ''))
          throw new Refusal(400, 'Content-Type must be application/json')
        return route.run({
          key: authorization,
          account: key.account,
          body: method === 'POST' ? objectOf(text) : {},
          id: decodeURIComponent(match[1] ?? '')
        })
      }
      throw new Refusal(404, 'Not found')
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return { status: error.status, body: { success: false, message: error.message } }
    }
  }
}

/** Starts the fake; `npm run fakes` starts it by hand. */
export async function startFakeOpenNode(options: FakeOpenNodeOptions = {}): Promise<FakeOpenNode> {
  return await new FakeOpenNode(options).listen(options.port ?? 0)
}

async function readBody(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece as Buffer /* no encoding is set */)
  return Buffer.concat(pieces).toString('utf8')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function objectOf(text: string): Readonly<Record<string, unknown>> {
  const value = parsed(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Refusal(400, 'Invalid JSON')
  return value as Record<string, unknown> // Any object that JSON.parse made.
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body))
}

function sendHtml(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'content-type': 'text/html' }).end(HTML)
}
