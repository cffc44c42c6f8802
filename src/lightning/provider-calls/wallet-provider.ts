import type { InvoiceNetwork } from '../codecs/bolt11.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { CallPriority } from './budgets.ts'
import { ProviderRefused } from './errors.ts'
import { requireSats } from './lightning-charge.ts'
import { feeLimit, payOnce, type LightningSend, type Sending, type SentPayment } from './pay-once.ts'
import type { Charge, ChargeRequest, KeyVerdict, KindName, Payout, PayoutRequest } from './provider.ts'

export interface WalletCalls<At extends readonly unknown[]> {
  /** Runs calls under one time limit, on behalf of `standing`. */
  within<T>(key: Secret<string> | null, run: (...at: At) => Promise<T>, standing?: CallPriority): Promise<T>
  close(): Promise<void>
}

export const KEY_CHECK: ChargeRequest = Object.freeze({ amountSats: 1, description: 'Key check', expirySeconds: 60 })

/** What wallet and node providers share; kinds define the wire. */
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

  protected abstract makeCharge(request: ChargeRequest, ...at: At): Promise<Charge>
  /**
   * Validates a key with an invoice of 1 satoshi.
   * @throws ProviderRefused for a bad key
   */
  protected abstract tryKey(...at: At): Promise<KeyVerdict>
}

export abstract class PayingProvider<At extends readonly unknown[]> extends ReceivingProvider<At> {
  /** The payment hash makes it idempotent: none of these kinds pays one twice. */
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

  protected abstract findPayment(invoice: string, ...at: At): Promise<SentPayment | null>
  protected abstract sendPayment(send: LightningSend, ...at: At): Promise<Sending>
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
