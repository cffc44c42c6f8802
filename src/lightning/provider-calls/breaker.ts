import type { Clock } from '../../platform/system/clock.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import { NothingSent, PayoutUncertain, ProviderRefused, ProviderUnavailable } from './errors.ts'
import type { HostReport, Provider } from './provider.ts'

const FAILURES = 5
/**
 * Milliseconds until the first probe, doubled after each failed one. Hosts that fail fast are probed sooner: it costs
 * nothing.
 */
const PAUSES = Object.freeze({
  quick: { first: 1_000, longest: 5_000 },
  slow: { first: 10_000, longest: 60_000 }
})
/** Milliseconds below which a failure is fast. */
const AT_ONCE = 1_000
/** Tracked failing hosts, oldest evicted first. Only merchants' hosts can be so many. */
const MAX_HOSTS = 10_000
/** Seconds to wait during a probe: about its duration. */
const TRYING = 5

interface BreakerOptions {
  readonly clock: Clock
  /** Host that a key names, so that a dead node blocks only its merchant. Absent where configuration names the host. */
  hostOf?(key: Secret<string> | null): string
  recovered?(host: string): void
  /** Called with the result of each call; `open` was not made. */
  called?(result: ProviderCallResult): void
}

export type ProviderCallResult = 'ok' | 'refused' | 'failed' | 'open'

interface Trouble {
  failures: number
  /** Current pause; 0 while closed. */
  pause: number
  /** Monotonic milliseconds. */
  until: number
  trying: boolean
}

/**
 * A provider's circuit breakers, one per host, per process.
 *
 * Not cockatiel: its breaker reads `Date.now`, does not say when to retry (for Retry-After), and makes callers wait
 * during a probe instead of failing them.
 */
class Breakers {
  readonly #clock: Clock
  readonly #recovered: ((host: string) => void) | undefined
  readonly #called: (result: ProviderCallResult) => void
  readonly #hosts = new Map<string, Trouble>()

  constructor({ called, clock, recovered }: BreakerOptions) {
    this.#clock = clock
    this.#recovered = recovered
    this.#called = called ?? (() => {})
  }

  isOpen(host: string): boolean {
    const trouble = this.#hosts.get(host)
    return trouble !== undefined && trouble.pause > 0
  }

  report(): HostReport[] {
    return [...this.#hosts].map(([host, { failures, pause, until }]) => ({
      host: host === '' ? null : host,
      failures,
      isLeftAlone: pause > 0,
      retryAfter: pause > 0 ? Math.max(0, Math.ceil((until - this.#clock.monotonic()) / 1000)) : null
    }))
  }

  /** @throws ProviderUnavailable without a call while the breaker is open */
  async run<T>(host: string, call: () => Promise<T>): Promise<T> {
    const before = this.#hosts.get(host)
    if (before !== undefined) this.#enter(before)
    // A call begun before the pause says nothing about the host now.
    const began = before?.until ?? 0
    const at = this.#clock.monotonic()
    try {
      const result = await call()
      this.#called('ok')
      this.#answered(host, began)
      return result
    } catch (error) {
      const verdict = verdictOf(error)
      if (verdict !== 'not called') this.#called(verdict === 'failed' ? 'failed' : 'refused')
      if (verdict === 'failed') this.#failed(host, began, this.#paceOf(error, at))
      else if (verdict === 'answered') this.#answered(host, began)
      else if (before !== undefined) before.trying = false
      throw error
    }
  }

  #enter(trouble: Trouble): void {
    if (trouble.pause === 0) return
    const left = trouble.until - this.#clock.monotonic()
    if (left <= 0 && !trouble.trying) {
      trouble.trying = true
      return
    }
    this.#called('open')
    throw new ProviderUnavailable(
      'The payment provider did not answer several calls in a row and is left alone for a moment.',
      left > 0 ? Math.ceil(left / 1000) : TRYING,
      undefined,
      'open'
    )
  }

  #answered(host: string, began: number): void {
    const trouble = this.#hosts.get(host)
    if (trouble === undefined || trouble.until !== began) return
    this.#hosts.delete(host)
    if (trouble.pause > 0) this.#recovered?.(host)
  }

  #paceOf(error: unknown, at: number): keyof typeof PAUSES {
    const cause = error instanceof PayoutUncertain ? error.cause : error
    const isHarmless =
      cause instanceof NothingSent || (cause instanceof ProviderUnavailable && cause.fault === 'network')
    return isHarmless && this.#clock.monotonic() - at < AT_ONCE ? 'quick' : 'slow'
  }

  #failed(host: string, began: number, pace: keyof typeof PAUSES): void {
    const trouble = this.#hosts.get(host) ?? this.#remember(host)
    if (trouble.until !== began) return
    trouble.failures++
    trouble.trying = false
    if (trouble.failures < FAILURES) return
    const { first, longest } = PAUSES[pace]
    trouble.pause = Math.min(Math.max(trouble.pause * 2, first), longest)
    trouble.until = this.#clock.monotonic() + trouble.pause
  }

  #remember(host: string): Trouble {
    const oldest = this.#hosts.size < MAX_HOSTS ? undefined : this.#hosts.keys().next().value
    if (oldest !== undefined) this.#hosts.delete(oldest)
    const trouble: Trouble = { failures: 0, pause: 0, until: 0, trying: false }
    this.#hosts.set(host, trouble)
    return trouble
  }
}

/**
 * What an error says of the host. No connection, timeouts and 5xx count against it. Bad keys, refusals and 429 show
 * that it answers. A key's limit concerns its merchant; `ProviderHttp` handles limits by our address and stops calling.
 */
function verdictOf(error: unknown): 'failed' | 'answered' | 'not called' {
  const cause = error instanceof PayoutUncertain ? error.cause : error
  if (cause instanceof ProviderRefused) return 'answered'
  if (!(cause instanceof ProviderUnavailable)) return 'not called'
  switch (cause.fault) {
    case 'network':
    case 'timeout':
    case 'server':
      return 'failed'
    case 'rate':
      return cause instanceof NothingSent ? 'not called' : 'answered'
    case 'size':
      return 'answered'
    case 'open':
    case 'other':
      return 'not called'
  }
}

/**
 * A provider that `walletProvider` made, behind circuit breakers. Five consecutive failures open one for 10 s, then one call probes; each failed
 * probe doubles the pause up to 60 s (1 s to 5 s where connections are refused). Meanwhile calls fail immediately with
 * the true Retry-After, and refused payouts were not sent.
 */
export function guarded(provider: Provider, options: BreakerOptions): Provider {
  const breakers = new Breakers(options)
  const through =
    <Key extends Secret<string> | null, Rest extends readonly unknown[], Result>(
      call: (key: Key, ...rest: Rest) => Promise<Result>
    ) =>
    async (key: Key, ...rest: Rest): Promise<Result> =>
      await breakers.run(hostOf(key), () => call(key, ...rest))
  const hostOf = (key: Secret<string> | null): string => options.hostOf?.(key) ?? ''
  const { createFiatCharge, createPayout, lookUpPayout, listSettled, subscribe } = provider
  return {
    // A stream has its own backoff and says nothing of other calls; reading a notification makes none.
    ...provider,
    createCharge: through(provider.createCharge),
    lookUp: through(provider.lookUp),
    validateKey: through(provider.validateKey),
    ...(createPayout && { createPayout: through(createPayout) }),
    ...(lookUpPayout && { lookUpPayout: through(lookUpPayout) }),
    ...(createFiatCharge && { createFiatCharge: through(createFiatCharge) }),
    ...(listSettled && { listSettled: through(listSettled) }),
    ...(subscribe && { subscribe: through(subscribe) }),
    isLeftAlone: key => breakers.isOpen(hostOf(key)),
    hostOf,
    troubles: () => breakers.report()
  }
}
