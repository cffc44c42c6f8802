import type { Context } from '../../engine/message/context.ts'
import type { Role } from '../../engine/operations/roles.ts'
import type { Merchant } from './schema.ts'

/** Who acts for an account, or for the gateway: what the audit trail names. No secrets. */
export type Actor =
  /** An API key, by the part of it that is no secret. */
  | { readonly kind: 'key'; readonly keyId: string }
  /** Somebody who is signed in and a member of the account, by the address. */
  | { readonly kind: 'member'; readonly email: string }

/** A request that acts for a merchant: made with a key, or by somebody who is signed in. */
export interface MerchantPrincipal {
  readonly kind: 'merchant'
  /** The merchant's id as text: what counters and logs go by, so that a new key does not reset limits (decision 32). */
  readonly id: string
  readonly merchant: Merchant
  /** What may be done: keys act as owner, and those that only read as viewer. */
  readonly role: Role
  readonly by: Actor
}

/** A request made with the admin key, or by an operator who is signed in. */
export interface AdminPrincipal {
  readonly kind: 'admin'
  /** `admin` for the key; the address of an operator. */
  readonly id: string
}

declare module '../../engine/message/context.ts' {
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

/** Who acts for a merchant with the API key `keyId`. */
export function principalOfKey(
  merchant: Merchant,
  keyId: string = merchant.keyId,
  role: Role = 'owner'
): MerchantPrincipal {
  return { kind: 'merchant', id: String(merchant.id), merchant, role, by: { kind: 'key', keyId } }
}

declare module '../../engine/pipeline/services.ts' {
  interface Services {
    readonly sessions: BrowserSessions
  }
}

/** Sessions of signed-in browsers, as plugins see them; `web/sign-in` opens them. */
export interface BrowserSessions {
  /** A `Set-Cookie` value that removes the session's cookie. */
  readonly goneCookie: string
  /** The session token that a request shows, or null. */
  tokenOf(ctx: Pick<Context, 'headers'>): string | null
  /** The account or the operator that the session acts for, or null. @throws LongError 403 for a change that a page of another site asks for */
  principal(ctx: Context, as: 'merchant' | 'admin'): Promise<MerchantPrincipal | AdminPrincipal | null>
}

/** The sessions of a gateway where no one can sign in. */
export const NO_SESSIONS: BrowserSessions = Object.freeze({
  goneCookie: '',
  tokenOf: () => null,
  principal: async () => null
})
