import { randomToken } from '../system/ids.ts'
import { Secret } from '../keys/secrets.ts'
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
 * What is known and stands in the database is left alone, so that a key which was replaced or an account which was
 * deactivated on purpose stays so. Where the file was removed the account gets another key; where the database is a new
 * one the account is made again. Call it from one process.
 */
export async function firstRunMerchant(
  merchants: Merchants,
  known: FirstMerchant | null,
  isSandbox: boolean
): Promise<FirstMerchant> {
  const present = await merchants.byEmail(email)
  if (present !== null && known?.id === present.id) return known
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
