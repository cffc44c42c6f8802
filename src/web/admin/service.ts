import { INVALID_STATE } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { iso, isWritable, readIsoTime } from '../../engine/formats/iso-time.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import { accountHead, type AccountView } from '../../accounts/merchants/account.ts'
import { parseTier, planFeatures } from '../../accounts/merchants/plans.ts'
import type { Merchant, SubscriptionFacts } from '../../accounts/merchants/schema.ts'
import type { CreateMerchant, Merchants } from '../../accounts/merchants/service.ts'
import { checkWebhookSecret, webhookAddress } from '../../accounts/merchants/webhook-address.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import {
  MERCHANT_PAGE,
  type Approval,
  type ChangedMerchant,
  type CreatedMerchant,
  type LinkedMerchant,
  type MerchantChange,
  type MerchantDetail,
  type MerchantInput,
  type MerchantQuery,
  type MerchantSummary,
  type OnApproved,
  type PendingSubscription
} from './schema.ts'
import type { SqlAdminStore } from './store.ts'
import {
  linkMessage,
  type GivenSettings,
  type AccountSettings,
  writeSettings,
  givenKey,
  idOf,
  known,
  PENDING
} from './views.ts'

export interface AdministrationDependencies {
  readonly database: Database
  readonly store: SqlAdminStore
  readonly merchants: Merchants
  readonly clock: Clock
  /** Callback addresses have stricter rules in production (decision 162). */
  readonly production: boolean
  /** The account as its merchant sees it, which the detail adds to (decision 156). */
  account(merchant: Merchant): AccountView | Promise<AccountView>
  /** See `OnApproved`; left out, an approval has no further effect. */
  readonly approved?: OnApproved
}

/** Administration (contract, Admin; decisions 76 to 78 and 151 to 156). Each action is one transaction. */
export class Administration {
  readonly #dependencies: AdministrationDependencies

  constructor(dependencies: AdministrationDependencies) {
    this.#dependencies = dependencies
  }

  /** Newest first: all, or one page with `limit` or `after`, with the total count and the parameters of the next page. */
  async merchants({ limit: wanted, after, ...filter }: MerchantQuery = {}) {
    const { store } = this.#dependencies
    if (wanted === undefined && after === undefined) {
      const list = (await store.merchants(filter)).map(accountHead)
      return { list, total: list.length, next: null }
    }
    const limit = Math.min(Math.max(wanted ?? MERCHANT_PAGE.usual, 1), MERCHANT_PAGE.most)
    const [found, total] = await Promise.all([
      store.merchants(filter, { limit: limit + 1, after }),
      store.countMerchants(filter)
    ])
    const list = found.slice(0, limit).map(accountHead)
    const last = list.at(-1)
    return { list, total, next: found.length > limit && last !== undefined ? { limit, after: last.merchantId } : null }
  }

  async *merchantPages(query: MerchantQuery): AsyncGenerator<readonly MerchantSummary[]> {
    for (let next: MerchantQuery | null = { limit: MERCHANT_PAGE.most }; next !== null;) {
      const page: Awaited<ReturnType<Administration['merchants']>> = await this.merchants({ ...query, ...next })
      yield page.list
      next = page.next
    }
  }

  async merchant(idText: string): Promise<MerchantDetail> {
    const merchant = known(await this.#dependencies.merchants.byId(idOf(idText)))
    const account = await this.#dependencies.account(merchant)
    return {
      ...account,
      features: { ...account.features, slaUptimePercentage: planFeatures[merchant.tier].slaUptimePercentage },
      hasAlternateKey: merchant.alternateKey !== null,
      hasPrimaryKey: merchant.primaryKey !== null,
      hasWebhookUrl: merchant.webhookUrl !== null,
      currentPeriodEnd: iso(merchant.currentPeriodEnd),
      billingCustomerId: merchant.billingCustomerId,
      billingSubscriptionId: merchant.billingSubscriptionId
    }
  }

  /**
   * Creates an account on the free plan without a checkout (decision 76).
   * @throws ShortError 409 for a used address, 400 for a blank provider key or a refused callback URL
   */
  async create(input: MerchantInput): Promise<CreatedMerchant> {
    const { name, email } = input
    const settings = this.#settings(input)
    return await this.#dependencies.database.transaction(async tx => await this.#open(tx, { name, email }, settings))
  }

  /**
   * Atomic partial change. Given flags override those of the plan.
   * @throws ShortError 404, 409 for a used address, 400 for refused values; ValidationError for a webhook secret of a
   * wrong length
   */
  async update(idText: string, change: MerchantChange): Promise<ChangedMerchant> {
    const id = idOf(idText)
    const settings = this.#settings(change)
    const tier = change.planTier === undefined ? null : parseTier(change.planTier)
    const subscription = subscriptionOf(change)
    const changed = await this.#dependencies.database.transaction(async tx => {
      const merchants = this.#dependencies.merchants.within(tx)
      if (tier !== null) await merchants.setTier(id, tier)
      const { features, limits } = change
      known(
        await merchants.change(id, {
          ...picked(change, 'name', 'email'),
          ...subscription,
          ...(limits === undefined
            ? {}
            : { caps: picked(limits, 'endpoints', 'challengesPerMonth', 'maxPriceSats', 'webhookEndpoints') }),
          ...(features === undefined ? {} : picked(features, 'refundsEnabled', 'multiCurrencyEnabled', 'l402Enabled'))
        })
      )
      if (change.isActive !== undefined) await (change.isActive ? merchants.reactivate(id) : merchants.deactivate(id))
      const created = await writeSettings(merchants, id, settings)
      return { ...accountHead(known(await merchants.byId(id))), ...created }
    })
    await this.#keysSaved(id, settings)
    return changed
  }

  /**
   * Creates the account of a pending subscription, or links the one with its address. Plan, status, billing ids, period
   * end and flags come from the subscription (decision 77). Of concurrent reviews one succeeds; a failed one leaves it
   * pending. Given keys and callback fill empty settings of a linked account and replace nothing: a form for a new
   * customer must not redirect an old one's money.
   * @throws ShortError 404, 400 when already processed, for a blank provider key or a refused callback URL
   */
  async approve(idText: string, approval: Approval): Promise<CreatedMerchant | LinkedMerchant> {
    const id = idOf(idText, PENDING)
    const settings = this.#settings(approval)
    const account = await this.#dependencies.database.transaction(async tx => {
      const subscription = await this.#waiting(tx, id)
      const created =
        (await this.#openFor(tx, subscription, approval.merchantName, settings)) ??
        (await this.#link(tx, subscription, settings))
      const { merchantId } = created
      const reviewed = await this.#dependencies.store.review(tx, id, {
        state: 'approved',
        at: this.#dependencies.clock.now(),
        merchantId
      })
      if (this.#dependencies.approved !== undefined) {
        const merchant = known(await this.#dependencies.merchants.within(tx).byId(merchantId))
        await this.#dependencies.approved(tx, { merchant, subscription: reviewed, linked: 'linked' in created })
      }
      return created
    })
    await this.#keysSaved(account.merchantId, settings)
    return account
  }

  /** @throws ShortError 404, 400 when already processed */
  async reject(idText: string, reason: string | null): Promise<void> {
    const id = idOf(idText, PENDING)
    await this.#dependencies.database.transaction(async tx => {
      await this.#waiting(tx, id)
      await this.#dependencies.store.review(tx, id, { state: 'rejected', at: this.#dependencies.clock.now(), reason })
    })
  }

  async #waiting(tx: TransactionSql, id: number): Promise<PendingSubscription> {
    const subscription = known(await this.#dependencies.store.lock(tx, id), PENDING)
    if (subscription.state !== 'pending')
      throw new ShortError(INVALID_STATE, `This pending subscription has already been ${subscription.state}`)
    return subscription
  }

  /** The subscription's new account; null when its address is used, even by a concurrent insert. */
  async #openFor(
    tx: TransactionSql,
    subscription: PendingSubscription,
    name: string | undefined,
    settings: AccountSettings
  ): Promise<CreatedMerchant | null> {
    const { email, customerName, planTier } = subscription
    if ((await this.#dependencies.merchants.within(tx).byEmail(email)) !== null) return null
    // Billing passes the buyer's name on, which may be blank.
    const wanted = {
      name: name ?? (customerName?.trim() || email),
      email,
      tier: planTier,
      subscription: facts(subscription)
    }
    try {
      return await tx.savepoint(async nested => await this.#open(nested, wanted, settings))
    } catch (error) {
      if (error instanceof ShortError && error.status === 409) return null
      throw error
    }
  }

  async #open(tx: TransactionSql, wanted: CreateMerchant, settings: AccountSettings): Promise<CreatedMerchant> {
    const merchants = this.#dependencies.merchants.within(tx)
    const { merchant, apiKey } = await merchants.create(wanted)
    const created = await writeSettings(merchants, merchant.id, settings)
    return {
      merchantId: merchant.id,
      name: merchant.name,
      email: merchant.email,
      apiKey: apiKey.reveal(),
      createdAt: iso(merchant.createdAt),
      ...created
    }
  }

  async #link(
    tx: TransactionSql,
    subscription: PendingSubscription,
    settings: AccountSettings
  ): Promise<LinkedMerchant> {
    const merchants = this.#dependencies.merchants.within(tx)
    const { id } = known(await merchants.byEmail(subscription.email))
    known(await merchants.setTier(id, subscription.planTier))
    const { billingCustomerId, ...others } = facts(subscription)
    // A bitcoin subscription has no customer: keep the account's billing portal, and grant no second trial.
    const merchant = known(
      await merchants.change(id, billingCustomerId === null ? others : { ...others, billingCustomerId })
    )
    const vacant: AccountSettings = {
      primaryKey: merchant.primaryKey === null ? settings.primaryKey : null,
      alternateKey: merchant.alternateKey === null ? settings.alternateKey : null,
      url: merchant.webhookUrl === null ? settings.url : undefined,
      secret: undefined
    }
    const kept = [
      ...(vacant.primaryKey === settings.primaryKey ? [] : ['primaryApiKey']),
      ...(vacant.alternateKey === settings.alternateKey ? [] : ['alternateApiKey']),
      ...(vacant.url === settings.url ? [] : ['callbackUrl'])
    ]
    const created = await writeSettings(merchants, id, vacant)
    return {
      merchantId: id,
      name: merchant.name,
      email: merchant.email,
      linked: true,
      message: linkMessage(merchant, kept),
      ...created
    }
  }

  async #keysSaved(merchantId: number, { primaryKey, alternateKey }: AccountSettings): Promise<void> {
    if (primaryKey !== null) await this.#dependencies.merchants.keySaved(merchantId, 'primary')
    if (alternateKey !== null) await this.#dependencies.merchants.keySaved(merchantId, 'alternate')
  }

  /** Validates settings before anything is written, as far as possible without the account. */
  #settings(given: GivenSettings): AccountSettings {
    const { primaryApiKey, alternateApiKey, callbackUrl, webhookSecret } = given
    if (webhookSecret !== undefined && webhookSecret !== '') checkWebhookSecret(webhookSecret)
    return {
      primaryKey: givenKey(primaryApiKey),
      alternateKey: givenKey(alternateApiKey),
      url:
        callbackUrl === undefined
          ? undefined
          : callbackUrl === ''
            ? null
            : webhookAddress(callbackUrl, this.#dependencies),
      secret: webhookSecret === undefined ? undefined : webhookSecret === '' ? null : new Secret(webhookSecret)
    }
  }
}

/** Picks the named members only: unknown ones must not reach the columns. */
function picked<T extends object, K extends keyof T>(from: T, ...names: readonly K[]): Pick<T, K> {
  // Object.fromEntries loses the names' type.
  return Object.fromEntries(names.filter(name => Object.hasOwn(from, name)).map(name => [name, from[name]])) as Pick<
    T,
    K
  >
}

function facts(subscription: PendingSubscription): SubscriptionFacts {
  const { subscriptionStatus, currentPeriodEnd, billingCustomerId, billingSubscriptionId } = subscription
  return { subscriptionStatus, currentPeriodEnd, billingCustomerId, billingSubscriptionId }
}

/**
 * Subscription part of a change; null without one.
 * @throws ValidationError for an invalid end
 */
function subscriptionOf({ subscriptionStatus, currentPeriodEnd }: MerchantChange): Partial<SubscriptionFacts> | null {
  if (subscriptionStatus === undefined && currentPeriodEnd === undefined) return null
  const end = currentPeriodEnd === undefined || currentPeriodEnd === null ? null : readIsoTime(currentPeriodEnd)
  if (typeof currentPeriodEnd === 'string' && end === null)
    throw invalidField('/currentPeriodEnd', 'Must be an ISO 8601 time such as 2026-11-21T00:54:00Z.')
  if (end !== null && !isWritable(end))
    throw invalidField('/currentPeriodEnd', 'Must be in the years 1 to 9999, in UTC.')
  return {
    ...(subscriptionStatus === undefined ? {} : { subscriptionStatus }),
    ...(currentPeriodEnd === undefined ? {} : { currentPeriodEnd: end })
  }
}
