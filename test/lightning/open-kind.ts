import type { Test as T } from 'tap'
import { AddressGuard } from '../../src/engine/upstream/guard.ts'
import type { KindOptions, ProviderKind } from '../../src/lightning/kinds/kind.ts'
import type {
  Payout,
  PayoutRequest,
  Provider,
  ProviderNotification
} from '../../src/lightning/provider-calls/provider.ts'
import type { ReadonlyHeaders } from '../../src/engine/message/headers.ts'
import { Secret } from '../../src/platform/keys/secrets.ts'
import { ManualClock } from '../support/manual-clock.ts'

/** Milliseconds of one call. */
export const TIMEOUT = 10_000

/** A provider of a test, which calls what its kind has; most kinds need neither the payout's id nor a token. */
export interface OpenedKind extends Omit<Required<Provider>, 'lookUpPayout' | 'readNotification'> {
  lookUpPayout(key: Secret<string> | null, request: PayoutRequest, payoutId?: string | null): Promise<Payout | null>
  readNotification(headers: ReadonlyHeaders, body: Uint8Array, token?: string | null): ProviderNotification | null
}

export type Opening = Partial<Omit<KindOptions, 'clock'>> & { readonly clock?: ManualClock }

/** Opens a kind as a gateway does, without a breaker, until the test ends. */
export function openKind(
  t: T,
  kind: ProviderKind,
  options: Partial<KindOptions> & Pick<KindOptions, 'clock'>
): OpenedKind {
  const provider = kind.open({
    url: null,
    ownKey: null,
    timeout: TIMEOUT,
    guard: new AddressGuard({ production: false }),
    receiver: () => null,
    settled: async () => {},
    // Of these kinds need only those that have rows, to which tests give them.
    ...({} as Pick<KindOptions, 'database' | 'dataDir'>),
    ...options
  })
  t.teardown(() => provider.close())
  // See `OpenedKind`.
  return provider as OpenedKind
}

interface Fake {
  readonly url?: string
  onHang: () => void
  key(): string
  close(): Promise<void>
}

/** Starts a fake of a kind's service and opens the kind for it. Where the fake hangs, the time limit passes. */
export async function startKind<F extends Fake>(
  t: T,
  kind: ProviderKind,
  start: (options: { readonly clock: ManualClock }) => Promise<F>,
  { clock = new ManualClock(), ...options }: Opening = {}
) {
  const fake = await start({ clock })
  t.teardown(() => fake.close())
  fake.onHang = () => {
    clock.advance(TIMEOUT)
  }
  // Only public services are named in the configuration.
  const url = (kind.calls?.address ?? null) === null ? null : (fake.url ?? null)
  const open = (more: Opening = {}) => openKind(t, kind, { url, clock, ...options, ...more })
  return { clock, fake, open, provider: open(), key: new Secret(fake.key()) }
}
