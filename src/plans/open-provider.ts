import type { GatewayConfig } from '../engine/config/schema.ts'
import { Secret } from '../platform/keys/secrets.ts'
import type { BillingProvider } from './provider.ts'
import { SandboxBilling, type SandboxBillingOptions } from './sandbox/sandbox.ts'

export interface OpenedBillingProvider {
  /** Null where plans are sold for bitcoin only. */
  readonly provider: BillingProvider | null
  /** The same, if it is the sandbox, which has pages. */
  readonly sandbox: SandboxBilling | null
}

/** Makes the billing provider that `billing` of the configuration names. */
export async function openBillingProvider(
  { billing }: Pick<GatewayConfig, 'billing'>,
  around: SandboxBillingOptions
): Promise<OpenedBillingProvider> {
  if (billing.kind === 'none') return { provider: null, sandbox: null }
  if (billing.kind === 'sandbox') {
    const sandbox = new SandboxBilling(around)
    return { provider: sandbox, sandbox }
  }
  const {
    key,
    webhookSecret,
    prices: { individual },
    url = null,
    timeout
  } = billing
  // Checked with the configuration, with line and column.
  if (key === undefined || webhookSecret === undefined || individual === undefined)
    throw new TypeError('billing of kind stripe needs key, webhookSecret and prices.individual')
  // Loaded only where it is used, to save memory.
  const { StripeBilling } = await import('./stripe/stripe.ts')
  const provider = new StripeBilling({
    key: new Secret(key),
    webhookSecret: new Secret(webhookSecret),
    prices: { individual },
    url,
    timeout,
    clock: around.clock
  })
  return { provider, sandbox: null }
}
