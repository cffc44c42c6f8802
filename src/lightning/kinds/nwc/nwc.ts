import { LRUCache } from 'lru-cache'
import { fitting, readResponse } from '../../../engine/formats/response-schema.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import { JsonRecord, ProviderRefused, unusableResponse, requireResponse } from '../../provider-calls/errors.ts'
import { lightningCharge, agreedNetwork } from '../../provider-calls/lightning-charge.ts'
import { unclear } from '../../provider-calls/pay-once.ts'
import type { Charge, ChargeRequest, KeyVerdict, Provider } from '../../provider-calls/provider.ts'
import { goodKey, KEY_CHECK, listPages, walletProvider } from '../../provider-calls/wallet-provider.ts'
import {
  NwcInfo,
  NwcInvoice,
  NwcPage,
  nwcPayment,
  nwcState,
  readAnnouncement,
  readNwcTransaction,
  readPaid,
  type Announcement,
  type NwcTransaction
} from './responses.ts'
import { NO_ENCRYPTION, NwcCalls, type NwcWallet } from './calls.ts'
import { WalletSilent } from './faults.ts'
import { addressKeyKind, type KindOptions } from '../kind.ts'
import { readNwcKey } from './key.ts'

/** Transactions per page, since relays carry small messages. */
const PAGE = 20
/** Milliseconds before retrying a connection that may not list. */
const UNLISTED = 3_600_000
/** Codes that certainly mean a payment was not sent; those of any method throw. */
const BEFORE_SENDING = new Set(['QUOTA_EXCEEDED', 'INSUFFICIENT_BALANCE'])
/** Codes with the general meaning: nothing was sent. */
const OF_ANY_METHOD = new Set([
  'UNAUTHORIZED',
  'EXPIRED',
  'UNSUPPORTED_ENCRYPTION',
  'RESTRICTED',
  'NOT_IMPLEMENTED',
  'RATE_LIMITED'
])
const NEEDED = ['make_invoice', 'lookup_invoice'] as const

/**
 * A wallet over Nostr Wallet Connect (NIP-47). The key is the connection's address; charge ids are payment hashes
 * (decision 116). The connection needs `make_invoice` and `lookup_invoice`, should have `list_transactions`, and
 * refunds need `pay_invoice`.
 *
 * Known gaps:
 * - most wallets answer a deleted connection with silence, as when offline: errors name both;
 * - payments take no fee limit;
 * - lists are ordered by creation or last change, so everything since the oldest open invoice is read;
 * - relays that require authentication (NIP-42) are not supported.
 */
function open(options: KindOptions): Provider {
  const { clock } = options
  const calls = new NwcCalls(options)
  /** Connections that may not list, with the time of the next try. */
  const unlisted = new LRUCache<string, number>({ max: 1000 })
  const transactionOf = async (wallet: NwcWallet, paymentHash: string): Promise<NwcTransaction | null> => {
    const response = await wallet.ask('lookup_invoice', { payment_hash: paymentHash }, code => code === 'NOT_FOUND')
    if ('error' in response) return null
    const transaction = readNwcTransaction(response.result, clock.now())
    if (transaction?.paymentHash !== paymentHash) throw unusableResponse('a transaction of another hash')
    return transaction
  }
  return walletProvider<readonly [NwcWallet]>('nwc', calls, {
    // Some wallets do not notify, and none can while the relay is disconnected.
    payout: { lightning: true, chain: false, mostFee: { sats: 10, percent: 1 } },
    createCharge: (request, wallet) => newInvoice(wallet, request),
    lookUp: async (chargeId, wallet) => {
      const transaction = await transactionOf(wallet, chargeId)
      if (transaction === null) return null
      // A wallet that paid its own invoice may return the outgoing half, which settles with the other.
      const isHalf = transaction.type === 'outgoing' && transaction.state !== 'settled'
      return nwcState(isHalf ? { ...transaction, state: 'pending' } : transaction, clock.now())
    },
    /** Incoming payments since the oldest open invoice's creation. A shifted page repeats entries, never skips. */
    listSettled: ({ since, oldest, position }, wallet) =>
      listPages(position, clock, 0, async offset => {
        if ((unlisted.get(wallet.key.origin) ?? 0) > clock.now()) return null
        const from = Math.floor(Math.min(since, oldest) / 1000)
        const response = await wallet.ask(
          'list_transactions',
          { from, limit: PAGE, offset, unpaid: false, type: 'incoming' },
          code => code === 'RESTRICTED' || code === 'NOT_IMPLEMENTED'
        )
        if ('error' in response) {
          unlisted.set(wallet.key.origin, clock.now() + UNLISTED)
          return null
        }
        const page = requireResponse(NwcPage, response.result).transactions
        const charges = fitting(page.map(one => readNwcTransaction(one, clock.now())))
          .filter(({ type, state }) => type !== 'outgoing' && state === 'settled')
          .filter(({ settledAt }) => (settledAt ?? Infinity) >= Math.floor(since / 1000) * 1000)
          .map(transaction => ({ chargeId: transaction.paymentHash, state: nwcState(transaction, clock.now()) }))
        // Some return short pages, so only an empty one is the last.
        return { charges, next: page.length === 0 ? null : offset + page.length }
      }),
    /** `payment_received`, which many wallets send. */
    follow: (key, signal, settled) =>
      calls.follow(key, signal, wallet =>
        wallet.listen(message => {
          const { notification_type: type, notification } = readResponse(JsonRecord, message) ?? {}
          const payment = readNwcTransaction(notification, clock.now())
          if (type === 'payment_received' && payment?.type !== 'outgoing' && payment?.state === 'settled')
            settled({ chargeId: payment.paymentHash, state: null })
        })
      ),
    /** Reads the announcement and the connection's rights, and makes an invoice. */
    checkKey: async wallet => {
      const event = await silentAs(silence(false), wallet.announced())
      const announced = event === null ? null : readAnnouncement(event)
      if (announced?.encryption === null) return { isValid: false, message: NO_ENCRYPTION }
      return await silentAs(silence(announced !== null), tried(wallet, announced))
    },
    payments: {
      find: async ({ paymentHash, expiresAt }, wallet) => {
        const transaction = await transactionOf(wallet, paymentHash)
        if (transaction === null || transaction.type === 'incoming') return null
        return nwcPayment(transaction, expiresAt * 1000, clock.now())
      },
      send: async ({ invoice, paymentHash, isAmountless, amountSats }, wallet) => {
        const response = await wallet.ask(
          'pay_invoice',
          { invoice, ...(isAmountless ? { amount: amountSats * 1000 } : {}) },
          code => !OF_ANY_METHOD.has(code)
        )
        if ('error' in response) {
          const { code, said } = response.error
          return { outcome: 'refused', message: `The wallet did not pay: ${said}`, isBefore: BEFORE_SENDING.has(code) }
        }
        const payment = readPaid(response.result, paymentHash, clock.now())
        return payment === null ? unclear('a payment without its preimage') : { outcome: 'sent', payment }
      }
    }
  })
}

async function newInvoice(
  wallet: NwcWallet,
  { amountSats, description, expirySeconds, hashed }: ChargeRequest
): Promise<Charge> {
  const response = await wallet.ask(
    'make_invoice',
    {
      amount: amountSats * 1000,
      ...(hashed === undefined
        ? { description: shortDescription(description.toWellFormed()) }
        : { description_hash: hashed.hash }),
      expiry: expirySeconds
    },
    code => hashed !== undefined && code === 'NOT_IMPLEMENTED'
  )
  if ('error' in response)
    throw new ProviderRefused('request', 'The wallet makes no invoices with the hash of a description.')
  const { invoice, payment_hash } = requireResponse(NwcInvoice, response.result)
  return lightningCharge(invoice, payment_hash, amountSats)
}

async function tried(wallet: NwcWallet, announced: Announcement | null): Promise<KeyVerdict> {
  const response = await wallet.ask('get_info', {}, code => code === 'RESTRICTED' || code === 'NOT_IMPLEMENTED')
  const info = 'result' in response ? readResponse(NwcInfo, response.result) : null
  // Rights as `get_info` or the announcement has them; otherwise tried out.
  const said = info === null || info.methods.length === 0 ? null : new Set(info.methods)
  const methods = said ?? announced?.methods ?? new Set<string>(NEEDED)
  const missing = NEEDED.filter(method => !methods.has(method))
  if (missing.length > 0) return { isValid: false, message: lacking(missing) }
  const { network } = await newInvoice(wallet, KEY_CHECK)
  return goodKey(
    'The wallet',
    agreedNetwork(info?.network ?? null, network),
    methods.has('pay_invoice') ? null : 'a connection with pay_invoice',
    [
      ...(methods.has('list_transactions')
        ? []
        : [
            'Without list_transactions a payment may be detected only after a minute, unless the wallet sends notifications.'
          ]),
      ...(announced?.encryption === 'nip04' ? ['It encrypts by NIP-04 alone; a newer version of it takes NIP-44.'] : [])
    ]
  )
}

/**
 * Treats a silent wallet as unusable.
 * @throws ProviderRefused 'key'
 */
async function silentAs<T>(message: string, request: Promise<T>): Promise<T> {
  return await request.catch((error: unknown) => {
    throw error instanceof WalletSilent ? new ProviderRefused('key', message) : error
  })
}

function lacking(missing: readonly string[]): string {
  return `The connection lacks ${missing.join(' and ')}: make one in the wallet that may create invoices and look them up.`
}

function silence(isAnnounced: boolean): string {
  return isAnnounced
    ? 'The wallet is known to its relay and does not answer this key: it is offline, or the connection was deleted in it.'
    : 'No wallet answers this key, and its relay knows none: it is offline, the connection was deleted in it, or the relay is another.'
}

/** Wallets and relays publish no limits: ours spare them. */
export const nwc = addressKeyKind(readNwcKey, {
  name: 'nwc',
  limits: { burst: 120, perMinute: 600 },
  polling: { perMinute: 60, costs: { list: 2, lookUp: 1 } },
  scopes: [
    { scope: 'make_invoice', purpose: 'Make invoices' },
    { scope: 'lookup_invoice', purpose: 'See whether invoices were paid' },
    { scope: 'get_info', purpose: 'Check the key' },
    { scope: 'list_transactions', purpose: 'Find what was paid sooner than after a minute' },
    { scope: 'pay_invoice', purpose: 'Refunds' }
  ],
  hashesDescriptions: 'shared',
  about: 'wallet with Nostr Wallet Connect, such as Alby Hub',
  keyHint: 'A connection that your wallet shows: nostr+walletconnect://…',
  open
})
