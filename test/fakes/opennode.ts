import type { InvoiceNetwork } from '../../src/lightning/codecs/bolt11.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { startNodeServer, type NodeFault, type NodeRequest, type NodeServer } from './node-server.ts'
import { FakeAccount, Refusal, type HeldCharge } from './opennode-account.ts'
import { chargeForm, chargeView, withdrawalView } from './opennode-views.ts'

/** What a key may do; each level is chosen when the key is made. */
export type Permission = 'Read' | 'Invoices' | 'Withdrawals'

const EVERYTHING: readonly Permission[] = ['Read', 'Invoices', 'Withdrawals']

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
  /** `METHOD /path`. */
  readonly on: RegExp
  readonly needs: Permission
  /** Gives the data. */
  readonly run: (call: Call) => object
}

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
  #server: NodeServer | null = null
  readonly #routes: readonly Route[]

  constructor(options: FakeOpenNodeOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#network = options.network ?? 'regtest'
    this.#key = options.key ?? 'opennode-test-key'
    this.account = this.addKey(this.#key)
    this.#routes = this.#table()
  }

  /** The key of the first account. */
  key(): string {
    return this.#key
  }

  async listen(port: number): Promise<this> {
    this.#server = await startNodeServer(request => this.#answer(request), { port })
    this.#server.onHang = () => {
      this.onHang()
    }
    this.url = this.#server.url
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
  fail(fault: NodeFault, on = /./): void {
    this.#server?.fail(fault, on)
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

  async close(): Promise<void> {
    await this.#server?.close()
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
    return [
      {
        on: /^GET \/v1\/account\/balance$/,
        needs: 'Read',
        run: ({ account }) => ({ balance: { BTC: account.balance, USD: 0 } })
      },
      {
        on: /^POST \/v1\/charges$/,
        needs: 'Invoices',
        run: ({ key, account, body }) => chargeView(account.createCharge(key, body), checkout)
      },
      {
        on: /^GET \/v1\/charges$/,
        needs: 'Read',
        run: ({ account }) => account.listed().map(charge => chargeView(charge, checkout))
      },
      {
        on: /^GET \/v1\/charge\/([^/]+)$/,
        needs: 'Read',
        run: ({ account, id }) => chargeView(account.charge(id), checkout)
      },
      {
        on: /^POST \/v2\/withdrawals$/,
        needs: 'Withdrawals',
        run: ({ key, account, body }) => withdrawalView(account.createWithdrawal(key, body), true)
      },
      {
        on: /^GET \/v1\/withdrawals$/,
        needs: 'Read',
        run: ({ account }) =>
          [...account.withdrawals.values()].toReversed().map(held => withdrawalView(held, account.listsCustomId))
      },
      {
        on: /^GET \/v[12]\/withdrawal\/([^/]+)$/,
        needs: 'Read',
        run: ({ account, id }) => withdrawalView(account.withdrawal(id), account.listsCustomId)
      }
    ]
  }

  #answer({ method, path, headers, text }: NodeRequest): { readonly status: number; readonly body: object } {
    const { authorization } = headers
    this.requests.push({ method, path, authorization, body: parsed(text) })
    try {
      const key = this.#keys.get(authorization ?? '')
      if (key === undefined || authorization === undefined) throw new Refusal(401, 'Failed to authenticate token')
      for (const route of this.#routes) {
        const match = route.on.exec(`${method} ${path}`)
        if (match === null) continue
        if (!key.permissions.has(route.needs))
          throw new Refusal(this.permissionStatus, 'This key does not have permission to perform this action')
        if (method === 'POST' && !/^application\/json\b/.test(headers['content-type'] ?? ''))
          throw new Refusal(400, 'Content-Type must be application/json')
        const data = route.run({
          key: authorization,
          account: key.account,
          body: method === 'POST' ? objectOf(text) : {},
          id: decodeURIComponent(match[1] ?? '')
        })
        return { status: method === 'POST' ? 201 : 200, body: { data } }
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
