import type { Context } from '../gateway/context.ts'
import type { Merchant } from './schema.ts'

/** A request made with a merchant's key. */
export interface MerchantPrincipal {
  readonly kind: 'merchant'
  /** The merchant's id as text: what counters and logs go by, so that a new key does not reset limits (decision 32). */
  readonly id: string
  readonly merchant: Merchant
}

/** A request made with the admin key. */
export interface AdminPrincipal {
  readonly kind: 'admin'
  readonly id: 'admin'
}

declare module '../gateway/context.ts' {
  interface PrincipalKinds {
    readonly merchant: MerchantPrincipal
    readonly admin: AdminPrincipal
  }
}

/**
 * The merchant that a request acts for. Throws a TypeError where the chain has no `auth` as merchant: a fault of the
 * chain, answered 500.
 */
export function merchantOf(ctx: Context): Merchant {
  if (ctx.principal?.kind !== 'merchant')
    throw new TypeError(
      `the chain of ${ctx.route.name} needs "auth: { as: merchant }", because what it leads to acts for a merchant`
    )
  return ctx.principal.merchant
}
