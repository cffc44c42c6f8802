import { randomToken } from '../../platform/system/ids.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import type { Merchants } from './service.ts'

/** An account as `data/keys.json` names it. */
export interface FirstMerchant {
  readonly id: number
  readonly apiKey: Secret<string>
}

const email = 'first-run@boltgate.local'

/**
 * The account that a newcomer finds in `data/keys.json`: individual, active, all three flags on, and where the sandbox
 * makes the invoices (`isSandbox`) a sandbox key saved (decision 75), so that nothing of the service answers 403.
 * Another kind of provider would refuse that key at every payment: there the merchant saves its own. `known` is what
 * the file names already, null without one.
 *
 * A known account is left alone, so that a replaced key or a deactivated account stays so. An account that exists but
 * is not `known` gets a new key only with `mayReplaceKey`; else null is returned and its key keeps working. A new
 * database gets the account anew. Call it from one process.
 */
export async function firstRunMerchant(
  merchants: Merchants,
  known: FirstMerchant | null,
  isSandbox: boolean,
  mayReplaceKey: boolean
): Promise<FirstMerchant | null> {
  const present = await merchants.byEmail(email)
  if (present !== null && known?.id === present.id) return known
  if (present !== null && !mayReplaceKey) return null
  const issued = present === null ? null : await merchants.regenerateKey(present.id)
  const { merchant, apiKey } =
    issued ??
    (await merchants.create({
      name: 'First merchant',
      email,
      tier: 'individual',
      flags: { refundsEnabled: true, multiCurrencyEnabled: true, l402Enabled: true },
      ...(isSandbox ? { primaryApiKey: new Secret(`sandbox-${randomToken(12)}`) } : {})
    }))
  return { id: merchant.id, apiKey }
}
