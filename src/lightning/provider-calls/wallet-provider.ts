import type { InvoiceNetwork } from '../codecs/bolt11.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { CallStanding } from './budgets.ts'
import { ProviderRefused } from './errors.ts'
import { requireSats } from './lightning-charge.ts'
import { feeLimit, payOnce, type LightningSend, type Sending, type SentPayment } from './pay-once.ts'
import type { Charge, ChargeRequest, KeyVerdict, KindName, Payout, PayoutRequest } from '../providers/provider.ts'

/** How a wallet is asked, with what it is asked by: `KeyedCalls` is one. */
export interface WalletCalls<At extends readonly unknown[]> {
  /** Runs calls with a key under one time limit; `standing` says for whom. */
  within<T>(key: Secret<string> | null, run: (...at: At) => Promise<T>, standing?: CallStanding): Promise<T>
  /** Ends all connections. */
  close(): Promise<void>
}

/** What is asked for where a key is tried. */
export const KEY_CHECK: ChargeRequest = Object.freeze({ amountSats: 1, description: 'Key check', expirySeconds: 60 })

/** What all providers do alike that are wallets or nodes: a kind says what goes over the wire. */
export abstract class ReceivingProvider<At extends readonly unknown[]> {
  abstract readonly kind: KindName
  readonly keyless = false
  protected readonly calls: WalletCalls<At>

  constructor(calls: WalletCalls<At>) {
    this.calls = calls
  }

  async createCharge(key: Secret<string> | null, request: ChargeRequest): Promise<Charge> {
    requireSats(request.amountSats)
    return await this.calls.within(key, (...at) => this.makeCharge(request, ...at), request.standing)
  }

  async validateKey(key: Secret<string>): Promise<KeyVerdict> {
    try {
      return await this.calls.within(key, (...at) => this.tryKey(...at))
    } catch (error) {
      if (error instanceof ProviderRefused) return { isValid: false, message: error.message }
      throw error
    }
  }

  async close(): Promise<void> {
    await this.calls.close()
  }

  /** Asks for an invoice of at least 1 satoshi. */
  protected abstract makeCharge(request: ChargeRequest, ...at: At): Promise<Charge>
  /** Tries what a key may do, with an invoice of 1 satoshi. @throws ProviderRefused for one that is no good */
  protected abstract tryKey(...at: At): Promise<KeyVerdict>
}

/** One that also pays Lightning invoices. */
export abstract class PayingProvider<At extends readonly unknown[]> extends ReceivingProvider<At> {
  /** Pays an invoice with the payment hash as what keeps it single: none of these kinds pays one twice. */
  async createPayout(key: Secret<string> | null, request: PayoutRequest): Promise<Payout> {
    const { destination, amountSats } = request
    if (destination.type !== 'ln')
      throw new ProviderRefused('request', `No refunds are sent on chain through a provider of the kind ${this.kind}.`)
    const { invoice } = destination
    return await this.calls.within(key, (...at) =>
      payOnce({
        find: () => this.findPayment(invoice, ...at),
        send: () => this.sendPayment({ invoice, amountSats, feeLimitSats: feeLimit(request) }, ...at)
      })
    )
  }

  async lookUpPayout(key: Secret<string> | null, { destination }: PayoutRequest): Promise<Payout | null> {
    if (destination.type !== 'ln') return null
    const { invoice } = destination
    return await this.calls.within(key, async (...at) => (await this.findPayment(invoice, ...at))?.payout ?? null)
  }

  /** The payment of an invoice as it stands; null where the wallet knows none. */
  protected abstract findPayment(invoice: string, ...at: At): Promise<SentPayment | null>
  protected abstract sendPayment(send: LightningSend, ...at: At): Promise<Sending>
}

/**
 * The verdict on a key that is good.
 * @param by who accepts it, at the beginning of a sentence
 * @param network what it makes invoices of
 * @param refundsNeed what it lacks to pay; null where it lacks nothing
 * @param remarks sentences on what else its owner should know
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
