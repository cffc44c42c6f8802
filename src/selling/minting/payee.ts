import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { InvoicesAhead, Payee, Payees } from '../../lightning/providers/payees.ts'
import type { InOrder } from '../../lightning/providers/failover.ts'
import type { Charge, ChargeRequest, ChargeState, KindName } from '../../lightning/providers/provider.ts'
import type { Offer } from '../offers/offer.ts'
import type { Challenge } from '../holding/challenge.ts'

/** What a payee gives for an invoice. */
export type MadeCharge = Pick<Charge, 'chargeId' | 'invoice' | 'paymentHash' | 'expiresAt' | 'network'>

/** Who is paid for an offer: one provider account, and who is instead of it where that cannot make the invoice. */
export interface ChallengePayee extends InOrder<ChallengePayee> {
  readonly slot: string
  readonly kind: string
  /** Null, or left out, where no invoice is made before somebody asks. */
  readonly ahead?: InvoicesAhead | null
  createInvoice(request: ChargeRequest): Promise<MadeCharge>
  /** How one that was made before stands; left out where nobody asks. */
  lookUp?(chargeId: string): Promise<ChargeState | null>
}

/** Finds who is paid for an offer. Throws `ProviderKeyRequired` or `ConfigurationMissing` when nobody can be. */
export type FindPayee = (offer: Offer) => ChallengePayee | Promise<ChallengePayee>

/** Who is asked about accounts, and told of invoices. */
export interface FindPayeeParts {
  readonly merchants: Pick<Merchants, 'byId'>
  readonly payees: Pick<Payees, 'platform' | 'forMerchant' | 'maker' | 'inOrder'>
  /** A provider has made an invoice for an account, null for the operator. Answers at once and never throws. */
  charged(account: Merchant | null, slot: ProviderSlot, kind: KindName): void
}

/** Finds the account at a provider that an offer pays. */
export function payeeOf({ merchants, payees, charged }: FindPayeeParts): FindPayee {
  const charging = (account: Merchant | null, payee: Payee): ChallengePayee => ({
    slot: payee.slot,
    kind: payee.kind,
    ahead: payee.ahead,
    lookUp: chargeId => payee.lookUp(chargeId),
    createInvoice: async request => {
      const charge = await payee.createInvoice(request)
      // Not before: where somebody is to be told of a first invoice, a provider that is away would use up the attempt,
      // and the next one is minutes later.
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

/**
 * Asks how a challenge's charge stands at the account that made it; null where that is not there any more. Throws what `Payee.lookUp` does.
 */
export function lookUpOf({ merchants, payees }: Pick<FindPayeeParts, 'merchants' | 'payees'>) {
  return async (challenge: Challenge): Promise<ChargeState | null> => {
    const { merchantId, providerSlot, providerKind, chargeId } = challenge
    const merchant = merchantId === null ? null : await merchants.byId(Number(merchantId))
    if (merchantId !== null && merchant === null) return null
    // What was written there came from a payee's own slot.
    const maker = payees.maker(merchant, providerSlot as ProviderSlot, providerKind)
    return maker === null ? null : await maker.lookUp(chargeId)
  }
}

/** Names whose calls the provider of a challenge counts: those of one account, or of all that call it. */
export function countedOf({ payees }: Pick<FindPayeeParts, 'payees'>) {
  return ({ merchantId, providerSlot, providerKind }: Challenge): string => {
    // What was written there came from a payee's own slot.
    const seat = payees.inOrder(providerSlot as ProviderSlot).find(({ name }) => name === providerKind)
    return seat?.polling?.isShared === true ? seat.provider.kind : `${providerSlot} ${providerKind} ${merchantId ?? ''}`
  }
}
