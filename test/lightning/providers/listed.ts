import type { Secret } from '../../../src/platform/keys/secrets.ts'
import type { Provider, SettledCharge } from '../../../src/lightning/provider-calls/provider.ts'

/** What a kind lists as settled since a time, in milliseconds since the epoch, from the beginning of its list. */
export async function listed(
  provider: Required<Pick<Provider, 'listSettled'>>,
  key: Secret<string>,
  since: number
): Promise<readonly SettledCharge[]> {
  return (await provider.listSettled(key, { since, oldest: since, position: null })).charges
}
