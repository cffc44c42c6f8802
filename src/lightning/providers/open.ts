import type { Context } from '../../engine/message/context.ts'
import { isLocalCaller } from '../../engine/message/caller.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Sealer } from '../../platform/keys/secrets.ts'
import type { State } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import type { ProviderSlot } from './slot-keys.ts'
import { Budgets } from '../provider-calls/budgets.ts'
import { ProviderEvents } from './events.ts'
import { AddressGuard } from '../../engine/upstream/guard.ts'
import type { ProviderKind } from '../kinds/kind.ts'
import { LnurlCalls } from '../kinds/lnurl/lnurl.ts'
import { providerKinds } from '../kinds/kinds.ts'
import { providerOperations } from './operations.ts'
import { Payees } from './payees.ts'
import type { HostReport } from '../provider-calls/provider.ts'
import { openSeats } from './seats.ts'

/** Pays sandbox invoices by a button of a page. In production only test accounts have them, so every reader may. */
export interface SandboxWallet {
  mayPay(ctx: Context): boolean
  pay(invoice: string): Promise<void>
}

/** Milliseconds for a Lightning address to give an invoice. */
const ADDRESS_TIMEOUT = 10_000

/** Whether the operator's last invoice failed there, or calls with the operator's key are paused. */
export function isDown({
  failure,
  hosts
}: {
  readonly failure: object | null
  readonly hosts: readonly HostReport[]
}): boolean {
  return failure !== null || hosts.some(({ host, isLeftAlone }) => isLeftAlone && host === null)
}

/** @throws as `openSeats` */
export function openProviders({
  clock,
  database,
  metrics,
  sealer,
  state,
  config,
  publicUrl,
  kinds
}: {
  readonly clock: Clock
  readonly database: Database
  readonly metrics: Metrics
  readonly sealer: Sealer
  readonly state: State
  config(): Pick<GatewayConfig, 'data' | 'lightning' | 'mode'>
  publicUrl(): string
  /** Those of `kinds.ts` by default. */
  readonly kinds: readonly ProviderKind[] | undefined
}) {
  const { data, lightning, mode } = config()
  const budgets = new Budgets({ state, clock, metrics })
  const events = new ProviderEvents()
  const calls = metrics.counter(
    'boltgate_provider_calls_total',
    'Calls to payment providers: ok, refused (the provider rejected the request or its key), failed (no connection, timeout or 5xx), or open (not made after repeated failures).',
    ['slot', 'provider', 'result']
  )
  const { seats, sandbox, jobs, close } = openSeats({
    kinds: kinds ?? providerKinds,
    mode,
    lightning,
    dataDir: data,
    database,
    clock,
    budgets,
    receiver: slot => `${publicUrl()}/api/webhooks/${slot}`,
    settled: paymentHash => events.paid(paymentHash),
    recovered: (slot, name, host) => {
      events.recovered(slot, name, host)
    },
    called: (slot, provider, result) => {
      calls.inc({ slot, provider, result })
    }
  })
  const addresses = new LnurlCalls({
    clock,
    guard: new AddressGuard({ production: mode === 'production' }),
    ownKey: null,
    url: null,
    timeout: ADDRESS_TIMEOUT
  })
  const payees = new Payees(seats, sealer, clock, state, (merchantId, slot, reason) =>
    events.keyRefused(merchantId, slot, reason)
  )
  metrics.sampled(
    'boltgate_provider_passed_over',
    "1 for a provider that the operator's invoices are not asked of at the moment, where there are several; else 0.",
    ['slot', 'provider'],
    async () =>
      payees
        .report()
        .map(({ slot, provider, use }) => ({ labels: { slot, provider }, value: use === 'passed over' ? 1 : 0 }))
  )
  const report = async () => {
    const all = await budgets.report()
    return (['primary', 'alternate'] as const).flatMap(slot =>
      payees.inOrder(slot).map(({ failure, name, provider: { kind, troubles } }) => ({
        slot,
        kind: name,
        hasKey: payees.key(null, slot, name) !== null,
        failure: failure && { ...failure, since: new Date(failure.since).toISOString() },
        budgets: all.flatMap(({ provider, ...budget }) => (provider === kind ? [budget] : [])),
        hosts: [...(troubles?.() ?? [])]
      }))
    )
  }
  metrics.sampled(
    'boltgate_provider_up',
    '0 for a provider whose last invoice for the operator failed, or whose calls are paused after failures; else 1.',
    ['slot', 'provider'],
    async () =>
      (await report()).map(one => ({ labels: { slot: one.slot, provider: one.kind }, value: isDown(one) ? 0 : 1 }))
  )
  return {
    budgets,
    events,
    payees,
    invoiceFor: (address: string, amountSats: number) => addresses.invoiceFor(address, amountSats),
    /** Makers of the operator's invoices, when there are several. */
    makers: () => payees.report(),
    /** Budgets and failing hosts of both slots, in this process. */
    report,
    slotFacts: (slot: ProviderSlot) =>
      lightning[slot].map(({ kind }) => {
        const known = (kinds ?? providerKinds).find(({ name }) => name === kind)
        return { kind, scopes: known?.scopes ?? [], keyHint: known?.keyHint ?? '' }
      }),
    wallet:
      sandbox === null
        ? null
        : ({
            mayPay: ctx => mode === 'production' || isLocalCaller(ctx),
            pay: async invoice => events.paid((await sandbox.settle(invoice)).paymentHash)
          } satisfies SandboxWallet),
    operations: providerOperations({
      sandbox,
      mode,
      onSettled: paymentHash => events.paid(paymentHash),
      onChanged: paymentHash => events.changed(paymentHash)
    }),
    jobs,
    close: async () => {
      await Promise.all([close(), addresses.close()])
    }
  }
}
