import { LRUCache } from 'lru-cache'
import type { Secret } from '../../../platform/keys/secrets.ts'
import { fitting, readResponse } from '../../../engine/formats/response-schema.ts'
import { shortDescription } from '../../codecs/bolt11.ts'
import { ProviderRefused, unusableResponse } from '../../provider-calls/errors.ts'
import type { KeyedOptions } from '../../provider-calls/keyed-calls.ts'
import { lightningCharge, PAYMENT_HASH } from '../../provider-calls/lightning-charge.ts'
import { agreedNetwork } from '../../provider-calls/network.ts'
import { payable, type LightningSend, type Sending, type SentPayment } from '../../provider-calls/pay-once.ts'
import type {
  Capabilities,
  Charge,
  ChargeRequest,
  ChargeState,
  KeyVerdict,
  Provider,
  SettledCharge,
  SettledList,
  SettledSince
} from '../../providers/provider.ts'
import { requireResponse } from '../../provider-calls/responses.ts'
import { goodKey, KEY_CHECK, PayingProvider } from '../../provider-calls/wallet-provider.ts'
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
import { News } from './news.ts'
import { WalletSilent } from './faults.ts'
import { addressKeyFault, addressKeyHost } from '../../provider-calls/address-key.ts'
import type { ProviderKind } from '../kind.ts'
import { readNwcKey } from './key.ts'

/** What the kind needs. */
export interface NwcOptions extends KeyedOptions {
  /** Told of each payment that a wallet told of; does not reject. */
  settled(paymentHash: string): Promise<void>
}

const capabilities: Capabilities = Object.freeze({
  onchain: false,
  hostedCheckout: false,
  // Not every wallet tells, and none while the connection to its relay is broken.
  notifies: false,
  payout: Object.freeze({ lightning: true, chain: false, mostFee: { sats: 10, percent: 1 } })
})

/** Transactions of one page, since relays carry small messages, and pages of one call. */
const PAGE = 20
const MAX_PAGES = 5
/** Milliseconds for which a connection that may not list is not asked to. */
const UNLISTED = 3_600_000
/** Codes with which a payment is surely turned down before it is sent; those of any method are thrown. */
const BEFORE_SENDING = new Set(['QUOTA_EXCEEDED', 'INSUFFICIENT_BALANCE'])
/** Codes that mean the same for a payment as for everything else, and nothing was sent. */
const OF_ANY_METHOD = new Set([
  'UNAUTHORIZED',
  'EXPIRED',
  'UNSUPPORTED_ENCRYPTION',
  'RESTRICTED',
  'NOT_IMPLEMENTED',
  'RATE_LIMITED'
])
/** What a connection must be able to do. */
const NEEDED = ['make_invoice', 'lookup_invoice'] as const

/** Where a listing was left. */
interface Place {
  readonly asOf: number
  readonly offset: number
}

/**
 * A wallet over Nostr Wallet Connect (NIP-47). The key is the address of a connection as the wallet shows it; the id of a
 * charge is its payment hash (decision 116). The connection needs `make_invoice` and `lookup_invoice`, should have
 * `list_transactions`, and for refunds needs `pay_invoice`.
 *
 * Known gaps:
 * - a connection that was deleted is answered by most wallets with silence, as one that is offline is: it is told as both;
 * - wallets take no limit for the fee of a payment;
 * - what was paid is listed by when it was made or when it last changed, as the wallet likes, so that everything since the
 *   oldest open invoice is read;
 * - relays that want to know who asks (NIP-42) are not spoken to.
 */
export class NwcProvider extends PayingProvider<readonly [NwcWallet]> implements Provider {
  readonly kind = 'nwc'
  readonly capabilities = capabilities
  readonly #options: NwcOptions
  readonly #news: News
  /** Connections that may not list, with until when that is believed. */
  readonly #unlisted = new LRUCache<string, number>({ max: 1000 })

  /** @throws AddressKeyError for an operator's key that is none */
  constructor(options: NwcOptions) {
    super(new NwcCalls(options))
    this.#options = options
    this.#news = new News(options.clock, paymentHash => options.settled(paymentHash))
  }

  async lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    if (!PAYMENT_HASH.test(chargeId)) return null
    return await this.calls.within(key, async wallet => {
      const transaction = await this.#transaction(wallet, chargeId)
      if (transaction === null) return null
      // A wallet that paid its own invoice may answer with the half that goes out, which settles with the other alone.
      const isHalf = transaction.type === 'outgoing' && transaction.state !== 'settled'
      return nwcState(isHalf ? { ...transaction, state: 'pending' } : transaction, this.#options.clock.now())
    })
  }

  /** What came in since the oldest open invoice was made. A page that moves while it is read repeats, and skips nothing. */
  async listSettled(key: Secret<string>, { since, oldest, position }: SettledSince): Promise<SettledList> {
    const { clock } = this.#options
    // Written by this file alone.
    const place = position === null ? null : (JSON.parse(position) as Place)
    const { asOf, offset: first } = place ?? { asOf: clock.now(), offset: 0 }
    return await this.calls.within(key, async wallet => {
      const unlisted: SettledList = { charges: [], reach: 'newest', asOf, position: null }
      if ((this.#unlisted.get(wallet.key.origin) ?? 0) > clock.now()) return unlisted
      const charges: SettledCharge[] = []
      let offset = first
      for (let pages = 0; pages < MAX_PAGES; pages++) {
        const page = await this.#page(wallet, Math.min(since, oldest), offset)
        if (page === null) {
          this.#unlisted.set(wallet.key.origin, clock.now() + UNLISTED)
          return unlisted
        }
        for (const transaction of fitting(page.map(one => readNwcTransaction(one, clock.now())))) {
          // Filters that a wallet does not know are left out by it without a word.
          if (transaction.type === 'outgoing' || transaction.state !== 'settled') continue
          if ((transaction.settledAt ?? Infinity) < Math.floor(since / 1000) * 1000) continue
          charges.push({ chargeId: transaction.paymentHash, state: nwcState(transaction, clock.now()) })
        }
        // Some give fewer than they were asked for, so that only an empty page is the last.
        if (page.length === 0) return { charges, reach: 'whole', asOf, position: null }
        offset += page.length
      }
      return { charges, reach: 'more', asOf, position: JSON.stringify({ asOf, offset } satisfies Place) }
    })
  }

  override async close(): Promise<void> {
    this.#news.close()
    await super.close()
  }

  protected async makeCharge(request: ChargeRequest, wallet: NwcWallet): Promise<Charge> {
    const charge = await newInvoice(wallet, request)
    // What is made for nobody yet is for routes, whose payers show that they paid.
    if (request.standing !== 'ahead') this.#news.expect(wallet, charge.paymentHash, charge.expiresAt)
    return charge
  }

  /** Reads the wallet's announcement and what this connection may do, and makes an invoice. */
  protected async tryKey(wallet: NwcWallet): Promise<KeyVerdict> {
    const event = await silentAs(silence(false), wallet.announced())
    const announced = event === null ? null : readAnnouncement(event)
    if (announced?.encryption === null) return { isValid: false, message: NO_ENCRYPTION }
    return await silentAs(silence(announced !== null), tried(wallet, announced))
  }

  /** Null where the connection may not list. */
  async #page(wallet: NwcWallet, from: number, offset: number): Promise<readonly unknown[] | null> {
    const response = await wallet.ask(
      'list_transactions',
      { from: Math.floor(from / 1000), limit: PAGE, offset, unpaid: false, type: 'incoming' },
      code => code === 'RESTRICTED' || code === 'NOT_IMPLEMENTED'
    )
    if ('error' in response) return null
    return requireResponse(NwcPage, response.result).transactions
  }

  async #transaction(wallet: NwcWallet, paymentHash: string): Promise<NwcTransaction | null> {
    const response = await wallet.ask('lookup_invoice', { payment_hash: paymentHash }, code => code === 'NOT_FOUND')
    if ('error' in response) return null
    const transaction = readNwcTransaction(response.result, this.#options.clock.now())
    if (transaction?.paymentHash !== paymentHash) throw unusableResponse('a transaction of another hash')
    return transaction
  }

  protected async findPayment(invoice: string, wallet: NwcWallet): Promise<SentPayment | null> {
    const { paymentHash, expiresAt } = payable(invoice)
    const transaction = await this.#transaction(wallet, paymentHash)
    if (transaction === null || transaction.type === 'incoming') return null
    return nwcPayment(transaction, expiresAt * 1000, this.#options.clock.now())
  }

  protected async sendPayment({ invoice, amountSats }: LightningSend, wallet: NwcWallet): Promise<Sending> {
    const { paymentHash, isAmountless } = payable(invoice)
    const response = await wallet.ask(
      'pay_invoice',
      { invoice, ...(isAmountless ? { amount: amountSats * 1000 } : {}) },
      code => !OF_ANY_METHOD.has(code)
    )
    if ('error' in response) {
      const { code, said } = response.error
      return { outcome: 'refused', message: `The wallet did not pay: ${said}`, isBefore: BEFORE_SENDING.has(code) }
    }
    const payment = readPaid(response.result, paymentHash, this.#options.clock.now())
    return payment === null
      ? { outcome: 'unclear', cause: unusableResponse('a payment without its preimage') }
      : { outcome: 'sent', payment }
  }
}

async function newInvoice(
  wallet: NwcWallet,
  { amountSats, description, expirySeconds }: ChargeRequest
): Promise<Charge> {
  const response = await wallet.ask('make_invoice', {
    amount: amountSats * 1000,
    description: shortDescription(description.toWellFormed()),
    expiry: expirySeconds
  })
  // No error was asked for.
  const { invoice, payment_hash } = requireResponse(NwcInvoice, 'result' in response ? response.result : null)
  return lightningCharge(invoice, payment_hash, amountSats)
}

async function tried(wallet: NwcWallet, announced: Announcement | null): Promise<KeyVerdict> {
  const response = await wallet.ask('get_info', {}, code => code === 'RESTRICTED' || code === 'NOT_IMPLEMENTED')
  const info = 'result' in response ? readResponse(NwcInfo, response.result) : null
  // What it may do is as the wallet says, else as it announces itself to all; where neither says anything it is tried out.
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
        : ['Without list_transactions a payment may be noticed only after a minute, unless the wallet tells of it.']),
      ...(announced?.encryption === 'nip04' ? ['It encrypts by NIP-04 alone; a newer version of it takes NIP-44.'] : [])
    ]
  )
}

/** A wallet that says nothing is told as one that cannot be used. @throws ProviderRefused 'key' */
async function silentAs<T>(message: string, asked: Promise<T>): Promise<T> {
  return await asked.catch((error: unknown) => {
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

/** A wallet over Nostr Wallet Connect. Wallets and relays publish no limits: ours spare them. */
export const nwc: ProviderKind = {
  name: 'nwc',
  isSandbox: false,
  calls: {
    address: null,
    counted: 'key',
    limits: (_url, perMinute) => ({
      ofAddress: {},
      ofAccount: perMinute === null ? { burst: 120, perMinute: 600 } : { burst: perMinute, perMinute }
    }),
    polling: () => ({ perMinute: 60, isShared: false, costs: { list: 2, lookUp: 1 } }),
    hostOf: addressKeyHost('nwc', readNwcKey)
  },
  scopes: [
    { scope: 'make_invoice', purpose: 'Make invoices' },
    { scope: 'lookup_invoice', purpose: 'See whether one was paid' },
    { scope: 'get_info', purpose: 'Check the key' },
    { scope: 'list_transactions', purpose: 'Find what was paid sooner than after a minute' },
    { scope: 'pay_invoice', purpose: 'Refunds' }
  ],
  keyFault: addressKeyFault(readNwcKey),
  open: options => new NwcProvider(options)
}
