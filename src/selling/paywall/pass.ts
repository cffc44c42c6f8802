import { hash } from 'node:crypto'
import type { Context } from '../../engine/message/context.ts'
import { cookieValues } from '../../engine/message/own-cookies.ts'
import { equalDigests, hmacSha256 } from '../../lightning/codecs/hmac.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { Grant } from '../../lightning/l402/caveats.ts'
import { isSpentByCrash, type Paid } from '../holding/paid-responses.ts'
import { boundQuery, isOfOneAddress, type Offer } from '../offers/offer.ts'
import type { Challenge } from '../holding/challenge.ts'
import type { ClassicTokens } from '../verifying/classic-tokens.ts'
import type { VerifierOptions } from '../verifying/verify.ts'

/**
 * Replaces a browser's credential once its challenge is paid (decision 310), only in a cookie: the payment hash, and a
 * code that only this gateway can make.
 */
export interface Pass {
  readonly paymentHash: string
  /** 16 bytes. */
  readonly code: Uint8Array
}

/** Prefix stripped for upstreams; session cookies have it too. */
const NAME = 'boltgate-pass-'
const CODE_BYTES = 16
const PURPOSE = Buffer.from('boltgate/pass')
const PASS = /^([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{22})$/
/** Separates a pass from earlier ones, whose invoices may just have been paid. */
const SEPARATOR = '~'
/** Of one cookie: a service may have several prices. Each is a row to read. */
export const MOST_PASSES = 4

/** Null if the challenge's master secret is no longer live. */
export function passOf(challenge: Pick<Challenge, 'paymentHash' | 'tokenId'>, keys: TokenKeyRing): Pass | null {
  const { paymentHash } = challenge
  const rootKey = keys.rootKey(Buffer.from(challenge.tokenId, 'hex'))
  if (rootKey === null) return null
  const code = hmacSha256(rootKey, Buffer.concat([PURPOSE, Buffer.from(paymentHash, 'hex')])).subarray(0, CODE_BYTES)
  return { paymentHash, code }
}

export function isPassOf(
  pass: Pass,
  challenge: Pick<Challenge, 'paymentHash' | 'tokenId'>,
  keys: TokenKeyRing
): boolean {
  const own = passOf(challenge, keys)
  return own !== null && own.paymentHash === pass.paymentHash && equalDigests(own.code, pass.code)
}

/**
 * One cookie per path and query, so that pages in two tabs do not replace each other's. `secure`: accepted over TLS
 * only (RFC 6265bis, 4.1.3.1).
 */
function nameOf(offer: Offer, secure: boolean): string {
  const sold =
    isOfOneAddress(offer) || offer.passPath !== undefined
      ? [offer.tokenPath, boundQuery(offer.query)]
      : [offer.tokenPath]
  const short = hash('sha256', JSON.stringify([offer.service, ...sold]), 'base64url').slice(0, 12)
  return `${secure ? '__Secure-' : ''}${NAME}${short}`
}

export function passesIn(ctx: Context, offer: Offer, secure: boolean): readonly Pass[] {
  if (!ctx.headers.has('cookie') || !ctx.headers.all('cookie').some(line => line.includes(NAME))) return []
  const passes: Pass[] = []
  for (const value of cookieValues(ctx.headers, nameOf(offer, secure))) {
    for (const text of value.split(SEPARATOR, MOST_PASSES)) {
      const [, paymentHash, code] = PASS.exec(text.trim()) ?? []
      if (paymentHash === undefined || code === undefined) continue
      passes.push({
        paymentHash: Buffer.from(paymentHash, 'base64url').toString('hex'),
        code: Buffer.from(code, 'base64url')
      })
    }
  }
  return passes.slice(0, MOST_PASSES)
}

/**
 * `Set-Cookie` with a pass, and earlier ones that may still buy something. Limited to the sold path and below,
 * HttpOnly, same-site.
 */
export function passCookie(offer: Offer, passes: readonly Pass[], seconds: number, secure: boolean): string {
  const value = passes
    .map(
      ({ paymentHash, code }) =>
        `${Buffer.from(paymentHash, 'hex').toString('base64url')}.${Buffer.from(code).toString('base64url')}`
    )
    .join(SEPARATOR)
  return `${nameOf(offer, secure)}=${value}; Path=${cookiePath(offer)}; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
}

/** The sold path as the attribute allows: up to the last slash before a semicolon or non-ASCII. */
function cookiePath({ passPath, tokenPath, wildcard }: Offer): string {
  if (passPath !== undefined) return passPath
  const path = wildcard && tokenPath.endsWith('/*') ? tokenPath.slice(0, -2) || '/' : tokenPath
  const [sayable = ''] = /^[\x21-\x3a\x3c-\x7e]*/.exec(path) ?? []
  return sayable === path ? path : path.slice(0, sayable.lastIndexOf('/') + 1) || '/'
}

type PassClaimsOptions = Pick<VerifierOptions, 'claims' | 'counters' | 'revocations' | 'settings'>

export class PassClaims {
  readonly #options: PassClaimsOptions
  readonly #tokens: ClassicTokens

  constructor(options: PassClaimsOptions, tokens: ClassicTokens) {
    this.#options = options
    this.#tokens = tokens
  }

  /**
   * The payment covers an offer by the rules of tokens: merchant, expiry, path, service, price with grace, revocation;
   * for one address also the query.
   */
  holds(challenge: Challenge, offer: Offer): boolean {
    const { asked, createdAt, wording } = challenge
    if (isOfOneAddress(offer) && (challenge.path !== offer.path || challenge.query !== boundQuery(offer.query)))
      return false
    const grant: Grant = {
      service: challenge.service,
      path: 'caveatPath' in wording && wording.caveatPath !== null ? wording.caveatPath : challenge.resource,
      merchantId: challenge.merchantId,
      chargeId: challenge.chargeId,
      amountSats: challenge.amountSats,
      price: challenge.price,
      expires: challenge.tokenExpiresAt / 1000,
      flaws: null,
      unknown: null,
      limits: null
    }
    return this.#tokens.unfit(grant, asked, offer, createdAt) === null && !this.#options.revocations.covers(challenge)
  }

  /**
   * Claims a known payment for the pass's browser: as a token until it expires, or for a single use if only the Payment
   * scheme is sold. Null if another scheme has it, or it is spent.
   * @throws Unavailable
   */
  async claim(challenge: Challenge, offer: Offer): Promise<Paid | null> {
    const { claims, counters, revocations } = this.#options
    const { paymentHash, merchantId, amountSats, chargeId, tokenId, price } = challenge
    const isToken = this.#options.settings().schemes.includes('l402')
    const scheme = isToken ? 'l402' : 'payment'
    const paid = (lease: Paid['lease']): Paid => {
      counters.verified(scheme, 'ok')
      return {
        kind: 'paid',
        payment: { scheme, paymentHash, amountSats },
        lease,
        challengeId: isToken ? null : (challenge.payment?.id ?? null),
        isByPass: true
      }
    }
    if (isToken) {
      const issuedAfter = revocations.until(offer.proxyId, merchantId)
      const claimed = await claims.claim(paymentHash, 'l402', merchantId, { chargeId, tokenId, price, issuedAfter })
      return claimed === null ? null : paid(null)
    }
    if (offer.meter !== null)
      return (await claims.claim(paymentHash, 'payment', merchantId)) === null ? null : paid(null)
    if (challenge.method !== offer.method || challenge.state === 'spent') return null
    const taken = await claims.lease(paymentHash, merchantId, null, isSpentByCrash(offer))
    return taken === null ? null : paid(taken.lease)
  }
}
