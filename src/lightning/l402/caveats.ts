/**
 * What a token grants: the caveats of an L402 macaroon, written `name=value`. Reading is split in two, because a
 * verified token is cached: `readGrant` intersects the caveats once, `checkGrant` compares the result with each request
 * and allocates nothing unless it refuses.
 */

/**
 * What a token is issued for. Every member becomes a caveat, in the contract's order; a null merchant leaves its out.
 */
export interface GrantTerms {
  /** `<service name>:<tier>`, see `serviceCaveat`. */
  readonly service: string
  /** The raw path (no query) or resource, byte for byte as requests will show it. */
  readonly path: string
  /** Whether a `/*` at the end of `path` is a wildcard; false for a path that came from a request. */
  readonly wildcard: boolean
  readonly merchantId: string | null
  readonly chargeId: string
  readonly amountSats: number
  /** What was asked where that is no bitcoin, such as `USD 0.002`; else there is no such caveat. */
  readonly price?: string | null
  /** Unix seconds after which the token is invalid. */
  readonly expires: number
}

/** Names of the caveats, in the order in which a failure of one hides the failure of the next (decision 112). */
export type CaveatName = 'merchant_id' | 'expires' | 'path' | 'services' | 'amount_sats' | 'price' | 'charge_id'

/** The intersection of a token's caveats. Frozen; a caveat that was not there is null. */
export interface Grant {
  readonly service: string | null
  /** A path, or a prefix that ends in `/*`. */
  readonly path: string | null
  readonly merchantId: string | null
  readonly chargeId: string | null
  readonly amountSats: number | null
  /** What was asked where that was no bitcoin. A holder can add it: only the payment's row says that it was so. */
  readonly price: string | null
  /** Unix seconds. */
  readonly expires: number | null
  /** Caveats that no request can satisfy: malformed, or repeated and wider than before. Null for a sound token. */
  readonly flaws: Readonly<Partial<Record<CaveatName, string>>> | null
  /** Why an unknown caveat, or a `preimage` caveat that is not the presented one, fails the token; else null. */
  readonly unknown: string | null
}

/** What a request needs from a token. */
export interface GrantRequirement {
  /** `<service name>:<tier>`. */
  readonly service: string
  /** The request's raw path without query, or the resource. */
  readonly path: string
  /** The merchant whose resource it is; null where there is none. */
  readonly merchantId: string | null
  /** The provider's charge id when the payment's row is at hand; null leaves the caveat unchecked. */
  readonly chargeId: string | null
  /** The current price in satoshis; null where it is `price`. */
  readonly amountSats: number | null
  /** The current price where that is no bitcoin. */
  readonly price?: string | null
}

/** Why a token does not satisfy a request. 403 for merchant, expiry and path, else 401 (decision 111). */
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

/** The three texts of the contract's error table for a merchant mismatch. */
export type MerchantMessage =
  | 'Token not valid for this merchant'
  | 'Token requires merchant context but none was provided'
  | 'Token missing required merchant_id caveat'

const BALANCE_TIER = ':1'
const DEPOSIT_TIER = ':2'

/**
 * The value of `services` for a service of ours: tier 0 (decision 113), and tier 1 where a payment buys a balance, so
 * that neither is taken for the other (decision 257).
 */
export function serviceCaveat(name: string, isMetered = false): string {
  return `${name}${isMetered ? BALANCE_TIER : ':0'}`
}

/** The value of `services` for the deposits of sessions: a payment for one is good for nothing else (decision 257). */
export function depositService(name: string): string {
  return `${name}${DEPOSIT_TIER}`
}

/** Whether a value of `services` is that of a session's deposit. */
export function isOfDeposit(service: string): boolean {
  return service.endsWith(DEPOSIT_TIER)
}

/** Whether a value of `services` is of what is paid from a balance. */
export function isOfBalance(service: string): boolean {
  return service.endsWith(BALANCE_TIER)
}

/**
 * The caveats of a new token as text, in the contract's order.
 * @throws RangeError when the price or the expiry is not a whole number that can be read back.
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
 * A request's path as an exact `path` caveat. `*` is an ordinary character in a URL: without this, whoever asks for the
 * literal path `/a/*` at its price would be sold everything below `/a/`. So such a path is written with `%2A`.
 */
export function exactPath(path: string): string {
  return path.endsWith('/*') ? `${path.slice(0, -1)}%2A` : path
}

/**
 * Whether `path` (exact, or a prefix ending in `/*`) covers the requested path. `/a/*` covers `/a/` and `/a/b`, not
 * `/a` (decision 114).
 */
export function pathCovers(path: string, requested: string): boolean {
  if (path.length > 1 && path.endsWith('/*')) return requested.startsWith(path.slice(0, -1))
  return path === requested || path === exactPath(requested)
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const WHOLE_NUMBER = /^(?:0|[1-9][0-9]{0,14})$/

/**
 * Intersects the caveats of a macaroon whose signature was verified. Never throws: what is wrong with a caveat is kept
 * in the grant and comes out of `checkGrant` in its turn.
 * @param caveats the raw bytes, in order
 * @param preimage the presented preimage, which a `preimage` caveat must repeat
 */
export function readGrant(caveats: readonly Uint8Array[], preimage: string): Grant {
  const reader = new GrantReader()
  for (const caveat of caveats) reader.add(caveat, preimage)
  return reader.finish()
}

class GrantReader {
  #service: string | null = null
  #path: string | null = null
  #merchantId: string | null = null
  #chargeId: string | null = null
  #amountSats: number | null = null
  #price: string | null = null
  #expires: number | null = null
  #flaws: Partial<Record<CaveatName, string>> | null = null
  #unknown: string | null = null

  add(bytes: Uint8Array, preimage: string): void {
    let text: string
    try {
      text = utf8.decode(bytes)
    } catch {
      this.#refuse('Unknown caveat: not UTF-8')
      return
    }
    const equals = text.indexOf('=')
    const name = equals < 0 ? text : text.slice(0, equals)
    const value = equals < 0 ? '' : text.slice(equals + 1)
    switch (name) {
      case 'services':
        this.#service = this.#same('services', this.#service, value)
        break
      case 'merchant_id':
        this.#merchantId = this.#same('merchant_id', this.#merchantId, value)
        break
      case 'charge_id':
        this.#chargeId = this.#same('charge_id', this.#chargeId, value)
        break
      case 'price':
        this.#price = this.#same('price', this.#price, value)
        break
      case 'path':
        this.#narrowPath(value)
        break
      case 'amount_sats':
        this.#sameAmount(value)
        break
      case 'expires':
        this.#narrowExpiry(value)
        break
      case 'preimage':
        // The preimage is a secret that the holder has shown already; its comparison needs no constant time.
        if (value !== preimage) this.#refuse('The preimage caveat does not match the preimage')
        break
      default:
        this.#refuse(`Unknown caveat: ${printable(name)}`)
    }
  }

  finish(): Grant {
    return Object.freeze({
      service: this.#service,
      path: this.#path,
      merchantId: this.#merchantId,
      chargeId: this.#chargeId,
      amountSats: this.#amountSats,
      price: this.#price,
      expires: this.#expires,
      flaws: this.#flaws === null ? null : Object.freeze(this.#flaws),
      unknown: this.#unknown
    })
  }

  #same(name: CaveatName, before: string | null, value: string): string {
    if (value === '') this.#flaw(name, `Caveat ${name} has no value`)
    else if (before !== null && before !== value) this.#wider(name)
    return before ?? value
  }

  #narrowPath(value: string): void {
    if (value === '') this.#flaw('path', 'Caveat path has no value')
    // A wildcard within a wildcard is narrower when its prefix lies inside, so plain covering decides for both forms.
    const narrower =
      this.#path === null || this.#path === value || (this.#path.endsWith('/*') && pathCovers(this.#path, value))
    if (narrower) this.#path = value
    else this.#wider('path')
  }

  #sameAmount(value: string): void {
    const amount = this.#number('amount_sats', value)
    if (this.#amountSats !== null && this.#amountSats !== amount) this.#wider('amount_sats')
    else this.#amountSats = amount
  }

  #narrowExpiry(value: string): void {
    const expires = this.#number('expires', value)
    if (this.#expires !== null && expires > this.#expires) this.#wider('expires')
    else this.#expires = expires
  }

  #number(name: CaveatName, value: string): number {
    if (WHOLE_NUMBER.test(value)) return Number(value)
    this.#flaw(name, `Caveat ${name} is not a whole number`)
    return 0
  }

  #wider(name: CaveatName): void {
    this.#flaw(name, `Repeated caveat ${name} is not equal to or narrower than the one before`)
  }

  #flaw(name: CaveatName, message: string): void {
    this.#flaws ??= {}
    this.#flaws[name] ??= message
  }

  #refuse(message: string): void {
    this.#unknown ??= message
  }
}

// Names come from whoever holds the token and end up in a header and a log.
function printable(name: string): string {
  return name.slice(0, 64).replace(/[^\x21-\x7e]/g, '?')
}

/**
 * Whether the grant satisfies the request: null, or the first failure in the order merchant_id, expires, path,
 * services, amount_sats, price, charge_id, unknown (decision 112). A caveat that every token of ours carries must be there.
 * @param now unix seconds, fractions allowed; there is no leeway (decision 174)
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

  return grant.unknown === null ? null : invalid('unknown', grant.unknown)
}

/**
 * Whether a token stands by itself: expiry, no flaw, no unknown caveat; not its merchant, path or price, for which
 * there is no request to compare with (decision 128). Null, or the first failure.
 */
export function checkStanding(grant: Grant, now: number): CaveatFailure | null {
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
