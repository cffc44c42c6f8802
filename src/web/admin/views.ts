import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { PendingSubscription, PendingSubscriptionView, MerchantChange } from './schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import { iso } from '../../engine/formats/iso-time.ts'
import { isRowId } from '../../platform/database/rows.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import { ProviderKeyRequired } from '../../lightning/provider-calls/errors.ts'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'

/** Message about a linked account. `kept` names members of the request that it already had. */
export function linkMessage(merchant: Merchant, kept: readonly string[]): string {
  const parts = ['The subscription was linked to the merchant that has this email address; its API key stays as it is.']
  if (kept.length > 0) parts.push(`It had its own ${kept.join(' and ')} already, which was left alone.`)
  if (!merchant.isActive) parts.push('The account is deactivated; reactivate it to let it work.')
  return parts.join(' ')
}

export function pendingView({
  state,
  createdAt,
  reviewedAt,
  ...subscription
}: PendingSubscription): PendingSubscriptionView {
  return {
    ...subscription,
    createdAt: iso(createdAt),
    isApproved: state === 'approved',
    isRejected: state === 'rejected',
    reviewedAt: iso(reviewedAt)
  }
}

export type GivenSettings = Pick<MerchantChange, 'primaryApiKey' | 'alternateApiKey' | 'callbackUrl' | 'webhookSecret'>

export interface AccountSettings {
  /** Null: not given. */
  readonly primaryKey: Secret<string> | null
  readonly alternateKey: Secret<string> | null
  /** Undefined stays, null clears; the same for `secret`. */
  readonly url: string | null | undefined
  readonly secret: Secret<string> | null | undefined
}

/** Writes keys and webhook; returns the secret generated for a callback URL without one (decision 67). */
export async function writeSettings(
  merchants: Merchants,
  id: number,
  { primaryKey, alternateKey, url, secret }: AccountSettings
): Promise<{ webhookSecret?: string }> {
  if (primaryKey !== null) await merchants.setProviderKey(id, 'primary', primaryKey)
  if (alternateKey !== null) await merchants.setProviderKey(id, 'alternate', alternateKey)
  if (url === undefined && secret === undefined) return {}
  const { issued } = known(
    await merchants.changeWebhook(id, {
      ...(url === undefined ? {} : { url }),
      ...(secret === undefined ? {} : { secret })
    })
  )
  return issued === null ? {} : { webhookSecret: issued.reveal() }
}

/**
 * Null when absent.
 * @throws ProviderKeyRequired for a blank key
 */
export function givenKey(text: string | undefined): Secret<string> | null {
  if (text === undefined) return null
  if (text.trim() === '') throw new ProviderKeyRequired()
  return new Secret(text)
}

export const PENDING = 'Pending subscription'
type Subject = 'Merchant' | typeof PENDING

/** @throws ShortError 404 */
export function known<T>(found: T | null, what: Subject = 'Merchant'): T {
  if (found === null) throw new ShortError(RESOURCE_NOT_FOUND, `${what} not found`)
  return found
}

/** @throws ShortError 404, also for a malformed one (decision 10) */
export function idOf(text: string, what?: Subject): number {
  const id = /^[1-9][0-9]{0,9}$/.test(text) ? Number(text) : 0
  return known(isRowId(id) ? id : null, what)
}
