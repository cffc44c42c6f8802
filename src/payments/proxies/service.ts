import { iso } from '../../engine/formats/iso-time.ts'
import { countEndpoints, isProxyId, proxyNotFound } from '../../accounts/merchants/holdings.ts'
import { newProxyId, type ProxyRow, type ProxyStore } from './store.ts'
import { ADDRESS_BLOCKED, VALIDATION } from '../../engine/operations/error-kinds.ts'
import { notFound, ShortError } from '../../engine/operations/errors.ts'
import { keyInSlot } from '../../lightning/providers/slot-keys.ts'
import { overCap } from '../../accounts/merchants/plans.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { isUniqueViolation } from '../../platform/database/database.ts'
import { quietly, type State } from '../../platform/state/state.ts'
import type { Random } from '../../platform/system/ids.ts'
import type { Sealer } from '../../platform/keys/secrets.ts'
import { AddressRefused, checkTargetUrl, NameUnresolved } from '../../engine/upstream/guard.ts'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { metersProxies } from '../../engine/checks/sale.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { ProxyDirectory } from './directory.ts'
import {
  MAX_TIMEOUT_SECONDS,
  NO_PROVIDER_KEY,
  type ProxyEndpoint,
  type ProbeView,
  type ProxyChange,
  type ProxyInput,
  type ProxyView
} from './schema.ts'
import { authHeaderOf, checkAuth, documentIn, endpointsOf, patternOf } from './input.ts'
import { checkMost, priceOfInput } from './price.ts'
import { withPrevious } from './pricing.ts'

export interface ProxyServiceDependencies {
  readonly call: OutboundCall
  readonly directory: ProxyDirectory
  readonly merchants: Merchants
  readonly store: ProxyStore
  readonly sealer: Sealer
  readonly clock: Clock
  readonly random: Random
  /** A function, since a free port is known late. */
  publicUrl(): string
  readonly production: boolean
  config(): Pick<GatewayConfig, 'payment' | 'routes' | 'chains' | 'server'>
  /** Keeps failed tests of targets. */
  readonly state: State
}

/** Attempts at an unused id: merchants share names. */
const DRAWS = 5
const TEST_KEPT = 7 * 86_400_000

/** Proxies of merchants (contract, Proxy configuration; decisions 84, 87, 89 to 92). */
export class ProxyService {
  readonly #dependencies: ProxyServiceDependencies

  constructor(dependencies: ProxyServiceDependencies) {
    this.#dependencies = dependencies
  }

  /** @throws the 402 of a plan cap, a validation problem, or `{error}` 400 for a refused target */
  async create(merchant: Merchant, input: ProxyInput): Promise<ProxyView> {
    this.#checkPrices(merchant, input)
    const { clock, config, merchants, publicUrl, random, store } = this.#dependencies
    const now = clock.now()
    const draft: Omit<ProxyRow, 'proxyId'> = {
      merchantId: merchant.id,
      name: input.name,
      description: null,
      targetBaseUrl: input.targetBaseUrl,
      defaultPriceSats: input.defaultPriceSats,
      defaultPrice: null,
      endpoints: [],
      tokenValiditySeconds: Math.floor(config().payment.tokenValidity / 1000),
      timeout: MAX_TIMEOUT_SECONDS,
      renewal: 'default',
      priceGrace: 0,
      formerPrices: [],
      allowedMethods: [],
      allowedPaths: [],
      blockedPaths: [],
      authHeader: null,
      authValue: null,
      isActive: true,
      isListed: false,
      examples: [],
      createdAt: now,
      updatedAt: now
    }
    const caps = merchants.caps(merchant)
    for (let draw = 1; ; draw++) {
      const row = this.#changed({ ...draft, proxyId: newProxyId(input.name, random) }, input)
      try {
        const held = await store.insert(row, caps.endpoints, countEndpoints)
        if (held === null) return await this.#view(merchant, row)
        const use = { current: held, requested: 1 }
        throw overCap('endpoint', merchant, caps, use, `${publicUrl()}/problems`) ?? notFound()
      } catch (error) {
        if (draw === DRAWS || !isUniqueViolation(error, 'proxies_pkey')) throw error
      }
    }
  }

  async list(merchant: Merchant): Promise<ProxyView[]> {
    return await Promise.all((await this.#dependencies.store.list(merchant.id)).map(row => this.#view(merchant, row)))
  }

  async get(merchant: Merchant, proxyId: string): Promise<ProxyView> {
    return await this.#view(merchant, await this.#own(merchant, proxyId))
  }

  /** Partial change; an empty authValue removes it. */
  async update(merchant: Merchant, proxyId: string, change: ProxyChange): Promise<ProxyView> {
    this.#checkPrices(merchant, change)
    const next = isProxyId(proxyId)
      ? await this.#dependencies.store.update(
          merchant.id,
          proxyId,
          row => {
            const next = this.#changed(row, change)
            return { ...next, formerPrices: withPrevious(row.formerPrices, row, next, next.updatedAt) }
          },
          documentIn(change)
        )
      : null
    if (next === null) throw proxyNotFound()
    if (change.targetBaseUrl !== undefined) await quietly(this.#dependencies.state.delete(testOf(proxyId)))
    // This process before the response; others are notified.
    await this.#dependencies.directory.refresh(proxyId)
    return await this.#view(merchant, next)
  }

  async delete(merchant: Merchant, proxyId: string): Promise<void> {
    if (
      !isProxyId(proxyId) ||
      !(await this.#dependencies.store.delete(merchant.id, proxyId, this.#dependencies.clock.now()))
    )
      throw proxyNotFound()
    // This process before the response; others are notified.
    await this.#dependencies.directory.refresh(proxyId)
  }

  /** Sends one GET to the target; answers also when the target does not (decision 90). */
  async test(merchant: Merchant, proxyId: string): Promise<ProbeView> {
    const row = await this.#own(merchant, proxyId)
    const { sealer, state } = this.#dependencies
    const seen = await this.#probe(row, openAuthValue(sealer, row))
    const key = testOf(proxyId)
    await quietly(seen.statusCode === null ? state.set(key, seen.message, TEST_KEPT) : state.delete(key))
    return seen
  }

  /**
   * One GET of the base address with the upstream header, through the address guard. Any response counts as reachable
   * (decision 90).
   */
  async #probe(row: ProxyRow, authValue: string | null): Promise<ProbeView> {
    const { call, clock } = this.#dependencies
    const begun = clock.monotonic()
    const latency = (): number => Math.round(clock.monotonic() - begun)
    try {
      const headers = row.authHeader === null || authValue === null ? [] : [row.authHeader, authValue]
      const { status } = await call({
        method: 'GET',
        url: row.targetBaseUrl,
        headers,
        timeout: row.timeout * 1000
      })
      const success = status < 400
      return {
        success,
        statusCode: status,
        latencyMs: latency(),
        message: success ? `The target answered ${status}.` : `The target was reached and answered ${status}.`
      }
    } catch (error) {
      return { success: false, statusCode: null, latencyMs: latency(), message: reason(error) }
    }
  }

  /** @throws ShortError 400 for an unsellable endpoint */
  #endpoints(inputs: NonNullable<ProxyInput['endpoints']>): ProxyEndpoint[] {
    const metered = inputs.findIndex(({ meter }) => meter !== undefined)
    if (metered >= 0 && !metersProxies(this.#dependencies.config()))
      throw new ShortError(
        VALIDATION,
        `endpoints[${metered}] has a meter, and no route of this gateway takes from balances: the operator must add meter to the chain of its proxies.`
      )
    return endpointsOf(inputs)
  }

  async #own(merchant: Merchant, proxyId: string): Promise<ProxyRow> {
    const row = isProxyId(proxyId) ? await this.#dependencies.store.get(merchant.id, proxyId) : null
    if (row === null) throw proxyNotFound()
    return row
  }

  /** What `change` gives, checked, in place of the row's. */
  #changed(row: ProxyRow, change: ProxyChange): ProxyRow {
    const { targetBaseUrl, defaultPrice, endpoints, allowedPaths, blockedPaths, authHeader, authValue } = change
    const { openapi: _openapi, ...plain } = change
    const next: ProxyRow = {
      ...row,
      ...plain,
      targetBaseUrl: targetBaseUrl === undefined ? row.targetBaseUrl : this.#target(targetBaseUrl),
      defaultPrice: defaultPrice === undefined ? row.defaultPrice : priceOfInput(defaultPrice, '/defaultPrice'),
      endpoints: endpoints === undefined ? row.endpoints : this.#endpoints(endpoints),
      allowedPaths: allowedPaths === undefined ? row.allowedPaths : allowedPaths.map(patternOf),
      blockedPaths: blockedPaths === undefined ? row.blockedPaths : blockedPaths.map(patternOf),
      authHeader: authHeader === undefined ? row.authHeader : authHeaderOf(authHeader),
      authValue: authValue === undefined ? row.authValue : this.#sealed(authValue, row.proxyId),
      updatedAt: this.#dependencies.clock.now()
    }
    checkAuth(next)
    if (row.authValue !== null && authValue === undefined && originOf(row) !== originOf(next))
      throw new ShortError(
        VALIDATION,
        'authValue: The address has another host, so the saved value is not sent there. Enter it again, or remove it.'
      )
    checkMost(next)
    return next
  }

  #target(text: string): string {
    try {
      const url = checkTargetUrl(text, { production: this.#dependencies.production })
      return url.href.endsWith('/') ? url.href.slice(0, -1) : url.href
    } catch (error) {
      if (error instanceof AddressRefused) throw new ShortError(ADDRESS_BLOCKED, `targetBaseUrl: ${error.message}`)
      throw error
    }
  }

  #checkPrices(merchant: Merchant, input: Pick<ProxyChange, 'defaultPriceSats' | 'endpoints'>): void {
    const highest = Math.max(
      input.defaultPriceSats ?? 0,
      ...(input.endpoints ?? []).map(endpoint => endpoint.priceSats)
    )
    const refusal = overCap(
      'price',
      merchant,
      this.#dependencies.merchants.caps(merchant),
      { current: 0, requested: highest },
      `${this.#dependencies.publicUrl()}/problems`
    )
    if (refusal !== null) throw refusal
  }

  #sealed(value: string | null, proxyId: string): string | null {
    return value === null || value === '' ? null : this.#dependencies.sealer.seal(value, place(proxyId))
  }

  async #view(merchant: Merchant, row: ProxyRow): Promise<ProxyView> {
    const { config, publicUrl, state } = this.#dependencies
    const tested = await quietly(state.get(testOf(row.proxyId)))
    const { merchantId: _merchantId, formerPrices: _formerPrices, authValue, defaultPrice, ...shown } = row
    return {
      ...shown,
      proxyUrl: `${config().server.proxyUrl || publicUrl()}/l402/proxy/${row.proxyId}/`,
      ...(defaultPrice === null ? {} : { defaultPrice }),
      endpoints: [...row.endpoints],
      allowedMethods: [...row.allowedMethods],
      allowedPaths: [...row.allowedPaths],
      blockedPaths: [...row.blockedPaths],
      hasAuthValue: authValue !== null,
      examples: [...row.examples],
      problem: keyInSlot(merchant) === null ? NO_PROVIDER_KEY : (tested ?? null),
      createdAt: iso(row.createdAt),
      updatedAt: iso(row.updatedAt)
    }
  }
}

function reason(error: unknown): string {
  if (error instanceof AddressRefused) return `The target was refused: ${error.message}`
  if (error instanceof NameUnresolved) return 'The target could not be reached: its name has no address.'
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'no answer'
  return `The target could not be reached (${code}).`
}

function originOf({ targetBaseUrl }: Pick<ProxyRow, 'targetBaseUrl'>): string {
  return new URL(targetBaseUrl).origin
}

function testOf(proxyId: string): string {
  return `proxy-test:${proxyId}`
}

/** @throws UnsealError */
export function openAuthValue(sealer: Sealer, row: ProxyRow): string | null {
  return row.authValue === null ? null : sealer.open(row.authValue, place(row.proxyId)).reveal()
}

function place(proxyId: string): { table: string; column: string; row: string } {
  return { table: 'proxies', column: 'auth_value', row: proxyId }
}
