import type { AdminKey } from '../../accounts/merchants/admin-key.ts'
import type { Context } from '../../engine/message/context.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { keepCookie, keptValue, digestOf } from './cookie.ts'

/** Milliseconds of a cookie. Pages renew it while the database proves the session. */
export const STAND_IN_LIFE = 3_600_000
/** Operator's pages that need no database. */
const PAGES = /^\/operator(\/(health|configuration|providers))?$/

export interface ImpersonationDependencies {
  readonly adminKey: AdminKey
  readonly clock: Pick<Clock, 'now'>
  /** Lower-case addresses. */
  operators(): readonly string[]
}

/**
 * Cookies that open status pages to a signed-in operator while the database is unavailable. Each is bound to the
 * session's token, the operator and the admin key: replacing the key, removing the operator from the file, or ending
 * the session in this process ends it.
 */
export class Impersonations {
  readonly #dependencies: ImpersonationDependencies
  /** Digests of sessions that ended here, with the time. */
  readonly #ended = new Map<string, number>()

  constructor(dependencies: ImpersonationDependencies) {
    this.#dependencies = dependencies
  }

  /** `Set-Cookie`; null without an admin key. */
  cookie(token: string, operator: string, secure: boolean): string | null {
    const { adminKey, clock } = this.#dependencies
    if (!adminKey.configured) return null
    const signed = adminKey.session(clock.now() + STAND_IN_LIFE, boundTo(token, operator))
    const value = `${Buffer.from(operator).toString('base64url')}.${signed}`
    return keepCookie('operator', value, STAND_IN_LIFE / 1000, secure)
  }

  /** The operator who may read this page without the database; null for none. */
  operatorOf(ctx: Pick<Context, 'headers' | 'method' | 'path'>, token: string, secure: boolean): string | null {
    const { adminKey, clock, operators } = this.#dependencies
    if ((ctx.method !== 'GET' && ctx.method !== 'HEAD') || !PAGES.test(ctx.path)) return null
    const [, name = '', signed = ''] = /^([\w-]+)\.(.+)$/.exec(keptValue(ctx, 'operator', secure) ?? '') ?? []
    const operator = Buffer.from(name, 'base64url').toString()
    const isKnown = operator === 'admin' || operators().includes(operator)
    const isSigned = isKnown && adminKey.holdsSession(signed, clock.now(), boundTo(token, operator))
    return isSigned && !this.#ended.has(keyOf(token)) ? operator : null
  }

  end(digest: Uint8Array): void {
    const now = this.#dependencies.clock.now()
    for (const [key, at] of this.#ended) if (at <= now - STAND_IN_LIFE) this.#ended.delete(key)
    this.#ended.set(Buffer.from(digest).toString('base64url'), now)
  }
}

function keyOf(token: string): string {
  return digestOf(token).toString('base64url')
}

function boundTo(token: string, operator: string): string {
  return `${keyOf(token)}\n${operator}`
}
