import type { Context } from '../../engine/message/context.ts'
import { keepCookie, keptValue, sessionCookie, LINK_LIFE } from './cookie.ts'
import type { CurrentSession, Sessions, SignedIn } from './sessions.ts'
import { Type } from 'typebox'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { CONFLICT } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Issued, Merchants } from '../../accounts/merchants/service.ts'

/** Arbitrary base: a wanted page must stay on its origin. */
const BASE = 'http://gateway.invalid'
/** Longest wanted page in characters. */
const MOST = 1024

/**
 * Console page wanted before signing in, without a leading slash: `console/payments?status=paid`. Null for anything
 * else: prevents open redirects, also to merchants' proxies on this origin.
 */
export function wantedPage(text: string | null | undefined): string | null {
  if (text === null || text === undefined || text.length > MOST || !URL.canParse(text, `${BASE}/`)) return null
  // Parsed as browsers do: resolves dot segments, backslashes and line breaks.
  const { origin, pathname, search } = new URL(text, `${BASE}/`)
  return origin === BASE && /^\/(console|operator)(\/|$)/.test(pathname) ? `${pathname.slice(1)}${search}` : null
}

/**
 * Target after a sign-in, relative to the gateway's root: the wanted page if permitted, else the console, which offers
 * a passkey after a mailed link. With both consoles: the account page.
 */
export function landingOf(
  { account, operator, person }: Pick<CurrentSession, 'account' | 'operator' | 'person'>,
  wanted: string | null
): string {
  const page = wantedPage(wanted)
  const console = page?.split(/[/?]/, 1)[0]
  if (page !== null && (console === 'console' ? account : operator) !== null) return page
  if (account !== null && operator !== null) return 'sign-in/account'
  const isByMail = person !== null && person.passkeyId === null
  return `${operator === null ? 'console' : 'operator'}${isByMail ? '?welcome' : ''}`
}

export function wantedCookie(page: string, secure: boolean): string {
  return keepCookie('next', encodeURIComponent(page), LINK_LIFE / 1000, secure)
}

/** Redirect target after a sign-in with its cookies. */
export interface Landing {
  /** Null when it has already ended. */
  readonly session: CurrentSession | null
  /** Relative to the gateway's root: `console/payments`. */
  readonly page: string
  /** Flat headers. */
  readonly cookies: readonly string[]
}

/** @throws Unavailable */
export async function landing(
  ctx: Pick<Context, 'headers'>,
  sessions: Pick<Sessions, 'current' | 'isSecure'>,
  { token }: SignedIn
): Promise<Landing> {
  const secure = sessions.isSecure
  const session = await sessions.current(token.reveal())
  const wanted = keptValue(ctx, 'next', secure)
  const cookies = ['Set-Cookie', sessionCookie(token.reveal(), secure)]
  if (wanted !== null) cookies.push('Set-Cookie', keepCookie('next', '', 0, secure))
  // If it has just ended, the page says so.
  return { session, page: session === null ? 'sign-in/account' : landingOf(session, decoded(wanted)), cookies }
}

/** Value of our own cookie; null for a forged one. */
function decoded(value: string | null): string | null {
  if (value === null) return null
  try {
    return decodeURIComponent(value)
  } catch {
    // Forged: no redirect.
    return null
  }
}

/**
 * One-time retrieval of the first API key of a subscription's account by its owner. Replaces the key that the approval
 * showed to the operator.
 */
export class FirstKeys {
  readonly #database: Database
  readonly #merchants: Merchants

  constructor(database: Database, merchants: Merchants) {
    this.#database = database
    this.#merchants = merchants
  }

  /** Marks a new account as waiting, in the approval's transaction. */
  async wait(sql: TransactionSql, { id, keyId }: Pick<Merchant, 'id' | 'keyId'>): Promise<void> {
    await sql`insert into first_keys (merchant_id, key_id) values (${id}, ${keyId}) on conflict (merchant_id) do nothing`
  }

  /** The key, shown only once; null when already retrieved or replaced. Of concurrent calls one gets it. */
  async take({ id, keyId }: Pick<Merchant, 'id' | 'keyId'>): Promise<Issued | null> {
    return await this.#database.transaction(async sql => {
      const taken = await sql`delete from first_keys where merchant_id = ${id} and key_id = ${keyId}`
      return taken.count === 0 ? null : await this.#merchants.within(sql).regenerateKey(id)
    })
  }
}

export function firstKeyOperations(firstKeys: FirstKeys): AnyOperation[] {
  return [
    defineOperation({
      id: 'takeFirstKey',
      role: 'owner',
      method: 'POST',
      path: '/api/merchant/first-key',
      tag: 'Merchant',
      access: 'merchant',
      mount: { use: 'merchant-api', chain: 'settings-write' },
      summary: 'Fetch the first API key of a new account, once',
      description:
        'For an account that was made for a subscription: it replaces the key shown to the operator at approval, which stops working. Replace a key lost later with POST /api/merchant/regenerate-key.',
      responses: {
        200: {
          description: 'The key, shown only once.',
          schema: Type.Object({ merchantId: Type.Integer(), apiKey: Type.String(), regeneratedAt: isoTime() })
        },
        409: 'It was fetched or replaced already.'
      },
      handle: async ({ ctx }) => {
        const issued = await firstKeys.take(merchantOf(ctx))
        if (issued === null) throw new ShortError(CONFLICT, 'The first key was fetched already')
        const { merchant, apiKey } = issued
        const regeneratedAt = iso(merchant.keyRotatedAt ?? merchant.keyCreatedAt)
        return {
          status: 200,
          body: { merchantId: merchant.id, apiKey: apiKey.reveal(), regeneratedAt }
        }
      }
    })
  ]
}
