import type { GatewayConfig } from '../config/schema.ts'
import type { Database } from '../database/database.ts'
import type { Sealer } from '../keys/secrets.ts'
import type { State } from '../state/state.ts'
import type { Clock } from '../system/clock.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { Budgets } from './budgets.ts'
import { InvoiceNews } from './invoice-news.ts'
import type { ProviderKind } from './kind.ts'
import { providerKinds } from './kinds.ts'
import { providerOperations } from './operations.ts'
import { Payees } from './payees.ts'
import { openSeats } from './seats.ts'

/** What providers are opened with. */
export interface OpenProvidersParts {
  readonly clock: Clock
  readonly database: Database
  readonly metrics: Metrics
  readonly sealer: Sealer
  readonly state: State
  config(): Pick<GatewayConfig, 'data' | 'lightning' | 'mode'>
  publicUrl(): string
  /** The kinds that the configuration may name; those of `kinds.ts` when left out. */
  readonly kinds: readonly ProviderKind[] | undefined
}

/** Opens the providers of both slots, and who is paid through them. @throws as `openSeats` */
export function openProviders({
  clock,
  database,
  metrics,
  sealer,
  state,
  config,
  publicUrl,
  kinds
}: OpenProvidersParts) {
  const { data, lightning, mode } = config()
  const budgets = new Budgets({ state, clock, metrics })
  const news = new InvoiceNews()
  const { seats, sandbox, jobs, close } = openSeats({
    kinds: kinds ?? providerKinds,
    mode,
    lightning,
    dataDir: data,
    database,
    clock,
    budgets,
    receiver: slot => `${publicUrl()}/api/webhooks/${slot}`,
    settled: paymentHash => news.paid(paymentHash)
  })
  return {
    budgets,
    news,
    payees: new Payees(seats, sealer),
    /** Pays invoices of the sandbox, in development alone; null where there is none. */
    wallet:
      mode === 'production' || sandbox === null
        ? null
        : { pay: async (invoice: string) => news.paid((await sandbox.settle(invoice)).paymentHash) },
    operations: providerOperations({
      sandbox,
      mode,
      onSettled: paymentHash => news.paid(paymentHash),
      onChanged: paymentHash => news.changed(paymentHash)
    }),
    jobs,
    close
  }
}
