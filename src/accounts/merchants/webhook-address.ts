import { ADDRESS_BLOCKED, VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import { AddressRefused, checkTargetUrl } from '../../engine/upstream/guard.ts'

/** Length of webhook secrets in characters (decision 67). */
export const webhookSecretLength = Object.freeze({ min: 16, max: 200 })

/** Invalid webhook addresses are `{error}` (decision 1; contract, Errors: Merchant settings). */
export function invalidWebhookUrl(why: string): ShortError {
  return new ShortError(VALIDATION, `Invalid webhook URL format: ${why}`)
}

/**
 * Validates and normalizes `webhookUrl` and `callbackUrl` (decision 153). Production requires https on a public name;
 * outside it, this machine is allowed (decision 162). Internal ports are refused (decision 164). Names are resolved
 * only on delivery.
 * @throws ShortError 400 with the reason
 */
export function webhookAddress(text: string, rules: { readonly production: boolean }): string {
  try {
    return checkTargetUrl(text, { production: rules.production, query: true }).href
  } catch (error) {
    if (!(error instanceof AddressRefused)) throw error
    if (error.reason === 'host' || error.reason === 'port' || error.reason === 'range')
      throw new ShortError(ADDRESS_BLOCKED, `Webhook URL not allowed: ${error.message}`)
    throw invalidWebhookUrl(error.message)
  }
}

/** @throws ValidationError */
export function checkWebhookSecret(text: string): void {
  const { min, max } = webhookSecretLength
  if (text.length < min || text.length > max)
    throw invalidField('/webhookSecret', `Must be ${min} to ${max} characters long.`)
}
