import { ADDRESS_BLOCKED, VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { invalidField } from '../../engine/operations/validation.ts'
import { AddressRefused, checkTargetUrl } from '../../engine/upstream/guard.ts'

/** Characters that a webhook secret may have (decision 67). */
export const webhookSecretLength = Object.freeze({ min: 16, max: 200 })

/**
 * What a webhook address that cannot be read is answered: always `{error}` (decision 1; contract, Errors: Merchant
 * settings).
 */
export function invalidWebhookUrl(why: string): ShortError {
  return new ShortError(VALIDATION, `Invalid webhook URL format: ${why}`)
}

/**
 * Checks an address that webhooks are to be sent to, by one rule for `webhookUrl` and `callbackUrl` (decision 153), and
 * gives it in the form in which it is stored. In production it is https on a public name; outside, this machine may be
 * called too (decision 162). Internal ports are refused (decision 164). Names are not resolved here: deliveries do that
 * as they connect.
 * @throws ShortError 400 that says what is wrong
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

/** Checks the length of a secret that somebody chose. @throws ValidationError */
export function checkWebhookSecret(text: string): void {
  const { min, max } = webhookSecretLength
  if (text.length < min || text.length > max)
    throw invalidField('/webhookSecret', `Must be ${min} to ${max} characters long.`)
}
