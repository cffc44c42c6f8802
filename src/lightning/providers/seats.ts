import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database } from '../../platform/database/database.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import type { JobDeclaration } from '../../platform/jobs/jobs.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { AddressGuard } from '../../engine/upstream/guard.ts'
import type { ProviderSlot } from './slot-keys.ts'
import { guarded, type ProviderCallResult } from '../provider-calls/breaker.ts'
import type { Budgets } from '../provider-calls/budgets.ts'
import type { ProviderKind } from '../kinds/kind.ts'
import type { ProviderSeats } from './payees.ts'
import type { ProviderSeat } from './payee.ts'
import type { KindName, Provider } from '../provider-calls/provider.ts'
import { SandboxProvider } from '../kinds/sandbox/sandbox.ts'
import { CodedError } from '../../platform/system/errors.ts'

/**
 * Default invoices ahead per price and description: 20 suffice for 100 a second at 150 ms each; the rest is for bursts.
 */
const MAX_STOCK = 400

interface SeatOptions {
  readonly kinds: readonly ProviderKind[]
  readonly mode: 'development' | 'production'
  readonly lightning: GatewayConfig['lightning']
  readonly dataDir: string
  readonly database: Database
  readonly clock: Clock
  /** Without it, only providers' own refusals count. */
  readonly budgets?: Budgets
  /** Public receiver address of a slot; null or absent where unreachable. */
  receiver?(slot: ProviderSlot): string | null
  /** Called for invoices paid in process. */
  settled?(paymentHash: string): Promise<void>
  /** As `BreakerOptions`. */
  recovered?(slot: ProviderSlot, name: KindName, host: string): void
  called?(slot: ProviderSlot, name: KindName, result: ProviderCallResult): void
}

interface OpenSeats {
  readonly seats: ProviderSeats
  /** Null without its kind. In production it serves test accounts alone. */
  readonly sandbox: SandboxProvider | null
  readonly jobs: readonly JobDeclaration[]
  close(): Promise<void>
}

/**
 * Opens the configured providers behind circuit breakers. Slots of one service share its address's budget, or together
 * they would exceed its limit.
 * @throws CodedError; what the kind throws for an unusable key or address
 */
export function openSeats(options: SeatOptions): OpenSeats {
  const { kinds, lightning, mode, clock, database, dataDir } = options
  const network = lightning.network ?? (mode === 'production' ? 'mainnet' : null)
  const guard = new AddressGuard({ production: mode === 'production' })
  const sandboxes = new Map<ProviderKind, Provider>()
  const seated = new Set<ProviderKind>()
  const test = kinds.some(({ name }) => name === 'sandbox') ? { kind: 'sandbox' as const, timeout: 0 } : null
  const seat = (slot: ProviderSlot, provided: GatewayConfig['lightning']['primary'][number]): ProviderSeat => {
    const { kind: name, key, url: configured, timeout, callsPerMinute = null, invoicesAhead } = provided
    const called = provided.name ?? name
    const kind = kinds.find(known => known.name === name)
    if (kind === undefined) {
      throw new CodedError(
        { code: 'BG_CONFIG_VALUE' },
        `lightning.${slot}.kind is ${name}, which this version cannot speak yet; it can speak ${kinds.map(known => known.name).join(', ')}`
      )
    }
    if (kind.isSandbox && mode === 'production' && provided !== test) {
      throw new CodedError(
        { code: 'BG_CONFIG_VALUE' },
        `lightning.${slot}.kind is ${name}, which makes invoices without money and is refused in production`
      )
    }
    seated.add(kind)
    const { calls } = kind
    const url = configured ?? null
    const ownKey = key === undefined ? null : new Secret(key)
    const budget =
      calls === null
        ? undefined
        : options.budgets?.of(
            name,
            url === null ? (calls.address ?? '') : new URL(url).origin,
            calls.limits(url, callsPerMinute)
          )
    const open = (): Provider =>
      kind.open({
        url,
        ownKey,
        timeout,
        clock,
        guard,
        database,
        dataDir,
        receiver: () => options.receiver?.(slot) ?? null,
        settled: async paymentHash => options.settled?.(paymentHash),
        ...(budget === undefined ? {} : { budget })
      })
    if (calls !== null) {
      return {
        name: called,
        keyFault: kind.keyFault,
        provider: guarded(open(), {
          clock,
          ...(calls.hostOf === undefined ? {} : { hostOf: calls.hostOf }),
          recovered: host => options.recovered?.(slot, called, host),
          called: result => options.called?.(slot, called, result)
        }),
        key: ownKey,
        network,
        invoicesAhead: invoicesAhead ?? (calls.billsInvoices === true ? 0 : MAX_STOCK),
        polling: calls.polling(url),
        isShared: kind.hashesDescriptions === 'shared'
      }
    }
    const provider = sandboxes.get(kind) ?? open()
    sandboxes.set(kind, provider)
    // In-process providers need no invoices ahead.
    return { name: called, keyFault: kind.keyFault, provider, key: ownKey, invoicesAhead: invoicesAhead ?? 0 }
  }
  const inSlot = (slot: ProviderSlot): ProviderSeat[] => lightning[slot].map(provided => seat(slot, provided))
  const seats = {
    primary: inSlot('primary'),
    alternate: inSlot('alternate'),
    test: test === null ? null : seat('primary', test)
  }
  const sandbox = [...sandboxes.values()].find(provider => provider instanceof SandboxProvider) ?? null
  return {
    seats,
    sandbox,
    jobs: [...(sandbox?.jobs ?? []), ...[...seated].flatMap(kind => kind.jobs?.({ clock, database }) ?? [])],
    close: async () => {
      const all = [...seats.primary, ...seats.alternate, ...(seats.test === null ? [] : [seats.test])]
      const opened = new Set(all.map(({ provider }) => provider))
      await Promise.all([...opened].map(provider => provider.close()))
    }
  }
}
