import type { ChallengeCharges } from '../../selling/minting/charges.ts'
import type { Settlements } from '../../selling/holding/settlements.ts'
import type { PaymentCharges } from '../payments/charges.ts'
import type { Payments } from '../payments/service.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import { ProviderRefused } from '../../lightning/provider-calls/errors.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { ChargeState, KindName, Provider, SettledCharge } from '../../lightning/provider-calls/provider.ts'
import type { Owner } from './registration.ts'

interface OfAnyKind {
  readonly chargeId: string
  readonly owner: Owner
  readonly isSettled: boolean
}

export type Charged = OfAnyKind &
  (
    | { readonly type: 'payment'; readonly owner: number; readonly invoiceId: string }
    | { readonly type: 'challenge'; readonly paymentHash: string }
  )

interface SettledAccount {
  readonly slot: ProviderSlot
  readonly kind: KindName
  readonly owner: Owner
  readonly provider: Provider
  readonly key: Secret<string>
}

interface ChargesDependencies {
  readonly ofPayments: PaymentCharges
  readonly ofChallenges: ChallengeCharges
  readonly payments: Payments
  readonly settlements: Pick<Settlements, 'settled'>
}

const LONGEST_ID = 200

export class Charges {
  readonly #dependencies: ChargesDependencies

  constructor(dependencies: ChargesDependencies) {
    this.#dependencies = dependencies
  }

  /** What charges of this slot and kind pay for. Ids come from unauthenticated callers: unknown ones are left out. */
  async find(slot: ProviderSlot, kind: KindName, chargeIds: readonly string[]): Promise<Charged[]> {
    // The database rejects queries with other ids.
    const ids = chargeIds.filter(id => id.length <= LONGEST_ID && !id.includes('\0') && id.isWellFormed())
    if (ids.length === 0) return []
    // Always both, so that timing does not reveal which one matched.
    const [payments, challenges] = await Promise.all([
      this.#dependencies.ofPayments.byCharge(slot, kind, ids),
      this.#dependencies.ofChallenges.byCharge(slot, kind, ids)
    ])
    return [
      ...payments.map(({ chargeId, invoiceId, merchantId, status }): Charged => ({
        type: 'payment',
        owner: merchantId,
        chargeId,
        invoiceId,
        isSettled: status === 'paid' || status === 'refunded'
      })),
      ...challenges.map(({ chargeId, paymentHash, merchantId, isSettled }): Charged => ({
        type: 'challenge',
        owner: merchantId,
        chargeId,
        paymentHash,
        isSettled
      }))
    ]
  }

  /**
   * Records the provider's answer to a request made at `askedAt` (milliseconds). Repeated and outdated news change
   * nothing.
   */
  async observe(charged: Charged, seen: ChargeState, polledAt: number): Promise<void> {
    if (charged.type === 'payment')
      await this.#dependencies.payments.observe(
        { merchantId: charged.owner, invoiceId: charged.invoiceId },
        seen,
        polledAt
      )
    else if (seen.status === 'paid') await this.#dependencies.settlements.settled(charged.paymentHash)
  }

  /**
   * Records the charges that a provider lists as settled, and looks up those listed without a state. `found`: new ones.
   * `isAnswered`: the state of each is known.
   */
  async observeSettled(
    { slot, kind, owner, provider, key }: SettledAccount,
    settled: readonly SettledCharge[],
    polledAt: number
  ): Promise<{ readonly found: number; readonly isAnswered: boolean }> {
    const states = new Map(settled.map(({ chargeId, state }) => [chargeId, state]))
    let found = 0
    let isAnswered = true
    for (const charged of await this.find(slot, kind, [...states.keys()])) {
      // Merchants may share an account; each is asked about with its own key.
      if (charged.owner !== owner || charged.isSettled) continue
      // Beyond the budget, but at most twice per payment.
      const seen = states.get(charged.chargeId) ?? (await lookedUp(provider, key, charged.chargeId))
      isAnswered &&= seen !== null
      if (seen === null) continue
      await this.observe(charged, seen, polledAt)
      found++
    }
    return { found, isAnswered }
  }
}

/** Null also when the provider refuses the request: one refused charge must not block the others. */
export async function lookedUp(provider: Provider, key: Secret<string>, chargeId: string): Promise<ChargeState | null> {
  try {
    return await provider.lookUp(key, chargeId)
  } catch (error) {
    if (error instanceof ProviderRefused && error.reason === 'request') return null
    throw error
  }
}
