import { jsonOrUndefined } from '../../platform/system/json.ts'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { queue, type JobDeclaration, type Jobs } from '../../platform/jobs/jobs.ts'
import { Secret, UnsealError, type SealedValue, type Sealer } from '../../platform/keys/secrets.ts'
import { AddressRefused, checkTargetUrl } from '../../engine/upstream/guard.ts'
import { hasCredentials, type IntegrationChange, type IntegrationInput } from './integration-schema.ts'
import { SlugTaken, StoreExists, type Also, type IntegrationStore } from './integration-store.ts'
import { StorePlatformError, type ShopInfo, type StoreAccess, type StorePlatform } from '../platform.ts'
import { type Integration, type ShippingRules, type StoreCredentials, centsOf } from '../schema.ts'
import { platformFailure, slugTaken, STORE_NOT_CONNECTED, storeExists } from '../store-errors.ts'

interface StorefrontsOptions {
  readonly store: Pick<IntegrationStore, keyof IntegrationStore>
  readonly sealer: Sealer
  readonly clock: Clock
  /** Of new and of open stores. */
  readonly platform: StorePlatform
  /** Subscribes stores to notifications; null where no jobs run. */
  readonly jobs: Pick<Jobs, 'enqueue'> | null
  publicUrl(): string
}

interface Opening {
  readonly clientId: string | null
  readonly clientSecret: Secret<string> | null
  readonly adminApiToken: Secret<string> | null
}

const QUEUE = 'storefront-subscribe'
const CLAIM_WINDOW_DAYS = 30
const NOTHING: Also = () => Promise.resolve()

/** Merchants' stores, one each (decision 143), uncached. Methods throw Unavailable without a database. */
export class Storefronts {
  readonly #options: StorefrontsOptions

  constructor(options: StorefrontsOptions) {
    this.#options = options
  }

  get jobs(): readonly JobDeclaration[] {
    return [
      queue<{ readonly storefrontId: number }>(
        QUEUE,
        { title: 'Subscribes to order updates of shops', concurrency: 2, retries: 8 },
        ({ data }) => this.#subscribe(data.storefrontId)
      )
    ]
  }

  /** Inactive ones too. A store on another platform than the configured one counts as inactive. */
  async bySlug(slug: string): Promise<Integration | null> {
    return this.#served(await this.#options.store.bySlug(slug))
  }

  /** As `bySlug`. */
  async byId(id: number): Promise<Integration | null> {
    return this.#served(await this.#options.store.byId(id))
  }

  /** Active stores that opted in, oldest first; at most 50. */
  async listed(): Promise<Integration[]> {
    const found = await this.#options.store.listed(50)
    return found.filter(store => this.#served(store)?.isActive === true)
  }

  ofMerchant(merchantId: number): Promise<Integration | null> {
    return this.#options.store.ofMerchant(merchantId)
  }

  /** @throws StorePlatformError `credentials` when they cannot be opened */
  access(integration: Integration): StoreAccess {
    const { sealer } = this.#options
    const opened = (value: SealedValue | null) => (value === null ? null : sealer.open(value.ciphertext, value.place))
    try {
      return {
        storefrontId: integration.id,
        domain: integration.storefrontDomain,
        clientId: integration.clientId,
        clientSecret: opened(integration.clientSecret),
        adminApiToken: opened(integration.adminApiToken)
      }
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      throw new StorePlatformError('credentials', 'the credentials of the store cannot be opened', { cause: error })
    }
  }

  async own(merchantId: number): Promise<Integration> {
    return there(await this.ofMerchant(merchantId))
  }

  /**
   * Opens a store. Asks the platform first, to verify the credentials and the currency (decision 142).
   * @throws LongError 409 for a second store and a taken slug, 400 for invalid credentials or an unknown shop, 502 with
   *   `upstreamStatus` when the platform fails; ValidationError for money and categories
   */
  async create(merchantId: number, input: IntegrationInput): Promise<Integration> {
    const { store, platform, clock } = this.#options
    const opening = openingOf(input, NO_CREDENTIALS) ?? NO_CREDENTIALS
    // The sandbox needs no credentials.
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
    // The merchant's own, when the same request was sent a moment before.
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
   * Changes the named members, atomically. Credentials of one form replace the other, and are verified first.
   * @throws as `create`, and LongError 404 without a store
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
   * Reads domain, handle, name and country from the platform (contract, Storefront merchant endpoints).
   * @throws LongError 404 without a store, 400 without credentials, 502 with `upstreamStatus` when the platform fails
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

  /**
   * Makes every process read the catalog again at its next request.
   * @throws LongError 404 without a store
   */
  async invalidateCatalog(merchantId: number): Promise<Integration> {
    // Processes detect stale catalogs by the row's time of change.
    return await this.#write(merchantId, integration => integration, NOTHING)
  }

  notificationAddress(integration: Integration): string {
    return `${this.#options.publicUrl()}/api/webhooks/storefront/${integration.slug}`
  }

  #served(integration: Integration | null): Integration | null {
    return integration === null || integration.platform === this.#options.platform.kind
      ? integration
      : { ...integration, isActive: false }
  }

  async #write(
    merchantId: number,
    change: (integration: Integration) => Integration,
    also: Also
  ): Promise<Integration> {
    const now = this.#options.clock.now()
    return there(
      await this.#options.store.update(
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
    const seal = (column: 'client_secret' | 'admin_api_token', secret: Secret<string> | null) => {
      if (secret === null) return null
      const place = { table: 'storefronts', column, row: String(id) }
      return { ciphertext: this.#options.sealer.seal(secret.reveal(), place), place }
    }
    return {
      clientId: opening.clientId,
      clientSecret: seal('client_secret', opening.clientSecret),
      adminApiToken: seal('admin_api_token', opening.adminApiToken)
    }
  }

  async #ask(access: StoreAccess, when: 'opening' | 'refreshing'): Promise<ShopInfo> {
    const info = await this.#options.platform.shopInfo(access).catch((error: unknown) => {
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

  readonly #thenSubscribe: Also = async (tx, { id }) => {
    await this.#options.jobs?.enqueue(tx, QUEUE, { storefrontId: id }, { key: String(id) })
  }

  async #subscribe(storefrontId: number): Promise<void> {
    const integration = await this.byId(storefrontId)
    if (integration === null || integration.platform !== this.#options.platform.kind) return
    const access = this.access(integration)
    // Without the secret, forged notifications could not be detected; orders are polled instead.
    if (access.clientSecret === null) return
    await this.#options.platform.subscribe(access, this.notificationAddress(integration))
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

/**
 * Validates all members before any call or write.
 * @throws ValidationError
 */
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
  if (text === null || Array.isArray(jsonOrUndefined(text))) return
  throw invalidField('/registryCategories', 'Must be a JSON array as text, such as ["books"].')
}

/**
 * Credentials after the change; null without any.
 * @throws ValidationError for half a pair, and for both forms together
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
    // Rejects a private name now instead of at the first call.
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

function there(integration: Integration | null): Integration {
  if (integration === null)
    throw new LongError(
      RESOURCE_NOT_FOUND,
      'Store not found',
      'There is no store yet; POST /api/merchant/storefront opens one.'
    )
  return integration
}
