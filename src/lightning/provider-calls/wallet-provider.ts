import type { InvoiceNetwork } from '../codecs/bolt11.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { CallPriority } from './budgets.ts'
import { ProviderRefused } from './errors.ts'
import {
  KeyedCalls,
  type KeyedCall,
  type KeyedKind,
  type KeyedOptions,
  type KeyedServer,
  type KeyedStream
} from './keyed-calls.ts'
import { PAYMENT_HASH, requireSats } from './lightning-charge.ts'
import { feeLimit, payable, payOnce, type PayableInvoice, type Sending, type SentPayment } from './pay-once.ts'
import type {
  Capabilities,
  Charge,
  ChargeRequest,
  ChargeState,
  FiatChargeRequest,
  KeyVerdict,
  KindName,
  Payout,
  PayoutRequest,
  Provider,
  SettledCharge,
  SettledList,
  SettledSince
} from './provider.ts'

export interface WalletCalls<At extends readonly unknown[]> {
  /** Runs calls under one time limit, on behalf of `standing`. */
  within<T>(key: Secret<string> | null, run: (...at: At) => Promise<T>, priority?: CallPriority): Promise<T>
  close(): Promise<void>
}

/** An invoice to pay, with `amountSats` for one without an amount. */
export interface LightningSend extends PayableInvoice {
  readonly amountSats: number
  /** Where a kind takes a limit. */
  readonly feeLimitSats: number
}

interface Payouts<At extends readonly unknown[]> {
  create(request: PayoutRequest, ...at: At): Promise<Payout>
  lookUp(request: PayoutRequest, payoutId: string | null, ...at: At): Promise<Payout | null>
}

/**
 * What a kind says of its service. Each function runs within one time limit and gets what the kind calls with (`At`)
 * last. `Provider` specifies them.
 */
export interface WalletWire<At extends readonly unknown[]>
  extends Pick<Provider, 'readNotification' | 'follow'>, Pick<Partial<Capabilities>, 'onchain' | 'hostedCheckout'> {
  /** Other than false. */
  readonly notifies?: true
  /** Null in kinds that only receive. */
  readonly payout: Capabilities['payout'] | null
  createCharge(request: ChargeRequest, ...at: At): Promise<Charge>
  createFiatCharge?(request: FiatChargeRequest, ...at: At): Promise<Charge>
  /** Whether text can be a charge's id; a payment hash by default. */
  isChargeId?(text: string): boolean
  lookUp(chargeId: string, ...at: At): Promise<ChargeState | null>
  /**
   * Validates a key with an invoice of 1 satoshi.
   * @throws ProviderRefused for a bad key
   */
  checkKey(...at: At): Promise<KeyVerdict>
  listSettled?(wanted: SettledSince, ...at: At): Promise<SettledList>
  /** Registers `url` and returns the subscription's id. */
  subscribe?(url: string, secret: Secret<string>, ...at: At): Promise<string>
  /** Payouts of kinds that find a payment by its hash, and pay none twice. */
  readonly payments?: {
    find(invoice: PayableInvoice, ...at: At): Promise<SentPayment | null>
    send(payment: LightningSend, ...at: At): Promise<Sending>
    findOnChain?(request: PayoutRequest, ...at: At): Promise<Payout | null>
    sendOnChain?(request: PayoutRequest, address: string, ...at: At): Promise<Payout>
  }
  readonly payouts?: Payouts<At>
  close?(): void
}

export const KEY_CHECK: ChargeRequest = Object.freeze({ amountSats: 1, description: 'Key check', expirySeconds: 60 })

export function walletProvider<At extends readonly unknown[]>(
  kind: KindName,
  calls: WalletCalls<At>,
  wallet: WalletWire<At>
): Provider {
  const { createFiatCharge, follow, listSettled, readNotification, subscribe } = wallet
  const payouts = wallet.payouts ?? payoutsOf(kind, wallet.payments)
  return {
    kind,
    keyless: false,
    capabilities: Object.freeze({
      onchain: wallet.onchain ?? false,
      hostedCheckout: wallet.hostedCheckout ?? false,
      notifies: wallet.notifies ?? false,
      payout: Object.freeze(wallet.payout ?? { lightning: false, chain: false })
    }),
    createCharge: async (key, request) => {
      requireSats(request.amountSats)
      return await calls.within(key, (...at) => wallet.createCharge(request, ...at), request.priority)
    },
    lookUp: async (key, chargeId) => {
      if (!(wallet.isChargeId?.(chargeId) ?? PAYMENT_HASH.test(chargeId))) return null
      return await calls.within(key, (...at) => wallet.lookUp(chargeId, ...at))
    },
    validateKey: async key => {
      try {
        return await calls.within(key, (...at) => wallet.checkKey(...at))
      } catch (error) {
        if (error instanceof ProviderRefused) return { isValid: false, message: error.message }
        throw error
      }
    },
    close: async () => {
      wallet.close?.()
      await calls.close()
    },
    ...(createFiatCharge && {
      createFiatCharge: (key, request) =>
        calls.within(key, (...at) => createFiatCharge(request, ...at), request.priority)
    }),
    ...(payouts && {
      createPayout: (key, request) => calls.within(key, (...at) => payouts.create(request, ...at)),
      lookUpPayout: (key, request, payoutId) => calls.within(key, (...at) => payouts.lookUp(request, payoutId, ...at))
    }),
    ...(listSettled && { listSettled: (key, wanted) => calls.within(key, (...at) => listSettled(wanted, ...at)) }),
    ...(subscribe && {
      subscribe: async (key, url, secret) => ({
        subscriptionId: await calls.within(key, (...at) => subscribe(url, secret, ...at))
      })
    }),
    ...(readNotification && { readNotification }),
    ...(follow && { follow })
  }
}

function payoutsOf<At extends readonly unknown[]>(
  kind: KindName,
  payments: WalletWire<At>['payments']
): Payouts<At> | undefined {
  if (payments === undefined) return undefined
  const { find, send, findOnChain, sendOnChain } = payments
  return {
    create: async (request, ...at) => {
      const { destination, amountSats } = request
      if (destination.type === 'ln') {
        const invoice = payable(destination.invoice)
        const feeLimitSats = feeLimit(request)
        return await payOnce({
          find: () => find(invoice, ...at),
          send: () => send({ ...invoice, amountSats, feeLimitSats }, ...at)
        })
      }
      if (sendOnChain !== undefined) return await sendOnChain(request, destination.address, ...at)
      throw new ProviderRefused('request', `No refunds are sent on chain through a provider of the kind ${kind}.`)
    },
    lookUp: async (request, _payoutId, ...at) => {
      const { destination } = request
      if (destination.type === 'ln') return (await find(payable(destination.invoice), ...at))?.payout ?? null
      return (await findOnChain?.(request, ...at)) ?? null
    }
  }
}

/** The provider of a kind whose keys name the host. */
export function keyedProvider<Server extends KeyedServer>(
  kind: KeyedKind<Server>,
  options: KeyedOptions,
  {
    follow,
    ...wallet
  }: Omit<WalletWire<KeyedCall<Server>>, 'follow'> & {
    follow?(stream: KeyedStream<Server>, settled: (charge: SettledCharge) => void): Promise<void>
  }
): Provider {
  const calls = new KeyedCalls(kind, options)
  return walletProvider(kind.kind, calls, {
    ...wallet,
    ...(follow && {
      follow: (key, signal, settled) => calls.follow(key, signal, stream => follow(stream, settled))
    })
  })
}

const MAX_PAGES = 5

/**
 * Reads up to five pages of a list from where the last call ended. A page has the cursor of the next one, null at the
 * end; null instead of a page means that listing is not permitted.
 */
export async function listPages<Cursor>(
  position: string | null,
  clock: Clock,
  first: Cursor,
  read: (
    cursor: Cursor,
    asOf: number
  ) => Promise<{ readonly charges: readonly SettledCharge[]; readonly next: Cursor | null } | null>
): Promise<SettledList> {
  // Written below. Earlier versions wrote no cursor.
  const place = position === null ? {} : (JSON.parse(position) as { readonly asOf?: number; readonly cursor?: Cursor })
  const { asOf = clock.now() } = place.cursor === undefined ? {} : place
  let { cursor = first } = place
  const charges: SettledCharge[] = []
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await read(cursor, asOf)
    if (page === null) return { charges: [], reach: 'newest', asOf, position: null }
    charges.push(...page.charges)
    if (page.next === null) return { charges, reach: 'whole', asOf, position: null }
    cursor = page.next
  }
  return { charges, reach: 'more', asOf, position: JSON.stringify({ asOf, cursor }) }
}

/**
 * Verdict on a good key.
 * @param by who accepts it, as a sentence's start
 * @param network of its invoices
 * @param refundsNeed what it lacks to pay, or null
 * @param remarks further sentences for its owner
 */
export function goodKey(
  by: string,
  network: InvoiceNetwork,
  refundsNeed: string | null,
  remarks: readonly string[] = []
): KeyVerdict {
  const verdict =
    refundsNeed === null
      ? `${by} accepts this key, makes invoices and pays with it.`
      : `${by} accepts this key and makes invoices with it. It only receives: refunds need ${refundsNeed}.`
  return { isValid: true, message: [verdict, ...remarks].join(' '), network }
}
