import { ALREADY_EXISTS, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { invalidField } from '../../engine/operations/validation.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { queue, type JobDeclaration, type Jobs } from '../../platform/jobs/jobs.ts'
import { Secret, type Sealer } from '../../platform/keys/secrets.ts'
import { AddressRefused, checkTargetUrl } from '../../engine/upstream/guard.ts'
import { hasCredentials, type IntegrationChange, type IntegrationInput } from './integration-schema.ts'
import {
  sealedStoreColumn,
  SlugTaken,
  StoreExists,
  type Also,
  type IntegrationStore,
  type StoreSealedColumn
} from './integration-store.ts'
import { StorePlatformError, type ShopInfo, type StoreAccess, type StorePlatform } from '../platform.ts'
import type { Integration, ShippingRules, StoreCredentials } from '../schema.ts'
import { centsOf } from '../usd.ts'
import { STORE_NOT_CONNECTED, STORE_FAILED } from '../store-errors.ts'

/** What `Storefronts` needs. */
export interface StorefrontsParts {
  readonly store: IntegrationStore
  readonly sealer: Sealer
  readonly clock: Clock
  /** The platform that new stores are opened on, and all open ones are served from. */
  readonly platform: StorePlatform
  /** Has platforms told where to send notifications; null where nothing runs jobs, and then nobody tells them. */
  readonly jobs: Pick<Jobs, 'enqueue'> | null
  /** Without a slash at the end. */
  publicUrl(): string
}

/** Credentials as a merchant gives them, before they are sealed. */
interface Opening {
  readonly clientId: string | null
  readonly clientSecret: Secret<string> | null
  readonly adminApiToken: Secret<string> | null
}

const QUEUE = 'storefront-subscribe'
const CLAIM_WINDOW_DAYS = 30
const NOTHING: Also = () => Promise.resolve()

/**
 * Merchants' stores, one each (decision 143). Nothing is cached: what one process changes, the next request of any
 * process sees. Every method throws Unavailable when the database is away.
 */
export class Storefronts {
  readonly #parts: StorefrontsParts

  constructor(parts: StorefrontsParts) {
    this.#parts = parts
  }

  get jobs(): readonly JobDeclaration[] {
    return [
      queue<{ readonly storefrontId: number }>(
        QUEUE,
        { title: 'Asks shops to report what becomes of orders', concurrency: 2, retries: 8 },
        ({ data }) => this.#subscribe(data.storefrontId)
      )
    ]
  }

  /** Active or not; null for an unknown one. One on another platform than is configured counts as inactive. */
  async bySlug(slug: string): Promise<Integration | null> {
    return this.#served(await this.#parts.store.bySlug(slug))
  }

  /** Active or not; null for an unknown one. One on another platform than is configured counts as inactive. */
  async byId(id: number): Promise<Integration | null> {
    return this.#served(await this.#parts.store.byId(id))
  }

  /** Active stores that want to be found by agents, oldest first; at most 50. */
  async listed(): Promise<Integration[]> {
    const found = await this.#parts.store.listed(50)
    return found.filter(store => this.#served(store)?.isActive === true)
  }

  /** The merchant's store as it stands, or null. */
  ofMerchant(merchantId: number): Promise<Integration | null> {
    return this.#parts.store.ofMerchant(merchantId)
  }

  /** What a store's platform is asked with. @throws UnsealError */
  access(integration: Integration): StoreAccess {
    const { clientSecret, adminApiToken } = integration
    return {
      storefrontId: integration.id,
      domain: integration.storefrontDomain,
      clientId: integration.clientId,
      clientSecret: clientSecret === null ? null : this.#parts.sealer.open(clientSecret.ciphertext, clientSecret.place),
      adminApiToken:
        adminApiToken === null ? null : this.#parts.sealer.open(adminApiToken.ciphertext, adminApiToken.place)
    }
  }

  /** The merchant's store. @throws LongError 404 when it has none */
  async own(merchantId: number): Promise<Integration> {
    return there(await this.ofMerchant(merchantId))
  }

  /**
   * Opens the merchant's store. The platform is asked first, so that none stands whose credentials do not open the
   * shop, or whose prices are not in US dollars (decision 142).
   * @throws LongError 409 for a second store and a slug that is taken, 400 for credentials or a shop that the platform
   *   does not know, 502 with `upstreamStatus` when it does not say; ValidationError for money and categories
   */
  async create(merchantId: number, input: IntegrationInput): Promise<Integration> {
    const { store, platform, clock } = this.#parts
    const opening = openingOf(input, NO_CREDENTIALS) ?? NO_CREDENTIALS
    // The sandbox opens for everybody.
    if (platform.kind !== 'sandbox' && opening.adminApiToken === null && opening.clientSecret === null) {
      throw new LongError(
        STORE_NOT_CONNECTED,
        'Store credentials required',
        'Give clientId and clientSecret of your app at the platform, or adminApiToken.'
      )
    }
    const domain = hostOf(input.storefrontDomain)
    const changed = settingsOf(input)
    if ((await this.ofMerchant(merchantId)) !== null) throw storeExists()
    const holder = await this.bySlug(input.slug)
    // The merchant's own where the same request came a moment before.
    if (holder !== null) throw holder.merchantId === merchantId ? storeExists() : slugTaken(input.slug)
    const id = await store.nextId()
    const info = await this.#ask({ storefrontId: id, domain, ...opening }, 'opening')
    const now = clock.now()
    const integration: Integration = {
      ...DEFAULTS,
      ...changed({ ...DEFAULTS }),
      ...shopFacts(info),
      ...this.#sealed(id, opening),
      id,
      merchantId,
      slug: input.slug,
      platform: platform.kind,
      createdAt: now,
      updatedAt: now
    }
    try {
      await store.insert(integration, this.#thenSubscribe)
    } catch (error) {
      if (error instanceof SlugTaken) throw slugTaken(input.slug)
      if (error instanceof StoreExists) throw storeExists()
      throw error
    }
    return integration
  }

  /**
   * Changes what is named, all of it or nothing. Credentials of one form take the place of the other, and are tried at
   * the platform first. Where nothing is named nothing is written.
   * @throws as `create`, and LongError 404 when the merchant has no store
   */
  async update(merchantId: number, change: IntegrationChange): Promise<Integration> {
    const held = await this.own(merchantId)
    const opening = openingOf(change, held)
    const changed = settingsOf(change)
    if (Object.values(change).every(value => value === undefined)) return held
    const info =
      opening === null
        ? null
        : await this.#ask({ storefrontId: held.id, domain: held.storefrontDomain, ...opening }, 'opening')
    return await this.#write(
      merchantId,
      integration => ({
        ...integration,
        ...changed(integration),
        ...(opening === null || info === null ? {} : { ...this.#sealed(integration.id, opening), ...shopFacts(info) })
      }),
      opening === null ? NOTHING : this.#thenSubscribe
    )
  }

  /**
   * Reads the shop's canonical domain, handle, name and country from the platform (contract, Storefront merchant
   * endpoints).
   * @throws LongError 404 without a store, 400 without credentials, 502 with `upstreamStatus` when the platform says
   *   nothing
   */
  async refreshShopInfo(merchantId: number): Promise<Integration> {
    const held = await this.own(merchantId)
    if (!hasCredentials(held))
      throw new LongError(
        STORE_NOT_CONNECTED,
        'No access token configured',
        'Store clientId and clientSecret, or adminApiToken, with PUT /api/merchant/storefront first.'
      )
    const info = await this.#ask(this.access(held), 'refreshing')
    return await this.#write(merchantId, integration => ({ ...integration, ...shopFacts(info) }), NOTHING)
  }

  /** Has every process ask the platform for the catalog at the next request. @throws LongError 404 without a store */
  async invalidateCatalog(merchantId: number): Promise<Integration> {
    // Every process knows the catalog that it holds by the row's time of change.
    return await this.#write(merchantId, integration => integration, NOTHING)
  }

  /** Where the store's platform sends notifications (decision 163). */
  notificationAddress(integration: Integration): string {
    return `${this.#parts.publicUrl()}/api/webhooks/storefront/${integration.slug}`
  }

  #served(integration: Integration | null): Integration | null {
    return integration === null || integration.platform === this.#parts.platform.kind
      ? integration
      : { ...integration, isActive: false }
  }

  async #write(
    merchantId: number,
    change: (integration: Integration) => Integration,
    also: Also
  ): Promise<Integration> {
    const now = this.#parts.clock.now()
    return there(
      await this.#parts.store.update(
        merchantId,
        integration => ({
          ...change(integration),
          updatedAt: Math.max(now, integration.updatedAt + 1)
        }),
        also
      )
    )
  }

  #sealed(id: number, opening: Opening): StoreCredentials {
    const seal = (column: StoreSealedColumn, secret: Secret<string> | null) => {
      if (secret === null) return null
      const { place } = sealedStoreColumn(id, column, '')
      return { ciphertext: this.#parts.sealer.seal(secret.reveal(), place), place }
    }
    return {
      clientId: opening.clientId,
      clientSecret: seal('client_secret', opening.clientSecret),
      adminApiToken: seal('admin_api_token', opening.adminApiToken)
    }
  }

  async #ask(access: StoreAccess, when: 'opening' | 'refreshing'): Promise<ShopInfo> {
    const info = await this.#parts.platform.shopInfo(access).catch((error: unknown) => {
      throw platformFailure(error, when)
    })
    if (info.currency !== 'USD')
      throw new LongError(
        STORE_NOT_CONNECTED,
        'Unsupported currency',
        `The shop's currency is ${info.currency}; only shops that sell in USD can be opened.`
      )
    return info
  }

  // With what was written: a store never stands without the job that has it subscribed.
  readonly #thenSubscribe: Also = async (tx, { id }) => {
    await this.#parts.jobs?.enqueue(tx, QUEUE, { storefrontId: id }, { key: String(id) })
  }

  async #subscribe(storefrontId: number): Promise<void> {
    const integration = await this.byId(storefrontId)
    if (integration === null || integration.platform !== this.#parts.platform.kind) return
    const access = this.access(integration)
    // Without the secret no notification could be told from a forged one; orders are polled all the same.
    if (access.clientSecret === null) return
    await this.#parts.platform.subscribe(access, this.notificationAddress(integration))
  }
}

const NO_CREDENTIALS: Opening = Object.freeze({ clientId: null, clientSecret: null, adminApiToken: null })

type Settings = Pick<
  Integration,
  | 'shipping'
  | 'defaultTaxLocation'
  | 'listInRegistry'
  | 'registryCategories'
  | 'registryDescription'
  | 'claimWindowDays'
  | 'isActive'
>

const DEFAULTS: Settings = Object.freeze({
  shipping: Object.freeze({ domesticCents: 0, domesticOnly: false, freeEnabled: false, freeThresholdCents: null }),
  defaultTaxLocation: null,
  listInRegistry: false,
  registryCategories: null,
  registryDescription: null,
  claimWindowDays: CLAIM_WINDOW_DAYS,
  isActive: true
})

/** Reads everything that is named before anything is asked or written. @throws ValidationError */
function settingsOf(change: IntegrationChange): (before: Settings) => Settings {
  const domesticCents =
    change.domesticShippingUsd === undefined ? undefined : cents(change.domesticShippingUsd, '/domesticShippingUsd')
  const threshold = change.freeShippingThresholdUsd
  const freeThresholdCents =
    threshold === undefined || threshold === null ? threshold : cents(threshold, '/freeShippingThresholdUsd')
  checkCategories(change.registryCategories ?? null)
  const location = change.defaultTaxLocation
  return before => {
    const shipping: ShippingRules = {
      domesticCents: domesticCents ?? before.shipping.domesticCents,
      domesticOnly: change.domesticOnly ?? before.shipping.domesticOnly,
      freeEnabled: change.freeShippingEnabled ?? before.shipping.freeEnabled,
      freeThresholdCents: freeThresholdCents === undefined ? before.shipping.freeThresholdCents : freeThresholdCents
    }
    return {
      shipping,
      defaultTaxLocation:
        location === undefined ? before.defaultTaxLocation : location === null ? null : location.toUpperCase(),
      listInRegistry: change.listInRegistry ?? before.listInRegistry,
      registryCategories:
        change.registryCategories === undefined ? before.registryCategories : change.registryCategories,
      registryDescription:
        change.registryDescription === undefined ? before.registryDescription : change.registryDescription,
      claimWindowDays: change.claimWindowDays ?? before.claimWindowDays,
      isActive: change.isActive ?? before.isActive
    }
  }
}

function cents(dollars: number, path: string): number {
  const value = centsOf(dollars)
  if (value === null) throw invalidField(path, 'Must have at most 2 decimal places.')
  return value
}

function checkCategories(text: string | null): void {
  if (text === null) return
  try {
    if (Array.isArray(JSON.parse(text))) return
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  throw invalidField('/registryCategories', 'Must be a JSON array as text, such as ["books"].')
}

/**
 * The credentials after what is named; null where none are. @throws ValidationError for half a pair, and for both forms
 * at once
 */
function openingOf(change: IntegrationChange, held: Pick<StoreCredentials, 'clientId'>): Opening | null {
  const { clientId, clientSecret, adminApiToken } = change
  if (adminApiToken !== undefined) {
    if (clientId !== undefined || clientSecret !== undefined)
      throw invalidField('/adminApiToken', 'Must be left out where clientId and clientSecret are given.')
    return { ...NO_CREDENTIALS, adminApiToken: new Secret(adminApiToken) }
  }
  if (clientSecret !== undefined) {
    const id = clientId ?? held.clientId
    if (id === null) throw invalidField('/clientId', 'Must be given together with clientSecret.')
    return { ...NO_CREDENTIALS, clientId: id, clientSecret: new Secret(clientSecret) }
  }
  if (clientId !== undefined) throw invalidField('/clientSecret', 'Must be given together with clientId.')
  return null
}

function hostOf(domain: string): string {
  try {
    // A private name is refused now, and not first when it is called.
    return checkTargetUrl(`https://${domain}`, { production: true }).hostname
  } catch (error) {
    if (!(error instanceof AddressRefused)) throw error
    throw invalidField('/storefrontDomain', error.message)
  }
}

function shopFacts(info: ShopInfo): Pick<Integration, 'storefrontDomain' | 'shopHandle' | 'shopName' | 'shopCountry'> {
  return {
    storefrontDomain: info.domain.toLowerCase(),
    shopHandle: info.handle,
    shopName: info.name,
    shopCountry: info.country
  }
}

/**
 * What a merchant is told of a platform's failure. While a store is opened, credentials and domain are the request's
 * own and so is the mistake; otherwise it is the platform that gave no shop info.
 */
function platformFailure(error: unknown, when: 'opening' | 'refreshing'): unknown {
  if (!(error instanceof StorePlatformError)) return error
  if (when === 'opening' && error.fault === 'credentials')
    return new LongError(STORE_NOT_CONNECTED, 'Store credentials refused', error.message, {}, [], error)
  if (when === 'opening' && error.fault === 'shop')
    return new LongError(STORE_NOT_CONNECTED, 'Store not found at the platform', error.message, {}, [], error)
  const later = error.fault === 'away' || error.fault === 'throttled' ? ['Retry-After', String(error.retryAfter)] : []
  return new LongError(
    STORE_FAILED,
    'No shop info from the platform',
    error.message,
    { upstreamStatus: error.upstreamStatus },
    later,
    error
  )
}

function storeExists(): LongError {
  return new LongError(
    ALREADY_EXISTS,
    'Store exists',
    'There is a store already, and a merchant has one; change it with PUT /api/merchant/storefront.'
  )
}

function slugTaken(slug: string): LongError {
  return new LongError(ALREADY_EXISTS, 'Slug taken', `Another store has the slug ${slug}; choose another one.`)
}

function there(integration: Integration | null): Integration {
  if (integration === null)
    throw new LongError(
      RESOURCE_NOT_FOUND,
      'Store not found',
      'There is no store yet; POST /api/merchant/storefront opens one.'
    )
  return integration
}
