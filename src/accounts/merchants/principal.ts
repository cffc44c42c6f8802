import type { Context } from '../../engine/message/context.ts'
import type { Reply } from '../../engine/message/reply.ts'
import type { Static, TSchema } from 'typebox'
import {
  defineOperation,
  type AnyOperation,
  type Input,
  type Operation,
  type Role
} from '../../engine/operations/operation.ts'
import type { Merchant } from './schema.ts'

export type Actor =
  | { readonly kind: 'key'; readonly keyId: string }
  | { readonly kind: 'member'; readonly email: string }

export interface MerchantPrincipal {
  readonly kind: 'merchant'
  /** The merchant's id: counters and logs use it, so that a new key does not reset limits (decision 32). */
  readonly id: string
  readonly merchant: Merchant
  /** Keys act as owner, read-only ones as viewer. */
  readonly role: Role
  readonly by: Actor
}

export interface AdminPrincipal {
  readonly kind: 'admin'
  /** `admin` for the key, else the operator's address. */
  readonly id: string
}

/** Who passes by a key or a client certificate of the plugin `api-key`. */
interface Subscriber {
  readonly kind: 'subscriber'
  readonly id: string
  /** What the request used, once it is over, where the route has a meter. */
  used?: { readonly input: number; readonly output: number }
}

export const keyAdmin: AdminPrincipal = Object.freeze({ kind: 'admin', id: 'admin' })

declare module '../../engine/message/context.ts' {
  interface PrincipalKinds {
    readonly merchant: MerchantPrincipal
    readonly admin: AdminPrincipal
    readonly subscriber: Subscriber
  }
}

/** @throws TypeError when the chain has no `auth` as merchant (a configuration fault, answered 500) */
export function merchantOf(ctx: Context): Merchant {
  if (ctx.principal?.kind !== 'merchant')
    throw new TypeError(
      `the chain of ${ctx.route.name} needs "auth: { as: merchant }", because what it leads to acts for a merchant`
    )
  return ctx.principal.merchant
}

export function principalOfKey(
  merchant: Merchant,
  keyId: string = merchant.keyId,
  role: Role = 'owner'
): MerchantPrincipal {
  return { kind: 'merchant', id: String(merchant.id), merchant, role, by: { kind: 'key', keyId } }
}

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly sessions: BrowserSessions
  }
}

/** Browser sessions for plugins; implemented in `web/sign-in`. */
export interface BrowserSessions {
  /** `Set-Cookie` value that deletes the session's cookie. */
  readonly goneCookie: string
  /** In place of a page while the database is unavailable. */
  awayPage(ctx: Context): Reply
  tokenOf(ctx: Pick<Context, 'headers'>): string | null
  /**
   * Principal of the session, or null.
   * @throws LongError 403 for a cross-site change
   */
  principal(ctx: Context, as: 'merchant' | 'admin'): Promise<MerchantPrincipal | AdminPrincipal | null>
}

/** For gateways without sign-in. */
export const NO_SESSIONS: BrowserSessions = Object.freeze({
  goneCookie: '',
  awayPage: () => ({ status: 503, headers: [], body: null }),
  tokenOf: () => null,
  principal: async () => null
})

/**
 * An operation of the merchant whose key or session called it. `handle` returns the body of its first response;
 * undefined is none.
 */
export function merchantOperation<const P extends TSchema, const Q extends TSchema, const B extends TSchema>({
  handle,
  ...declared
}: Omit<Operation<P, Q, B>, 'handle' | 'access'> & {
  handle(input: Input<Static<P>, Static<Q>, Static<B>> & { readonly merchant: Merchant }): unknown
}): AnyOperation {
  const status = Number(Object.keys(declared.responses)[0])
  return defineOperation<P, Q, B>({
    ...declared,
    access: 'merchant',
    handle: async input => ({ status, body: (await handle({ ...input, merchant: merchantOf(input.ctx) })) ?? null })
  })
}

/** Of operations on a merchant's own settings. */
export const settingsRead = {
  method: 'GET',
  tag: 'Merchant',
  access: 'merchant',
  mount: { use: 'merchant-api', chain: 'settings-read' }
} as const
export const settingsWrite = { ...settingsRead, mount: { use: 'merchant-api', chain: 'settings-write' } } as const

export const adminOperation = {
  tag: 'Admin',
  access: 'admin',
  mount: { use: 'operator-api', chain: 'admin' }
} as const
