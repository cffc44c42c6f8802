import type { Context, UpstreamTarget } from '../../engine/message/context.ts'
import { FORBIDDEN, METHOD_NOT_ALLOWED } from '../../engine/operations/error-kinds.ts'
import { LongError, Unavailable } from '../../engine/operations/errors.ts'
import { comparablePath, mergedPath } from '../../engine/message/path.ts'
import { ProxyScope } from '../../engine/message/proxy-scope.ts'
import type { HookResult } from '../../engine/pipeline/plugin.ts'
import type { Reply } from '../../engine/message/reply.ts'
import { hostName } from '../../engine/pipeline/router.ts'
import { serviceCaveat } from '../../lightning/l402/caveats.ts'
import { paymentScheme } from '../../engine/message/payment-headers.ts'
import { gate } from '../../accounts/merchants/gate.ts'
import { amountOf } from '../../selling/offers/request-price.ts'
import { BALANCE_VALIDITY, type Offer, type Renewal, PROXY_UNAVAILABLE } from '../../selling/offers/offer.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { ListedProxy, ProxyDirectory } from './directory.ts'
import { choosePrice, type ChosenAmount } from './price.ts'
import { graceOf, pathAllowed, priceOfEither, type ProxyPrice } from './pricing.ts'
import { keyInSlot } from '../../lightning/providers/slot-keys.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { ChallengeSettings } from '../../selling/offers/settings.ts'
import { proxyNotFound } from '../../accounts/merchants/holdings.ts'
import { defineError } from '../../platform/system/errors.ts'

const PROXY_PATH_NOT_ALLOWED = defineError('BG_PROXY_PATH_NOT_ALLOWED', {
  status: 403,
  title: 'Path not allowed',
  cause: 'The proxy does not sell this path. Nothing was charged.',
  fix: 'The merchant sets `allowedPaths` and `blockedPaths`.'
})

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly proxies: ProxyAdmission
  }
}

interface AdmissionDependencies {
  readonly directory: ProxyDirectory
  readonly clock: Clock
  config(): Pick<GatewayConfig, 'server'>
  settings(): Pick<ChallengeSettings, 'invoiceExpiry'>
}

interface RouteTerms {
  /** Path segments in front of the part that goes upstream. */
  readonly prefixSegments: number
  readonly renewal: Renewal
  readonly order: Offer['order']
  readonly releaseOn: Offer['releaseOn']
  readonly afterCrash: Offer['afterCrash']
}

/** Bytes of an upstream response: 10 MiB (contract, Limits: Proxy). */
const RESPONSE_LIMIT = 10_485_760

const CLOSED = 'This proxy cannot sell requests at the moment. Nothing was charged.'

interface Prepared {
  readonly origin: string
  readonly basePath: string
  readonly requestHeaders: readonly string[]
  readonly responseHeaders: readonly string[]
  readonly members: Readonly<Record<string, unknown>>
  readonly service: string
  readonly meteredService: string
  readonly place: string
}

interface PageRequest {
  readonly proxy: ListedProxy
  readonly prepared: Prepared
  readonly price: ProxyPrice
  readonly rest: string
  /** `rest` normalized, with doubled slashes merged. */
  readonly path: string
  readonly merged: string
  readonly closed: boolean
}

/**
 * Resolves a request for `/l402/proxy/{proxyId}/…` to its offer and upstream before any charge. Answers unknown and
 * inactive proxies, refused paths and methods (decisions 91 to 95).
 */
export class ProxyAdmission {
  readonly #dependencies: AdmissionDependencies
  readonly #prepared = new WeakMap<ListedProxy, Prepared>()

  constructor(dependencies: AdmissionDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Sets `ctx.offer` and `ctx.upstreamTarget`, or redirects to the proxy host. Async only for an uncached proxy or a
   * price that depends on the body.
   * @throws 404, 403, 405 and 503, and 400 for an undeterminable price
   */
  admit(ctx: Context, proxyId: string, terms: RouteTerms): HookResult {
    const elsewhere = this.#elsewhere(ctx)
    // Clients drop credentials on a cross-origin redirect.
    if (elsewhere !== null && !bringsPayment(ctx)) return elsewhere
    const found = this.#dependencies.directory.find(proxyId)
    if (found instanceof Promise) return this.#admitLater(ctx, found, terms)
    return this.#admit(ctx, found, terms)
  }

  /**
   * Redirect to `server.proxyUrl` for other hosts; null on the right one, even where an outer proxy replaced Host:
   * pages cannot navigate with X-Forwarded-Host or a credential.
   */
  #elsewhere(ctx: Context): Reply | null {
    const url = this.#dependencies.config().server.proxyUrl
    if (url === '') return null
    const [forwarded = ''] = (ctx.headers.get('x-forwarded-host') ?? '').split(',')
    const { hostname } = new URL(url)
    if (hostName(ctx.host) === hostname || hostName(forwarded.trim().toLowerCase()) === hostname) return null
    return { status: 308, headers: ['Location', url + ctx.target], body: null }
  }

  async #admitLater(ctx: Context, found: Promise<ListedProxy | null>, terms: RouteTerms): Promise<void | Reply> {
    return await this.#admit(ctx, await found, terms)
  }

  #admit(ctx: Context, proxy: ListedProxy | null, terms: RouteTerms): HookResult {
    if (proxy === null || !proxy.row.isActive || !proxy.merchant.isActive) throw proxyNotFound()
    const { row, merchant } = proxy
    ctx.tally = proxy.tally
    const prepared = this.#prepare(proxy)
    // A service worker registered here would control this whole origin.
    if (ctx.headers.has('service-worker') || ctx.headers.get('sec-fetch-dest') === 'serviceworker')
      throw new LongError(FORBIDDEN, 'Forbidden', 'A proxy does not serve service workers.', prepared.members)
    const rest = restOf(ctx.path, terms.prefixSegments)
    const path = comparablePath(rest)
    if (row.allowedMethods.length > 0 && !allowsMethod(row.allowedMethods, ctx.method)) {
      throw new LongError(
        METHOD_NOT_ALLOWED,
        'Method not allowed',
        `This proxy does not take ${ctx.method}.`,
        prepared.members,
        ['Allow', served(row.allowedMethods).join(', ')]
      )
    }
    const merged = mergedPath(path)
    if (
      !pathAllowed(row.allowedPaths, row.blockedPaths, path) ||
      (merged !== path && !pathAllowed(row.allowedPaths, row.blockedPaths, merged))
    ) {
      throw new LongError(
        PROXY_PATH_NOT_ALLOWED,
        'Path not allowed',
        'This proxy does not serve this path.',
        prepared.members
      )
    }
    const closed = gate(merchant, 'l402', this.#dependencies.clock.now()) !== null || keyInSlot(merchant) === null
    // Many upstreams treat both as equal; the higher price applies.
    const price = priceOfEither(row, ctx.method, path, merged)
    if (price === null)
      throw new LongError(
        PROXY_PATH_NOT_ALLOWED,
        'Path not allowed',
        'This path can be read in two ways that differ in price. Write it without doubled slashes.',
        prepared.members
      )
    ctx.upstreamTarget = this.#target(ctx, proxy, prepared, rest)
    if (price.amountSats === 0) return this.#give(ctx, prepared, closed)
    const request: PageRequest = { proxy, prepared, price, rest, path, merged, closed }
    if (price.price === null) {
      return this.#sell(ctx, request, { amount: price.amountSats, by: null, value: null }, terms)
    }
    const chosen = choosePrice(price.price, ctx)
    if (chosen instanceof Promise) return chosen.then(later => this.#sell(ctx, request, later, terms))
    return this.#sell(ctx, request, chosen, terms)
  }

  /** Serves for free. A credential is no reason to skip the redirect. */
  #give(ctx: Context, prepared: Prepared, closed: boolean): void | Reply {
    if (closed) throw unavailable(prepared)
    const elsewhere = this.#elsewhere(ctx)
    if (elsewhere !== null) return elsewhere
  }

  #sell(
    ctx: Context,
    { proxy: { row, merchant }, prepared, price, rest, path, merged, closed }: PageRequest,
    chosen: ChosenAmount,
    { renewal, order, releaseOn, afterCrash }: RouteTerms
  ): void | Reply {
    if (chosen.amount === 0) return this.#give(ctx, prepared, closed)
    // Equal with and without a slash (decision 95), and so is its token.
    const whole = ctx.path.endsWith(rest) ? ctx.path : `${ctx.path}${rest}`
    // A pattern covers every spelling of its paths.
    const bound = price.pattern === null ? whole : comparablePath(whole)
    const offer: Offer = {
      ...amountOf(chosen.amount),
      mostSats: price.amountSats,
      asked: null,
      source: 'proxy',
      sessions: null,
      meter: price.meter,
      service: price.meter === null ? prepared.service : prepared.meteredService,
      merchantId: String(merchant.id),
      proxyId: row.proxyId,
      place: prepared.place,
      path: bound,
      tokenPath: price.pattern === null ? bound : `${bound.slice(0, bound.length - path.length)}${price.pattern}`,
      wildcard: price.pattern?.endsWith('/*') ?? false,
      method: ctx.method,
      query: ctx.query,
      tokenValiditySeconds:
        price.tokenValiditySeconds ?? (price.meter === null ? row.tokenValiditySeconds : BALANCE_VALIDITY / 1000),
      invoiceExpirySeconds: Math.floor(this.#dependencies.settings().invoiceExpiry / 1000),
      description: row.description ?? row.name,
      payee: 'merchant',
      bindsDigest: price.meter === null,
      renewal: row.renewal === 'default' ? renewal : row.renewal,
      order,
      grace: graceOf(row.formerPrices, row.priceGrace, { method: ctx.method, path, merged }, chosen),
      releaseOn,
      afterCrash,
      closed: closed ? CLOSED : null,
      errorMembers: prepared.members
    }
    ctx.offer = offer
  }

  #target(ctx: Context, proxy: ListedProxy, prepared: Prepared, rest: string): UpstreamTarget {
    const query = ctx.target.length > ctx.path.length ? ctx.target.slice(ctx.path.length) : ''
    return {
      origin: prepared.origin,
      path: `${prepared.basePath}${rest}${query}`,
      requestHeaders: prepared.requestHeaders,
      responseHeaders: prepared.responseHeaders,
      timeout: proxy.row.timeout * 1000,
      responseLimit: RESPONSE_LIMIT,
      tenant: `merchant:${proxy.row.merchantId}`,
      untrusted: new ProxyScope(
        proxy.row.proxyId,
        ctx.path.endsWith(rest) ? ctx.path.slice(0, -rest.length) : ctx.path
      ),
      tls: null,
      errorMembers: prepared.members
    }
  }

  #prepare(proxy: ListedProxy): Prepared {
    let prepared = this.#prepared.get(proxy)
    if (prepared === undefined) {
      const { row, authValue } = proxy
      const url = new URL(row.targetBaseUrl)
      prepared = {
        origin: url.origin,
        basePath: url.pathname === '/' ? '' : url.pathname.replace(/\/$/, ''),
        requestHeaders: row.authHeader === null || authValue === null ? [] : [row.authHeader, authValue],
        responseHeaders: ['X-L402-Proxy-Id', row.proxyId, 'X-L402-Proxy', 'true'],
        members: Object.freeze({ proxy_id: row.proxyId }),
        service: serviceCaveat(row.proxyId),
        meteredService: serviceCaveat(row.proxyId, true),
        place: `proxy:${row.proxyId}`
      }
      this.#prepared.set(proxy, prepared)
    }
    return prepared
  }
}

function unavailable({ members }: Prepared): LongError {
  return new Unavailable(PROXY_UNAVAILABLE, CLOSED, 60, members)
}

/** Value of Allow: HEAD is allowed where GET is (decision 6). */
function served(allowed: readonly string[]): readonly string[] {
  return allowed.includes('GET') && !allowed.includes('HEAD')
    ? allowed.toSpliced(allowed.indexOf('GET') + 1, 0, 'HEAD')
    : allowed
}

function allowsMethod(allowed: readonly string[], method: string): boolean {
  return allowed.includes(method) || (method === 'HEAD' && allowed.includes('GET'))
}

function bringsPayment({ headers }: Context): boolean {
  return headers.all('authorization').some(value => paymentScheme(value) !== null)
}

/** Raw path after `segments` segments; `/` when empty (decision 95). */
function restOf(path: string, segments: number): string {
  let at = 0
  for (let seen = 0; seen <= segments; seen++) {
    at = path.indexOf('/', seen === 0 ? 0 : at + 1)
    if (at < 0) return '/'
  }
  return path.slice(at)
}
