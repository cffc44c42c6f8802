import { ConfigurationMissing } from '../gateway/errors.ts'
import type { Sealer, Secret } from '../platform/secrets.ts'
import { providerOf, type ProviderAccount, type ProviderSlot, type SealedValue } from './account.ts'
import { ProviderKeyRequired } from './errors.ts'
import type { Charge, ChargeRequest, Provider, ProviderKind } from './provider.ts'

declare module '../gateway/services.ts' {
  interface Services { readonly payees: Payees }
}

/** Who gets the money of an invoice. Made for one account as it stands now; do not keep it. */
export interface Payee {
  readonly slot: ProviderSlot
  readonly kind: ProviderKind
  /** @throws ProviderUnavailable, ProviderRefused */
  createInvoice (request: ChargeRequest): Promise<Charge>
}

/** A slot of `lightning` in the configuration, with the operator's own key where it has one. */
export interface ProviderSeat {
  readonly provider: Provider
  readonly key: Secret<string> | null
}

/**
 * Finds who makes an invoice, with which key. A merchant's key is decrypted at the call itself and dropped after it.
 */
export class Payees {
  readonly #seats: Readonly<Record<ProviderSlot, ProviderSeat>>
  readonly #sealer: Sealer
  readonly #platform: Payee

  constructor (seats: Readonly<Record<ProviderSlot, ProviderSeat>>, sealer: Sealer) {
    this.#seats = seats
    this.#sealer = sealer
    const { provider, key } = seats.primary
    this.#platform = {
      slot: 'primary',
      kind: provider.kind,
      createInvoice: request => provider.createCharge(key, request)
    }
  }

  /**
   * The operator, for routes that are priced in the configuration and for ping (decision 129).
   * @throws ConfigurationMissing without `lightning.primary.key`, which only the sandbox can do without
   */
  platform (): Payee {
    const { provider, key } = this.#seats.primary
    if (key === null && !provider.keyless) throw new ConfigurationMissing('lightning.primary.key')
    return this.#platform
  }

  /** @throws ProviderKeyRequired when no key is saved for the provider that resolution gives */
  forMerchant (account: ProviderAccount): Payee {
    const slot = providerOf(account)
    const sealed = slot === 'primary' ? account.primaryKey : account.alternateKey
    if (sealed === null) throw new ProviderKeyRequired()
    return new MerchantPayee(slot, this.#seats[slot].provider, sealed, this.#sealer)
  }

  /** The provider in a slot, for validating a key and for what is asked by a charge's own slot. */
  provider (slot: ProviderSlot): Provider {
    return this.#seats[slot].provider
  }
}

class MerchantPayee implements Payee {
  readonly slot: ProviderSlot
  readonly kind: ProviderKind
  readonly #provider: Provider
  readonly #sealed: SealedValue
  readonly #sealer: Sealer

  constructor (slot: ProviderSlot, provider: Provider, sealed: SealedValue, sealer: Sealer) {
    this.slot = slot
    this.kind = provider.kind
    this.#provider = provider
    this.#sealed = sealed
    this.#sealer = sealer
  }

  async createInvoice (request: ChargeRequest): Promise<Charge> {
    return this.#provider.createCharge(this.#sealer.open(this.#sealed.ciphertext, this.#sealed.place), request)
  }
}
