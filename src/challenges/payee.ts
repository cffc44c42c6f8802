import type { Merchant } from '../merchants/schema.ts'
import type { Merchants } from '../merchants/service.ts'
import type { ProviderSlot } from '../providers/account.ts'
import type { Payee, Payees } from '../providers/payees.ts'
import type { FindPayee } from './mint.ts'

/** Who is asked about accounts, and told of invoices. */
export interface FindPayeeParts {
  readonly merchants: Pick<Merchants, 'byId'>
  readonly payees: Pick<Payees, 'platform' | 'forMerchant'>
  /** A provider has made an invoice for an account, null for the operator. Answers at once and never throws. */
  charged(account: Merchant | null, slot: ProviderSlot): void
}

/** Finds the account at a provider that an offer pays. */
export function payeeOf({ merchants, payees, charged }: FindPayeeParts): FindPayee {
  const charging = (account: Merchant | null, payee: Payee): ReturnType<FindPayee> => ({
    slot: payee.slot,
    kind: payee.kind,
    createInvoice: async request => {
      const charge = await payee.createInvoice(request)
      // Not before: where somebody is to be told of a first invoice, a provider that is away would use up the attempt,
      // and the next one is minutes later.
      charged(account, payee.slot)
      return charge
    }
  })
  return async offer => {
    if (offer.payee === 'platform') return await charging(null, payees.platform())
    const merchant = await merchants.byId(Number(offer.merchantId))
    if (merchant === null)
      throw new TypeError(`an offer names merchant ${offer.merchantId ?? 'null'}, who does not exist`)
    return await charging(merchant, payees.forMerchant(merchant))
  }
}
