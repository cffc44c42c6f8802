/**
 * Caveats of an L402 macaroon, written `name=value`. Verified tokens are cached: `readGrant` intersects caveats once;
 * `checkGrant` runs per request and allocates only on refusal.
 */
import { withBudget, withModels, type KeyLimits } from './key-limits.ts'

/** Members become caveats in the contract's order; a null merchant has none. */
export interface GrantTerms {
  /** `<service name>:<tier>`, see `serviceCaveat`. */
  readonly service: string
  /** The raw path without query, or the resource, byte for byte. */
  readonly path: string
  /** Whether a final `/*` in `path` is a wildcard; false for paths from requests. */
  readonly wildcard: boolean
  readonly merchantId: string | null
  readonly chargeId: string
  readonly amountSats: number
  readonly price?: string | null
  /** Expiry in Unix seconds. */
  readonly expires: number
}

/** In order of precedence of their failures (decision 112). */
type CaveatName = 'merchant_id' | 'expires' | 'path' | 'services' | 'amount_sats' | 'price' | 'charge_id'

/** Intersection of a token's caveats, frozen; null where absent. */
export interface Grant {
  readonly service: string | null
  /** A path, or a prefix with `/*`. */
  readonly path: string | null
  readonly merchantId: string | null
  readonly chargeId: string | null
  readonly amountSats: number | null
  /** A price not in bitcoin. Holders can add it: only the payment's row proves it. */
  readonly price: string | null
  /** Unix seconds. */
  readonly expires: number | null
  /** Unsatisfiable caveats: malformed, or repeated and wider. Null for none. */
  readonly flaws: Readonly<Partial<Record<CaveatName, string>>> | null
  /** Why an unknown caveat or a wrong `preimage` caveat fails the token; else null. */
  readonly unknown: string | null
  /** Null for none. Only metered requests can be held to them. */
  readonly limits: KeyLimits | null
}

export interface GrantRequirement {
  readonly service: string
  /** The raw path without query, or the resource. */
  readonly path: string
  /** Owner of the resource; null for none. */
  readonly merchantId: string | null
  /** Charge id of the payment's row; null skips the check. */
  readonly chargeId: string | null
  /** Price in satoshis; null where it is `price`. */
  readonly amountSats: number | null
  readonly price?: string | null
  /** Default: false, so that limits refuse. */
  readonly isMetered?: boolean
}

/** 403 for merchant, expiry and path, else 401 (decision 111). */
export type CaveatFailure =
  | { readonly status: 403; readonly caveat: 'merchant_id'; readonly message: MerchantMessage }
  | { readonly status: 403; readonly caveat: 'expires'; readonly message: string; readonly expires: number }
  | {
      readonly status: 403
      readonly caveat: 'path'
      readonly message: string
      readonly allowed: string
      readonly requested: string
    }
  | { readonly status: 401; readonly caveat: CaveatName | 'unknown'; readonly message: string }

/** The contract's texts for a merchant mismatch. */
type MerchantMessage =
  | 'Token not valid for this merchant'
  | 'Token requires merchant context but none was provided'
  | 'Token missing required merchant_id caveat'

const BALANCE_TIER = ':1'
const DEPOSIT_TIER = ':2'

/**
 * The `services` value: tier 0 (decision 113), or tier 1 where a payment buys a balance, so that neither passes for the
 * other (decision 257).
 */
export function serviceCaveat(name: string, isMetered = false): string {
  return `${name}${isMetered ? BALANCE_TIER : ':0'}`
}

/** The `services` value of session deposits, valid for nothing else (decision 257). */
export function depositService(name: string): string {
  return `${name}${DEPOSIT_TIER}`
}

export function isOfDeposit(service: string): boolean {
  return service.endsWith(DEPOSIT_TIER)
}

export function isOfBalance(service: string): boolean {
  return service.endsWith(BALANCE_TIER)
}

/**
 * A new token's caveats in the contract's order.
 * @throws RangeError for a non-integer price or expiry
 */
export function issueCaveats(terms: GrantTerms): string[] {
  const caveats = [`services=${terms.service}`, `path=${terms.wildcard ? terms.path : exactPath(terms.path)}`]
  if (terms.merchantId !== null) caveats.push(`merchant_id=${terms.merchantId}`)
  caveats.push(`charge_id=${terms.chargeId}`, `amount_sats=${wholeNumber('price', terms.amountSats)}`)
  if (typeof terms.price === 'string') caveats.push(`price=${terms.price}`)
  caveats.push(`expires=${wholeNumber('expiry', terms.expires)}`)
  return caveats
}

function wholeNumber(what: string, value: number): string {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new RangeError(`The ${what} of a token must be a whole number from 0 up, not ${value}`)
  return String(value)
}

/**
 * An exact `path` caveat. `*` is an ordinary URL character: escaped as `%2A`, so that buying the literal path `/a/*`
 * does not grant all below `/a/`.
 */
export function exactPath(path: string): string {
  return path.endsWith('/*') ? `${path.slice(0, -1)}%2A` : path
}

/** `/a/*` covers `/a/` and `/a/b`, not `/a` (decision 114). */
export function pathCovers(path: string, requested: string): boolean {
  if (path.length > 1 && path.endsWith('/*')) return requested.startsWith(path.slice(0, -1))
  return path === requested || path === exactPath(requested)
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const WHOLE_NUMBER = /^(?:0|[1-9][0-9]{0,14})$/

/**
 * Intersects a verified macaroon's caveats. Never throws: faults surface in `checkGrant`.
 * @param caveats raw bytes, in order
 * @param preimage the presented preimage, which a `preimage` caveat must repeat
 */
export function readGrant(caveats: readonly Uint8Array[], preimage: string): Grant {
  const grant: Draft = { ...NOTHING }
  for (let at = 0; at < caveats.length; at++) addCaveat(grant, caveats, at, preimage)
  return Object.freeze(grant)
}

type Draft = { -readonly [Name in keyof Grant]: Grant[Name] }

const NOTHING: Grant = Object.freeze({
  service: null,
  path: null,
  merchantId: null,
  chargeId: null,
  amountSats: null,
  price: null,
  expires: null,
  flaws: null,
  unknown: null,
  limits: null
})

function addCaveat(grant: Draft, caveats: readonly Uint8Array[], at: number, preimage: string): void {
  const refuse = (message: string): void => {
    grant.unknown ??= message
  }
  let text: string
  try {
    text = utf8.decode(caveats[at])
  } catch {
    return refuse('Unknown caveat: not UTF-8')
  }
  const equals = text.indexOf('=')
  const name = equals < 0 ? text : text.slice(0, equals)
  const value = equals < 0 ? '' : text.slice(equals + 1)
  switch (name) {
    case 'services':
      grant.service = same(grant, name, grant.service, value)
      break
    case 'merchant_id':
      grant.merchantId = same(grant, name, grant.merchantId, value)
      break
    case 'charge_id':
      grant.chargeId = same(grant, name, grant.chargeId, value)
      break
    case 'price':
      grant.price = same(grant, name, grant.price, value)
      break
    case 'path':
      narrowPath(grant, value)
      break
    case 'amount_sats': {
      const amount = wholeOf(grant, name, value)
      if (grant.amountSats !== null && grant.amountSats !== amount) wider(grant, name)
      else grant.amountSats = amount
      break
    }
    case 'expires': {
      const expires = wholeOf(grant, name, value)
      if (grant.expires !== null && expires > grant.expires) wider(grant, name)
      else grant.expires = expires
      break
    }
    case 'preimage':
      // The holder knows the preimage, so constant time is unnecessary.
      if (value !== preimage) refuse('The preimage caveat does not match the preimage')
      break
    case 'budget_msat': {
      const limits = withBudget(grant.limits, value, caveats, at)
      if (typeof limits === 'string') refuse(limits)
      else grant.limits = limits
      break
    }
    case 'model':
      grant.limits = withModels(grant.limits, value)
      break
    case 'label':
      // Tells two keys with the same limits apart.
      break
    default:
      refuse(`Unknown caveat: ${printable(name)}`)
  }
}

function same(grant: Draft, name: CaveatName, before: string | null, value: string): string {
  if (value === '') flaw(grant, name, `Caveat ${name} has no value`)
  else if (before !== null && before !== value) wider(grant, name)
  return before ?? value
}

function narrowPath(grant: Draft, value: string): void {
  if (value === '') flaw(grant, 'path', 'Caveat path has no value')
  const { path } = grant
  // For two wildcards covering also decides which is narrower.
  if (path === null || path === value || (path.endsWith('/*') && pathCovers(path, value))) grant.path = value
  else wider(grant, 'path')
}

function wholeOf(grant: Draft, name: CaveatName, value: string): number {
  if (WHOLE_NUMBER.test(value)) return Number(value)
  flaw(grant, name, `Caveat ${name} is not a whole number`)
  return 0
}

function wider(grant: Draft, name: CaveatName): void {
  flaw(grant, name, `Repeated caveat ${name} is not equal to or narrower than the one before`)
}

function flaw(grant: Draft, name: CaveatName, message: string): void {
  grant.flaws = { [name]: message, ...grant.flaws }
}

// Holders choose names, which reach a header and a log.
function printable(name: string): string {
  return name.slice(0, 64).replace(/[^\x21-\x7e]/g, '?')
}

/**
 * Null, or the first failure in the order merchant_id, expires, path, services, amount_sats, price, charge_id, unknown
 * (decision 112). Caveats of all our tokens are required.
 * @param now Unix seconds with fractions; no leeway (decision 174)
 */
export function checkGrant(grant: Grant, requirement: GrantRequirement, now: number): CaveatFailure | null {
  const flaws = grant.flaws
  if (flaws?.merchant_id !== undefined) return invalid('merchant_id', flaws.merchant_id)
  if (grant.merchantId !== requirement.merchantId) return merchantFailure(grant.merchantId, requirement.merchantId)

  const expiry = checkExpiry(grant, now)
  if (expiry !== null) return expiry

  if (flaws?.path !== undefined) return invalid('path', flaws.path)
  if (grant.path === null) return missing('path')
  if (!pathCovers(grant.path, requirement.path)) {
    return {
      status: 403,
      caveat: 'path',
      message: 'Token not valid for this path',
      allowed: grant.path,
      requested: requirement.path
    }
  }

  if (flaws?.services !== undefined) return invalid('services', flaws.services)
  if (grant.service === null) return missing('services')
  if (grant.service !== requirement.service) return invalid('services', 'Token not valid for this service')

  if (flaws?.amount_sats !== undefined) return invalid('amount_sats', flaws.amount_sats)
  if (grant.amountSats === null) return missing('amount_sats')
  if (flaws?.price !== undefined) return invalid('price', flaws.price)
  if (typeof requirement.price === 'string') {
    if (grant.price !== requirement.price) {
      const paid = grant.price ?? `${grant.amountSats} sats`
      return invalid(
        'price',
        `Token price does not match the current price: it was bought at ${paid}, ${requirement.price} is asked`
      )
    }
  } else if (grant.amountSats !== requirement.amountSats) {
    return invalid(
      'amount_sats',
      `Token price does not match the current price: ${grant.amountSats} sats were paid, ${requirement.amountSats} are asked`
    )
  }

  if (flaws?.charge_id !== undefined) return invalid('charge_id', flaws.charge_id)
  if (requirement.chargeId !== null && grant.chargeId !== requirement.chargeId) {
    return grant.chargeId === null ? missing('charge_id') : invalid('charge_id', 'Token not valid for this charge')
  }

  if (grant.limits !== null && requirement.isMetered !== true)
    return invalid('unknown', 'Caveats budget_msat and model limit what a balance pays for, and nothing else')
  return grant.unknown === null ? null : invalid('unknown', grant.unknown)
}

/**
 * Checks a token without a request: expiry, flaws, unknown caveats; not merchant, path or price (decision 128). Null,
 * or the first failure.
 */
export function checkGrantTimes(grant: Grant, now: number): CaveatFailure | null {
  const flaws = grant.flaws
  if (flaws?.merchant_id !== undefined) return invalid('merchant_id', flaws.merchant_id)
  const expiry = checkExpiry(grant, now)
  if (expiry !== null) return expiry
  for (const name of AFTER_EXPIRY) {
    const flaw = flaws?.[name]
    if (flaw !== undefined) return invalid(name, flaw)
  }
  return grant.unknown === null ? null : invalid('unknown', grant.unknown)
}

const AFTER_EXPIRY: readonly CaveatName[] = ['path', 'services', 'amount_sats', 'price', 'charge_id']

function checkExpiry(grant: Grant, now: number): CaveatFailure | null {
  const flaw = grant.flaws?.expires
  if (flaw !== undefined) return invalid('expires', flaw)
  if (grant.expires === null) return missing('expires')
  if (now <= grant.expires) return null
  return { status: 403, caveat: 'expires', message: 'Token expired', expires: grant.expires }
}

function merchantFailure(held: string | null, wanted: string | null): CaveatFailure {
  const message: MerchantMessage =
    held === null
      ? 'Token missing required merchant_id caveat'
      : wanted === null
        ? 'Token requires merchant context but none was provided'
        : 'Token not valid for this merchant'
  return { status: 403, caveat: 'merchant_id', message }
}

function invalid(caveat: CaveatName | 'unknown', message: string): CaveatFailure {
  return { status: 401, caveat, message }
}

function missing(caveat: CaveatName): CaveatFailure {
  return { status: 401, caveat, message: `Token missing required ${caveat} caveat` }
}
