import { randomToken } from '../../platform/system/ids.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import type { Merchants } from './service.ts'

interface FirstMerchant {
  readonly id: number
  readonly apiKey: Secret<string>
}

const email = 'first-run@boltgate.local'

/**
 * Creates the first account, written to `data/keys.json`: individual, active, with all flags. With the sandbox
 * (`isSandbox`) a sandbox key is saved (decision 75), so that nothing answers 403; other providers would refuse it.
 * `known` is the file's entry, or null. A known account stays unchanged. An unknown existing one gets a new key only
 * with `mayReplaceKey`; else null is returned. A new database gets the account again. Call from one process only.
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
