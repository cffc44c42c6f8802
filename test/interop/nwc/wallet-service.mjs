// Alby's wallet service (NIP-47) behind a relay of @nostr-relay/core, each as published; nwc.test.ts starts it and is asked what
// the wallet answers. Messages to it: {connect: public key of a client}, {answer: id, ...}, {notify: public key, content}.
import { NWCWalletService, NWCWalletServiceKeyPair } from '@getalby/sdk'
import { EventRepository } from '@nostr-relay/common'
import { NostrRelay } from '@nostr-relay/core'
import { finalizeEvent, generateSecretKey, getPublicKey, nip44 } from 'nostr-tools'
import { WebSocketServer } from 'ws'

/** Keeps the newest event of each author and kind: announcements are all that is kept here. */
class Kept extends EventRepository {
  events = new Map()

  isSearchSupported() {
    return false
  }

  upsert(event) {
    this.events.set(`${event.kind} ${event.pubkey}`, event)
    return { isDuplicate: false }
  }

  find({ kinds, authors }) {
    return [...this.events.values()].filter(
      ({ kind, pubkey }) => (kinds?.includes(kind) ?? true) && (authors?.includes(pubkey) ?? true)
    )
  }

  async destroy() {}
}

const relay = new NostrRelay(new Kept(), {
  // The service has one for each of its clients; as it comes, the relay forgets all but the last 20.
  maxSubscriptionsPerClient: 1000,
  logger: { setLogLevel() {}, debug() {}, info() {}, warn() {}, error() {} }
})
const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
let connections = 0
server.on('connection', socket => {
  connections++
  relay.handleConnection(socket)
  socket.on('message', data => {
    void relay.handleMessage(socket, JSON.parse(String(data)))
  })
  socket.on('close', () => relay.handleDisconnect(socket))
})
await new Promise(resolve => server.once('listening', resolve))
const url = `ws://127.0.0.1:${server.address().port}`
const secret = Buffer.from(generateSecretKey()).toString('hex')
const pubkey = getPublicKey(Buffer.from(secret, 'hex'))
const service = new NWCWalletService({ relayUrls: [url] })

let asked = 0
const waiting = new Map()
const ask = method => params =>
  new Promise(resolve => {
    const id = ++asked
    waiting.set(id, resolve)
    process.send({ id, method, params: params ?? {} })
  })
const handler = {
  getInfo: ask('get_info'),
  makeInvoice: ask('make_invoice'),
  lookupInvoice: ask('lookup_invoice'),
  listTransactions: ask('list_transactions'),
  payInvoice: ask('pay_invoice')
}

process.on('message', message => {
  if (message.connect !== undefined) {
    service.subscribe(new NWCWalletServiceKeyPair(secret, message.connect), handler).then(
      () => process.send({ connected: message.connect, connections }),
      error => process.send({ failed: String(error) })
    )
  } else if (message.notify !== undefined) {
    const content = nip44.encrypt(message.content, nip44.getConversationKey(Buffer.from(secret, 'hex'), message.notify))
    const told = { kind: 23197, created_at: Math.floor(Date.now() / 1000), tags: [['p', message.notify]], content }
    void relay.broadcast(finalizeEvent(told, Buffer.from(secret, 'hex')))
  } else {
    waiting.get(message.answer)?.({ result: message.result, error: message.error })
    waiting.delete(message.answer)
  }
})

await service.publishWalletServiceInfoEvent(
  secret,
  ['get_info', 'make_invoice', 'lookup_invoice', 'list_transactions', 'pay_invoice'],
  ['payment_received']
)
process.send({ relay: url, pubkey })
