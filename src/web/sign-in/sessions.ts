import { readerLanguage, speaking } from '../../engine/formats/language.ts'
import { asGatewayError } from '../../engine/operations/errors.ts'
import type { Context } from '../../engine/message/context.ts'
import type { Reply } from '../../engine/message/reply.ts'
import { RoleRequired, type Role } from '../../engine/operations/operation.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import type { AdminKey } from '../../accounts/merchants/admin-key.ts'
import {
  principalOfKey,
  type BrowserSessions,
  type Actor,
  type AdminPrincipal,
  type MerchantPrincipal
} from '../../accounts/merchants/principal.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import { inTime, type Clock } from '../../platform/system/clock.ts'
import { randomToken, rowId, type Random } from '../../platform/system/ids.ts'
import { noSessionCookie, sessionCookie, sessionToken, SESSION_LIFE, digestOf, isSignInToken } from './cookie.ts'
import { awayPage, SIGN_IN_HEADERS } from './pages.ts'
import { mayActByCookie, otherSite } from './signed-in.ts'
import type { FoundSession, Membership, Opener, SqlSessionStore, StoredSession } from './store.ts'
import { STAND_IN_LIFE, Impersonations } from './stand-in.ts'
import { HTML_TYPE } from '../kit/document.ts'

export interface SessionsDependencies {
  readonly store: SqlSessionStore
  readonly database: Database
  readonly merchants: Merchants
  readonly adminKey: AdminKey
  readonly clock: Clock
  readonly random: Random
  publicUrl(): string
  /** Lower-case addresses with the admin key's rights; a function, since a reload changes them. */
  operators(): readonly string[]
}

export interface SignedIn {
  /** Kept by the browser; only its digest is stored. */
  readonly token: Secret<string>
  readonly expiresAt: number
  /** An operator's sign-in while the database is unavailable: the token opens status pages alone. */
  readonly isImpersonated?: true
}

export interface Browser {
  /** User agent. */
  readonly name: string
  /** Its former session, which ends: prevents session fixation. Null for none. */
  readonly former: string | null
}

export const NO_BROWSER: Browser = Object.freeze({ name: '', former: null })

export interface CurrentSession {
  readonly id: string
  /** The account with role and actor; null without an active account. */
  readonly account: { readonly merchant: Merchant; readonly role: Role; readonly by: Actor } | null
  readonly person: { readonly id: number; readonly email: string; readonly passkeyId: string | null } | null
  /** Operator name in the audit log; null for others. */
  readonly operator: string | null
  readonly expiresAt: number
}

export interface ListedSession extends StoredSession {
  readonly isCurrent: boolean
}

/** Milliseconds between two records of a session's use. */
const SEEN_EVERY = 5 * 60_000
/** Milliseconds that an operator's page waits for the database before it relies on its cookie. */
const PATIENCE = 1_000
/** Longest stored user agent. */
const MOST_BROWSER = 200

/**
 * Browser sessions (decisions 170 and 322). Rights are read on each request: the account role, the validity of the key,
 * the operator's address.
 */
export class Sessions implements BrowserSessions {
  readonly #dependencies: SessionsDependencies
  readonly #impersonations: Impersonations
  /** Principals that the database has not proven. */
  readonly #unproven = new WeakSet<object>()

  constructor(dependencies: SessionsDependencies) {
    this.#dependencies = dependencies
    this.#impersonations = new Impersonations(dependencies)
  }

  async open(sql: TransactionSql, opener: Opener, browser: Browser): Promise<SignedIn> {
    const { clock, random, store } = this.#dependencies
    const now = clock.now()
    const token = randomToken(32, random)
    const expiresAt = now + SESSION_LIFE
    if (browser.former !== null && isSignInToken(browser.former)) await store.end(sql, digestOf(browser.former))
    await store.insert(sql, digestOf(token), opener, {
      id: rowId(now, random),
      browser: browser.name.slice(0, MOST_BROWSER),
      createdAt: now,
      expiresAt
    })
    return { token: new Secret(token), expiresAt }
  }

  /**
   * Signs in with the admin key or an API key; null for an invalid one.
   * @throws Unavailable
   */
  async openWithKey(key: string, browser: Browser): Promise<SignedIn | null> {
    const { adminKey, database, merchants } = this.#dependencies
    if (adminKey.matches(key))
      return await database
        .transaction(sql => this.open(sql, { kind: 'admin', mark: adminKey.mark }, browser))
        .catch((error: unknown): SignedIn => {
          if (!isAway(error)) throw error
          const token = randomToken(32, this.#dependencies.random)
          return {
            token: new Secret(token),
            expiresAt: this.#dependencies.clock.now() + STAND_IN_LIFE,
            isImpersonated: true
          }
        })
    const holder = await merchants.holderOf(key)
    if (holder === null) return null
    const opener = { kind: 'key', merchantId: holder.merchant.id, keyId: holder.keyId } as const
    return await database.transaction(sql => this.open(sql, opener, browser))
  }

  /**
   * Null for an invalid token.
   * @throws Unavailable
   */
  async current(token: string | null): Promise<CurrentSession | null> {
    const found = await this.#find(token)
    return found === null ? null : await this.#judged(found)
  }

  tokenOf(ctx: Pick<Context, 'headers'>): string | null {
    return sessionToken(ctx, this.isSecure)
  }

  browserOf(ctx: Pick<Context, 'headers'>): Browser {
    return { name: ctx.headers.get('user-agent') ?? '', former: this.tokenOf(ctx) }
  }

  get goneCookie(): string {
    return noSessionCookie(this.isSecure)
  }

  /**
   * Principal of a request by its session: a member, key or operator. Null without a session or permission.
   * @throws LongError 403 for a cross-site request, Unavailable
   */
  async principal(
    ctx: Pick<Context, 'headers' | 'host' | 'method' | 'path' | 'secure'>,
    as: 'merchant' | 'admin'
  ): Promise<MerchantPrincipal | AdminPrincipal | null> {
    const token = this.tokenOf(ctx)
    if (token === null) return null
    const operator = as === 'admin' ? this.#impersonations.operatorOf(ctx, token, this.isSecure) : null
    const session = await (operator === null ? this.current(token) : this.#currentIfThere(token))
    if (session === null) return null
    const principal = session === 'away' ? { kind: 'admin' as const, id: operator ?? '' } : principalOf(session, as)
    if (session === 'away' && principal !== null) this.#unproven.add(principal)
    if (principal !== null && !mayActByCookie(ctx, this.#dependencies.publicUrl())) throw otherSite()
    return principal
  }

  /** `Set-Cookie` for a page of an operator whom the database has proven; null for others. See `Impersonations`. */
  impersonationCookie({ headers, principal }: Pick<Context, 'headers' | 'principal'>): string | null {
    const token = this.tokenOf({ headers })
    const isProven = principal?.kind === 'admin' && !this.#unproven.has(principal)
    return token === null || !isProven ? null : this.#impersonations.cookie(token, principal.id, this.isSecure)
  }

  impersonationCookies({ token }: SignedIn): readonly string[] {
    const secure = this.isSecure
    const cookie = this.#impersonations.cookie(token.reveal(), 'admin', secure)
    return [sessionCookie(token.reveal(), secure), ...(cookie === null ? [] : [cookie])]
  }

  awayPage({ path, headers }: Pick<Context, 'path' | 'headers'>): Reply {
    const language = readerLanguage(headers)
    const root = '../'.repeat(path.split('/').length - 2) || './'
    return {
      status: 503,
      headers: ['Content-Type', HTML_TYPE, 'Content-Language', language, 'Retry-After', '5', ...SIGN_IN_HEADERS],
      body: speaking(language, () => awayPage(root, path.startsWith('/operator')))
    }
  }

  /**
   * All sessions of this one's owner, newest first.
   * @throws Unavailable
   */
  async list(token: string): Promise<ListedSession[]> {
    const current = await this.#find(token)
    if (current === null) return []
    const sessions = await this.#dependencies.store.ofSame(current, this.#dependencies.clock.now())
    return sessions.map(session => ({ ...session, isCurrent: session.id === current.id }))
  }

  /**
   * Ends a session of the same owner; false for another's.
   * @throws Unavailable
   */
  async revoke(token: string, id: string): Promise<boolean> {
    const current = await this.#find(token)
    const digest = current === null ? null : await this.#dependencies.store.endOfSame(current, id)
    if (digest !== null) this.#impersonations.end(digest)
    return digest !== null
  }

  /**
   * Idempotent.
   * @throws Unavailable
   */
  async end(token: string): Promise<void> {
    if (!isSignInToken(token)) return
    this.#impersonations.end(digestOf(token))
    await this.#dependencies.store.end(this.#dependencies.store.sql, digestOf(token))
  }

  async purge(): Promise<void> {
    await this.#dependencies.store.purge(this.#dependencies.clock.now() - SEEN_EVERY)
  }

  /**
   * Accessible accounts.
   * @throws Unavailable
   */
  async accounts(token: string): Promise<Membership[]> {
    const current = await this.#find(token)
    return current === null || current.personId === null
      ? []
      : await this.#dependencies.store.memberships(current.personId)
  }

  /**
   * Switches accounts with a new session; null for a non-member.
   * @throws Unavailable
   */
  async goTo(token: string, merchantId: number): Promise<SignedIn | null> {
    const { database, store } = this.#dependencies
    const current = await this.#find(token)
    if (current === null || current.personId === null) return null
    const { personId, passkeyId, browser } = current
    if (!(await store.memberships(personId)).some(account => account.merchantId === merchantId)) return null
    return await database.transaction(sql =>
      this.open(sql, { kind: 'person', personId, merchantId, passkeyId }, { name: browser, former: token })
    )
  }

  /**
   * Shows the test account of a session's account, or the account again. Made on first use, for an owner alone.
   * @throws RoleRequired, Unavailable
   */
  async setTest(token: string, isTest: boolean): Promise<void> {
    const { merchants, store } = this.#dependencies
    const account = isTest ? ((await this.current(token))?.account ?? null) : null
    if (account !== null) {
      const { merchant, role } = account
      if (role !== 'owner' && (await merchants.byId(-Math.abs(merchant.id))) === null)
        throw new RoleRequired(role, 'owner')
      await merchants.testOf(merchant)
    }
    await store.setTest(digestOf(token), isTest)
  }

  /** 'away' when the database is unavailable or too slow for a status page. */
  async #currentIfThere(token: string): Promise<CurrentSession | 'away' | null> {
    try {
      return await inTime(this.#dependencies.clock, PATIENCE, this.current(token), 'away' as const)
    } catch (error) {
      if (isAway(error)) return 'away'
      throw error
    }
  }

  async #find(token: string | null): Promise<FoundSession | null> {
    if (token === null || !isSignInToken(token)) return null
    return await this.#dependencies.store.find(digestOf(token), this.#dependencies.clock.now())
  }

  async #judged(found: FoundSession): Promise<CurrentSession | null> {
    const { adminKey, clock, operators, store } = this.#dependencies
    const { id, email, expiresAt, passkeyId, personId } = found
    const account = await this.#seenAs(found, await this.#account(found))
    const isAdmin = found.adminMark !== null && adminKey.configured && found.adminMark === adminKey.mark
    const operator = isAdmin ? 'admin' : email !== null && operators().includes(email) ? email : null
    if (account === null && operator === null) return null
    const now = clock.now()
    if (found.seenAt < now - SEEN_EVERY) await store.seen(id, now, now - SEEN_EVERY)
    const person = personId === null || email === null ? null : { id: personId, email, passkeyId }
    return { id, account, person, operator, expiresAt }
  }

  async #seenAs({ isTest }: FoundSession, account: CurrentSession['account']): Promise<CurrentSession['account']> {
    if (!isTest || account === null) return account
    const merchant = await this.#dependencies.merchants.byId(-Math.abs(account.merchant.id))
    return merchant === null ? null : { ...account, merchant }
  }

  async #account({ merchantId, keyId, role, email }: FoundSession): Promise<CurrentSession['account']> {
    const { merchants } = this.#dependencies
    if (keyId !== null) {
      const holder = await merchants.holderOfId(keyId)
      if (holder === null || holder.merchant.id !== merchantId) return null
      return principalOfKey(holder.merchant, keyId, holder.isReadOnly ? 'viewer' : 'owner')
    }
    if (merchantId === null || role === null || email === null) return null
    const merchant = await merchants.byId(merchantId)
    return merchant === null || !merchant.isActive ? null : { merchant, role, by: { kind: 'member', email } }
  }

  /** Whether cookies are of https. */
  get isSecure(): boolean {
    return this.#dependencies.publicUrl().startsWith('https:')
  }
}

export function principalOf(
  { account, operator }: Pick<CurrentSession, 'account' | 'operator'>,
  as: 'merchant' | 'admin'
): MerchantPrincipal | AdminPrincipal | null {
  if (as === 'admin') return operator === null ? null : { kind: 'admin', id: operator }
  return account === null ? null : { ...account, kind: 'merchant', id: String(account.merchant.id) }
}

function isAway(error: unknown): boolean {
  return asGatewayError(error).status === 503
}
