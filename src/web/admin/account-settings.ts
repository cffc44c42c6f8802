import type { Merchants } from '../../accounts/merchants/service.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import { ProviderKeyRequired } from '../../lightning/provider-calls/errors.ts'
import type { MerchantChange } from './schema.ts'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'

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

export function known<T>(found: T | null): T {
  if (found === null) throw new ShortError(RESOURCE_NOT_FOUND, 'Merchant not found')
  return found
}
