import { randomBytes } from 'node:crypto'
import { KINDS, publicKeyOf, signEvent, tagOf, type NostrEvent } from '../../src/lightning/kinds/nwc/event.ts'
import { Conversation, type Encryption } from '../../src/lightning/kinds/nwc/conversation.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { startFakeRelay, type FakeRelay } from './nostr-relay.ts'
import type { NodeFault } from './node-server.ts'
import { NodeWallet, type WalletInvoice, type WalletPayment } from './node-wallet.ts'

/** A request as the wallet read it. */
export interface NwcRequest {
  readonly method: string
  readonly parameters: Readonly<Record<string, unknown>>
}

/** What it answers. */
export type NwcReply =
  | { readonly result: object }
  | { readonly error: { readonly code: string; readonly message: string } }

/** A fake wallet behind a fake relay. */
export interface FakeNwc {
  readonly relay: FakeRelay
  readonly wallet: NodeWallet
  /** The wallet's public key. */
  readonly pubkey: string
  /** What it answered, or was to. */
  readonly requests: NwcRequest[]
  /** Called when a request is left unanswered: a test moves its clock here. */
  onHang: () => void
  /** What its payees reveal, by payment hash; of others it shows an invalid preimage. */
  readonly preimages: Map<string, string>
  /** Names no state in its transactions, as older wallets do. */
  isStateless: boolean
  /** Transactions of one page at most, whatever was asked for. */
  page: number
  /** Answers name for whom they are, which they need not. */
  tagsClients: boolean
  /** The next request whose method fits goes wrong. */
  fail(fault: NodeFault, on?: RegExp): void
  /** The next request whose method fits is answered with an error. */
  refuse(code: string, message: string, on: RegExp): void
  /** What a connection that may do everything is answered, for a wallet service that is not this one's. */
  answer(method: string, parameters: NwcRequest['parameters']): NwcReply
  /** Announces itself; `encryption` as the tag has it, null for none. */
  announce(encryption?: string | null): void
  /** A new connection that may do so much, all unless said. */
  key(methods?: readonly string[]): string
  /** Forgets a connection: it is no longer answered. */
  revoke(key: string): void
  /** Tells the connections about a payment, or sends the given event instead. */
  notify(paymentHash: string, changes?: object): void
  close(): Promise<void>
}

const METHODS = ['get_info', 'make_invoice', 'lookup_invoice', 'list_transactions', 'pay_invoice', 'get_balance']

/** What it answers by throwing. */
class Refusal extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** Starts a wallet without Lightning and a relay on loopback: NIP-47 over NIP-44, or NIP-04 where it announces no other. */
export async function startFakeNwc(options: { clock?: Clock; port?: number } = {}): Promise<FakeNwc> {
  const clock = options.clock ?? systemClock
  const wallet = new NodeWallet(clock, 'regtest')
  const secret = randomBytes(32).toString('hex')
  const pubkey = publicKeyOf(secret)
  const connections = new Map<string, readonly string[]>()
  const conversations = new Map<string, Conversation>()
  let encryption: Encryption = 'nip44_v2'
  const answered = new Set<string>()
  const faults: Array<{ readonly fault: NodeFault; readonly on: RegExp }> = []
  const refusals: Array<{ readonly refusal: Refusal; readonly on: RegExp }> = []
  const seconds = (at: number): number => Math.floor(at / 1000)

  function conversationWith(client: string): Conversation {
    const known = conversations.get(client)
    if (known !== undefined) return known
    const made = new Conversation(secret, client)
    conversations.set(client, made)
    return made
  }

  function take(event: NostrEvent, then: { drop(): void }): void {
    if (event.kind !== KINDS.request || tagOf(event, 'p') !== pubkey) return
    const may = connections.get(event.pubkey)
    // It does not know this one, or has answered it before: silence.
    if (may === undefined || answered.has(event.id)) return fake.onHang()
    answered.add(event.id)
    // It cannot read it.
    if (tagOf(event, 'encryption') !== encryption) return fake.onHang()
    if (event.content.includes('?iv=') !== (encryption === 'nip04')) throw new Error('a request in another encryption')
    const end = tagOf(event, 'expiration')
    if (end !== null && !(Number(end) > seconds(clock.now()))) throw new Error('a request whose end is over')
    const conversation = conversationWith(event.pubkey)
    // A test sends objects alone.
    const { method, params } = JSON.parse(conversation.decrypt(event.content)) as {
      readonly method: string
      readonly params: Readonly<Record<string, unknown>>
    }
    const request = { method, parameters: params }
    fake.requests.push(request)
    const at = faults.findIndex(({ on }) => on.test(method))
    const fault = at === -1 ? null : (faults.splice(at, 1)[0]?.fault ?? null)
    if (fault === 'hang') return fake.onHang()
    if (fault === 'lost before') return then.drop()
    const say = (content: string): void => {
      relaySay(KINDS.response, [['e', event.id], ...(fake.tagsClients ? [['p', event.pubkey]] : [])], content)
    }
    if (fault === 'html') return say('not encrypted')
    if (fault === 'server error') return say(conversation.encrypt('{}', encryption))
    const answer = answerTo(request, may)
    if (fault === 'hang after' || answer === null) return fake.onHang()
    if (fault === 'lost after') return then.drop()
    say(conversation.encrypt(JSON.stringify({ result_type: method, ...answer }), encryption))
  }

  function answerTo({ method, parameters }: NwcRequest, may: readonly string[]): NwcReply | null {
    try {
      const at = refusals.findIndex(({ on }) => on.test(method))
      const refused = at === -1 ? undefined : refusals.splice(at, 1)[0]
      if (refused !== undefined) throw refused.refusal
      if (!METHODS.includes(method)) throw new Refusal('NOT_IMPLEMENTED', 'Unknown method')
      if (!may.includes(method)) throw new Refusal('RESTRICTED', 'This app does not have the required permission')
      const result = act(method, parameters, may)
      return result === null ? null : { result }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return { error: { code: error.code, message: error.message } }
    }
  }

  function act(method: string, given: NwcRequest['parameters'], may: readonly string[]): object | null {
    switch (method) {
      case 'get_info':
        return { alias: 'fake', network: 'regtest', methods: may, notifications: ['payment_received'] }
      case 'get_balance':
        return { balance: 21_000 }
      case 'make_invoice':
        return make(given)
      case 'lookup_invoice':
        return lookUp(given)
      case 'list_transactions':
        return list(given)
      default:
        return pay(given)
    }
  }

  function make({ amount, description = '', description_hash: given, expiry }: NwcRequest['parameters']): object {
    // LNbits says null for none, which wallets take.
    const hashed = given ?? undefined
    if (typeof amount !== 'number' || amount < 1000 || amount % 1000 !== 0)
      throw new Refusal('INTERNAL', 'only whole satoshis')
    if (amount > wallet.largest * 1000) throw new Refusal('INTERNAL', 'amount exceeds what can be received')
    if (typeof description !== 'string' || Buffer.byteLength(description) > 639)
      throw new Refusal('OTHER', 'description too long')
    if (hashed !== undefined && !(typeof hashed === 'string' && /^[0-9a-f]{64}$/.test(hashed)))
      throw new Refusal('BAD_REQUEST', 'no hash of a description')
    if (hashed !== undefined && description !== '') throw new Refusal('BAD_REQUEST', 'a description beside its hash')
    if (hashed !== undefined && wallet.hashes === 'refused') throw new Refusal('NOT_IMPLEMENTED', 'no hashes')
    return incoming(
      wallet.addInvoice({
        amountSats: amount / 1000,
        description,
        descriptionHash: hashed,
        expirySeconds: typeof expiry === 'number' ? expiry : 86_400
      })
    )
  }

  function lookUp({ payment_hash: paymentHash }: NwcRequest['parameters']): object {
    if (typeof paymentHash !== 'string' || !/^[0-9a-f]{64}$/.test(paymentHash))
      throw new Refusal('BAD_REQUEST', 'no payment hash')
    const payment = wallet.payments.get(paymentHash)
    const held = wallet.invoices.get(paymentHash)
    const found = payment === undefined ? (held === undefined ? null : incoming(held)) : outgoing(payment)
    if (found === null) throw new Refusal('NOT_FOUND', 'The transaction requested was not found')
    return found
  }

  function list({ from, limit, offset, unpaid, type }: NwcRequest['parameters']): object {
    if (typeof limit === 'number' && limit > 20) throw new Error('a page that no relay carries')
    const all = [...[...wallet.invoices.values()].map(incoming), ...[...wallet.payments.values()].map(outgoing)]
      .filter(one => type === undefined || one.type === type)
      .filter(one => unpaid === true || one.settled_at !== undefined)
      .filter(one => typeof from !== 'number' || one.created_at >= from)
      .toSorted((one, other) => other.created_at - one.created_at)
    const start = Number(offset ?? 0)
    return { transactions: all.slice(start, start + Math.min(Number(limit ?? 20), fake.page)) }
  }

  function pay({ invoice, amount }: NwcRequest['parameters']): object | null {
    if (typeof invoice !== 'string') throw new Refusal('BAD_REQUEST', 'no invoice')
    const known = [...wallet.payments.values()].find(payment => payment.invoice === invoice)
    if (known?.status === 'paid') throw new Refusal('INTERNAL', 'this invoice has already been paid')
    if (known?.status === 'pending')
      throw new Refusal('INTERNAL', 'there is already a payment pending for this invoice')
    const payment = wallet.pay(invoice, typeof amount === 'number' ? amount / 1000 : null)
    if (payment.status === 'pending') return null
    if (payment.status === 'failed') throw new Refusal('PAYMENT_FAILED', 'no route')
    return { preimage: fake.preimages.get(payment.paymentHash) ?? 'ef'.repeat(32), fees_paid: payment.feeMsat }
  }

  function incoming(held: WalletInvoice) {
    const isPaid = held.settledAt !== null
    return {
      type: 'incoming' as const,
      ...(fake.isStateless ? {} : { state: isPaid ? 'settled' : wallet.isExpired(held) ? 'expired' : 'pending' }),
      invoice: held.invoice,
      description: held.description,
      // Shown on unpaid ones too, as some do.
      preimage: held.preimage,
      payment_hash: held.paymentHash,
      amount: held.amountSats * 1000,
      fees_paid: 0,
      created_at: seconds(held.createdAt),
      expires_at: seconds(held.createdAt) + held.expirySeconds,
      ...(isPaid ? { settled_at: seconds(held.settledAt ?? 0) } : {})
    }
  }

  function outgoing(held: WalletPayment) {
    const isPaid = held.status === 'paid'
    return {
      type: 'outgoing' as const,
      state: isPaid ? 'settled' : held.status,
      invoice: held.invoice,
      payment_hash: held.paymentHash,
      amount: held.amountSats * 1000,
      fees_paid: held.feeMsat,
      created_at: seconds(held.createdAt),
      ...(isPaid ? { settled_at: seconds(held.completedAt ?? 0) } : {})
    }
  }

  function sign(kind: number, tags: NostrEvent['tags'], content: string): NostrEvent {
    return signEvent(secret, { created_at: seconds(clock.now()), kind, tags, content })
  }

  function relaySay(kind: number, tags: NostrEvent['tags'], content: string): void {
    relay.publish(sign(kind, tags, content))
  }

  const relay = await startFakeRelay(take, options)
  const fake: FakeNwc = {
    relay,
    wallet,
    pubkey,
    requests: [],
    onHang: () => {},
    preimages: new Map(),
    isStateless: false,
    page: 20,
    tagsClients: false,
    fail: (fault, on = /./) => {
      faults.push({ fault, on })
    },
    refuse: (code, message, on) => {
      refusals.push({ refusal: new Refusal(code, message), on })
    },
    answer: (method, parameters) =>
      answerTo({ method, parameters }, METHODS) ?? { error: { code: 'OTHER', message: 'no answer' } },
    announce: (offered = 'nip44_v2') => {
      relay.kept.length = 0
      encryption = offered?.includes('nip44_v2') === true ? 'nip44_v2' : 'nip04'
      const tags = offered === null ? [] : [['encryption', offered]]
      relay.kept.push(sign(KINDS.info, [...tags, ['notifications', 'payment_received']], METHODS.join(' ')))
    },
    key: (methods = METHODS) => {
      const ours = randomBytes(32).toString('hex')
      connections.set(publicKeyOf(ours), methods)
      return `nostr+walletconnect://${pubkey}?relay=${encodeURIComponent(relay.url)}&secret=${ours}&lud16=shop@example.com`
    },
    revoke: key => {
      connections.delete(publicKeyOf(new URL(key).searchParams.get('secret') ?? ''))
    },
    notify: (paymentHash, changes = {}) => {
      const held = wallet.invoices.get(paymentHash)
      const notification = { ...(held === undefined ? { payment_hash: paymentHash } : incoming(held)), ...changes }
      for (const client of connections.keys()) {
        const message = JSON.stringify({ notification_type: 'payment_received', notification })
        const kind = encryption === 'nip04' ? KINDS.oldNotification : KINDS.notification
        relaySay(kind, [['p', client]], conversationWith(client).encrypt(message, encryption))
      }
    },
    close: () => relay.close()
  }
  fake.announce()
  return fake
}
