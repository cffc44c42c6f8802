import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { InvoiceStock, Payee, InOrder } from '../../lightning/providers/payee.ts'
import type { Charge, ChargeRequest, ChargeState, KindName } from '../../lightning/provider-calls/provider.ts'
import type { ChargeSources } from '../holding/charge-polls.ts'
import type { Offer } from '../offers/offer.ts'
import type { Challenge } from '../holding/challenge.ts'

export type MadeCharge = Pick<Charge, 'chargeId' | 'invoice' | 'paymentHash' | 'expiresAt' | 'network'>

export interface ChallengePayee extends InOrder<ChallengePayee> {
  readonly slot: string
  readonly kind: string
  readonly ahead?: InvoiceStock | null
  createInvoice(request: ChargeRequest): Promise<MadeCharge>
  lookUp?(chargeId: string): Promise<ChargeState | null>
}

/** @throws ProviderKeyRequired, ConfigurationMissing */
export type FindPayee = (offer: Offer) => ChallengePayee | Promise<ChallengePayee>

export interface FindPayeeDependencies {
  readonly merchants: Pick<Merchants, 'byId'>
  readonly payees: Pick<Payees, 'platform' | 'forMerchant' | 'maker' | 'inOrder'>
  /** Called for each invoice a provider made; account null for the operator. Never throws. */
  charged(account: Merchant | null, slot: ProviderSlot, kind: KindName): void
}

export function payeeOf({ merchants, payees, charged }: FindPayeeDependencies): FindPayee {
  const charging = (account: Merchant | null, payee: Payee): ChallengePayee => ({
    slot: payee.slot,
    kind: payee.kind,
    ahead: payee.ahead,
    lookUp: chargeId => payee.lookUp(chargeId),
    createInvoice: async request => {
      const charge = await payee.createInvoice(request)
      // Not before: an unreachable provider would use up the registration attempt of its first invoice.
      charged(account, payee.slot, payee.kind)
      return charge
    },
    instead: payee.instead === undefined || payee.instead === null ? null : charging(account, payee.instead)
  })
  return async offer => {
    if (offer.payee === 'platform') return charging(null, payees.platform())
    const merchant = await merchants.byId(Number(offer.merchantId))
    if (merchant === null)
      throw new TypeError(`an offer names merchant ${offer.merchantId ?? 'null'}, who does not exist`)
    return charging(merchant, payees.forMerchant(merchant))
  }
}

/** Charges at the accounts that made them. Look-ups throw as `Payee.lookUp`. */
export function chargesOf({ merchants, payees }: Pick<FindPayeeDependencies, 'merchants' | 'payees'>): ChargeSources {
  const seatOf = ({ providerSlot, providerKind }: Challenge) =>
    // Only payees' slots are written.
    payees.inOrder(providerSlot as ProviderSlot).find(({ name }) => name === providerKind)
  return {
    lookUp: async ({ merchantId, providerSlot, providerKind, chargeId }) => {
      const merchant = merchantId === null ? null : await merchants.byId(Number(merchantId))
      if (merchantId !== null && merchant === null) return null
      // Only payees' slots are written.
      const maker = payees.maker(merchant, providerSlot as ProviderSlot, providerKind)
      return maker === null ? null : await maker.lookUp(chargeId)
    },
    countedOf: challenge => {
      const seat = seatOf(challenge)
      const { providerSlot, providerKind, merchantId } = challenge
      return seat?.polling?.isShared === true
        ? seat.provider.kind
        : `${providerSlot} ${providerKind} ${merchantId ?? ''}`
    },
    isShared: challenge => seatOf(challenge)?.isShared ?? true
  }
}
