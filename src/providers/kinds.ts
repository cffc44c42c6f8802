import { join } from 'node:path'
import type { GatewayConfig } from '../config/schema.ts'
import type { Clock } from '../system/clock.ts'
import type { Database } from '../database/database.ts'
import { Secret } from '../keys/secrets.ts'
import { AddressGuard } from '../upstream/guard.ts'
import type { ProviderSlot } from './account.ts'
import { guarded } from './breaker.ts'
import { callLimits, type Budgets, type CallBudget } from './budgets.ts'
import { lndHost, LndProvider } from './lnd/lnd.ts'
import { loadNodeKey } from './lnd/node-key.ts'
import { OPENNODE_LIVE, OpenNodeProvider } from './opennode/opennode.ts'
import type { ProviderSeat } from './payees.ts'
import type { Provider, ProviderKind } from './provider.ts'
import { SandboxProvider } from './sandbox/sandbox.ts'
import { SqlSandboxStore } from './sandbox/store.ts'
import { InvoiceSigner } from './sandbox/signer.ts'
import { STRIKE_LIVE, StrikeProvider } from './strike/strike.ts'

/** What the providers are made from. */
export interface ProviderOptions {
  readonly mode: 'development' | 'production'
  readonly lightning: GatewayConfig['lightning']
  /** Absolute path of the data folder. */
  readonly dataDir: string
  readonly database: Database
  readonly clock: Clock
  /** What calls are taken from; left out, only what the providers themselves refuse is heeded. */
  readonly budgets?: Budgets
  /**
   * Public address of our receiver for a slot, for kinds that are told it in each charge; null, or left out, where nobody
   * could reach it. Asked for at each charge, since the public address may be known only after the start.
   */
  receiver? (slot: ProviderSlot): string | null
}

/** The providers of both slots. */
export interface Providers {
  readonly seats: Readonly<Record<ProviderSlot, ProviderSeat>>
  /** The sandbox, where a slot has it. It stands behind no breaker: nothing is called. */
  readonly sandbox: SandboxProvider | null
  close (): Promise<void>
}

/** A slot of `lightning` names a kind that cannot stand there. */
export class ProviderKindError extends Error {
  override name = 'ProviderKindError'
  readonly code = 'BG_PROVIDER_KIND'
}

/** What a kind that is called over the network is made from. */
interface KindOptions {
  /** `lightning.<slot>.url`; null for the kind's public address. */
  readonly url: string | null
  /** `lightning.<slot>.key`, the very object that the seat has. */
  readonly ownKey: Secret<string> | null
  /** Milliseconds. */
  readonly timeout: number
  readonly mode: 'development' | 'production'
  readonly clock: Clock
  readonly budget?: CallBudget
  /** Address of the slot's receiver. */
  receiver (): string | null
}

/**
 * Where a kind is called, the same however the address is written: two slots of one service share its budget, or together they
 * would call it more often than it allows.
 */
function originOf (kind: Exclude<ProviderKind, 'sandbox'>, url: string | null): string {
  if (url !== null) return new URL(url).origin
  return kind === 'strike' ? STRIKE_LIVE : kind === 'opennode' ? OPENNODE_LIVE : ''
}

/** One line for each kind; behind a circuit breaker, which knows the hosts that its keys choose. */
const KINDS: Partial<Record<Exclude<ProviderKind, 'sandbox'>, (options: KindOptions) => Provider>> = {
  // An lnd node's host stands in its key: a merchant's must be public, the operator's own may be anywhere (decision 71).
  lnd: options => guarded(
    new LndProvider({ ...options, operatorKey: options.ownKey, guard: new AddressGuard({ production: options.mode === 'production' }) }),
    { clock: options.clock, hostOf: lndHost }
  ),
  strike: options => guarded(new StrikeProvider(options), options),
  opennode: options => guarded(new OpenNodeProvider(options), options)
}

/**
 * Makes the providers that the configuration names. Two slots of the sandbox share one node; its key is in
 * `<data>/sandbox-node.key`, made when it is first needed.
 * @throws ProviderKindError, NodeKeyError
 */
export function openProviders (options: ProviderOptions): Providers {
  const { lightning, mode } = options
  let sandbox: SandboxProvider | null = null
  const seat = (slot: ProviderSlot): ProviderSeat => {
    const { kind, key, url, timeout, callsPerMinute } = lightning[slot]
    const ownKey = key === undefined ? null : new Secret(key)
    if (kind !== 'sandbox') {
      const make = KINDS[kind]
      if (make === undefined) throw new ProviderKindError(`lightning.${slot}.kind is ${kind}, which this version cannot speak yet; it can speak ${['sandbox', ...Object.keys(KINDS)].join(', ')}`)
      const budget = options.budgets?.of(kind, originOf(kind, url ?? null), callLimits(kind, url ?? null, callsPerMinute ?? null))
      const provider = make({
        url: url ?? null, ownKey, timeout, mode, clock: options.clock, receiver: () => options.receiver?.(slot) ?? null, ...(budget === undefined ? {} : { budget })
      })
      return { provider, key: ownKey }
    }
    if (mode === 'production') throw new ProviderKindError(`lightning.${slot}.kind is sandbox, which makes invoices without money and is refused in production`)
    sandbox ??= new SandboxProvider({
      store: new SqlSandboxStore(options.database.sql),
      signer: new InvoiceSigner(loadNodeKey(join(options.dataDir, 'sandbox-node.key'))),
      clock: options.clock
    })
    return { provider: sandbox, key: ownKey }
  }
  const seats = { primary: seat('primary'), alternate: seat('alternate') }
  return {
    seats,
    sandbox,
    close: async () => {
      await Promise.all([...new Set([seats.primary.provider, seats.alternate.provider])].map(provider => provider.close()))
    }
  }
}
