import type { ReadonlyHeaders } from '../gateway/headers.ts'
import type { Integration, Order, ShippingAddress } from './schema.ts'

/** What a buyer sends to have an order made. */
export interface ClaimInput {
  /** Needed where no credential is sent (decision 133). */
  readonly claimToken: string | null
  readonly email: string
  readonly shippingAddress: ShippingAddress
}

/** An order that was claimed, with its store. */
export interface ClaimedOrder {
  readonly order: Order
  readonly integration: Integration
}

/** Claims of paid orders (contract, Storefront order; decisions 133 to 135, 140 and 146). */
export class OrderClaims {
  /**
   * Has the store's order made, once for each payment. `authorization`: the request's headers, of which a payment credential is
   * read; none for the claim page.
   * @throws LongError 400, 401 and 404 as the contract's error table has them; 502 when the store did not take the order: the
   *   token is not used up and the address is kept
   */
  claim (_slug: string, _input: ClaimInput, _authorization: ReadonlyHeaders): Promise<ClaimedOrder> {
    return Promise.reject(new Error('not yet'))
  }
}
