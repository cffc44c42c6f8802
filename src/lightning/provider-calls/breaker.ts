import type { Clock } from '../../platform/system/clock.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import { NothingSent, PayoutUncertain, ProviderRefused, ProviderUnavailable } from './errors.ts'
import type { HostReport, Provider } from '../providers/provider.ts'

/** Failures in a row after which a host is left alone. */
const FAILURES = 5
/**
 * Milliseconds until the first try; doubled after each try that fails. A host that says at once that nobody is there is
 * tried soon, since the try costs nobody anything; one that lets its callers wait, or does half of what it
 * is asked, is left alone for longer.
 */
const PAUSES = Object.freeze({
  quick: { first: 1_000, longest: 5_000 },
  slow: { first: 10_000, longest: 60_000 }
})
/** Milliseconds within which a failure is one that cost nobody anything. */
const AT_ONCE = 1_000
/** Hosts that are remembered as failing. Only hosts of merchants' own can be so many, and the oldest is let go. */
const MAX_HOSTS = 10_000
/** Seconds to wait while somebody else's call tries the host: about what such a call takes. */
const TRYING = 5

/** How a guarded provider is watched. */
export interface BreakerOptions {
  readonly clock: Clock
  /**
   * The host that is called with this key, where keys choose it (a node of the merchant's own): one merchant's dead
   * node must not stop the others. Left out where the configuration alone says which host it is.
   */
  hostOf?(key: Secret<string> | null): string
  /** A host has answered again that had been left alone. Answers at once and never throws. */
  recovered?(host: string): void
}

interface Trouble {
  failures: number
  /** Milliseconds of the present pause; 0 while calls still go through. */
  pause: number
  /** When the pause ends, in the clock's monotonic milliseconds. */
  until: number
  /** One call tries the host after the pause, and the others wait for its outcome. */
  trying: boolean
}

/**
 * The circuit breakers of one provider, one for each host. Kept in memory, by each process for itself.
 *
 * Our own and not the package cockatiel: its breaker reads `Date.now` and says neither when it may be tried again,
 * which Retry-After must tell, nor refuses at once while a trial call runs (its callers wait for the outcome).
 */
class Breakers {
  readonly #clock: Clock
  readonly #recovered: ((host: string) => void) | undefined
  /** Hosts in trouble only: one that answers is forgotten. */
  readonly #hosts = new Map<string, Trouble>()

  constructor({ clock, recovered }: BreakerOptions) {
    this.#clock = clock
    this.#recovered = recovered
  }

  /** Whether a host is left alone, or has not answered since it was. */
  isOpen(host: string): boolean {
    const trouble = this.#hosts.get(host)
    return trouble !== undefined && trouble.pause > 0
  }

  /** Hosts that do not answer, as this process knows them. */
  report(): HostReport[] {
    return [...this.#hosts].map(([host, { failures, pause, until }]) => ({
      host: host === '' ? null : host,
      failures,
      isLeftAlone: pause > 0,
      retryAfter: pause > 0 ? Math.max(0, Math.ceil((until - this.#clock.monotonic()) / 1000)) : null
    }))
  }

  /** Runs a call. @throws ProviderUnavailable at once, without a call, while the host is left alone */
  async run<T>(host: string, call: () => Promise<T>): Promise<T> {
    const before = this.#hosts.get(host)
    if (before !== undefined) this.#enter(before)
    // A call that began before the pause says nothing about the host after it.
    const began = before?.until ?? 0
    const at = this.#clock.monotonic()
    try {
      const result = await call()
      this.#answered(host, began)
      return result
    } catch (error) {
      const verdict = verdictOf(error)
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

  /** How soon a host is tried again that a call which began at `at` failed at. */
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
 * What an error says of the host. Against it count: no connection, no answer in time, 5xx. A bad key, a refusal and a
 * 429 show that it answers. A limit of one key is that merchant's own affair, and one that counts our address is kept
 * by `ProviderHttp`, which knows its name and how long it lasts, and then calls nobody.
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
 * The provider behind circuit breakers: after five failures in a row its host is left alone for 10 s, then one call
 * tries it, and each try that fails doubles the pause up to 60 s; where nobody is there to be connected to, for 1 s and
 * up to 5 s. Meanwhile every call fails at once with the true
 * Retry-After; a payout that is refused so was not sent.
 */
export function guarded(provider: Provider, options: BreakerOptions): Provider {
  const breakers = new Breakers(options)
  const through =
    <Rest extends readonly unknown[], Result>(call: (key: Secret<string>, ...rest: Rest) => Promise<Result>) =>
    async (key: Secret<string>, ...rest: Rest): Promise<Result> =>
      await breakers.run(hostOf(key), () => call(key, ...rest))
  const throughEither =
    <Rest extends readonly unknown[], Result>(call: (key: Secret<string> | null, ...rest: Rest) => Promise<Result>) =>
    async (key: Secret<string> | null, ...rest: Rest): Promise<Result> =>
      await breakers.run(hostOf(key), () => call(key, ...rest))
  const hostOf = (key: Secret<string> | null): string => options.hostOf?.(key) ?? ''
  const { createFiatCharge, createPayout, lookUpPayout, readNotification, listSettled, subscribe, follow } = provider
  return {
    kind: provider.kind,
    capabilities: provider.capabilities,
    keyless: provider.keyless,
    createCharge: throughEither(provider.createCharge.bind(provider)),
    lookUp: throughEither(provider.lookUp.bind(provider)),
    validateKey: through(provider.validateKey.bind(provider)),
    ...(createPayout === undefined ? {} : { createPayout: throughEither(createPayout.bind(provider)) }),
    ...(lookUpPayout === undefined ? {} : { lookUpPayout: throughEither(lookUpPayout.bind(provider)) }),
    ...(createFiatCharge === undefined ? {} : { createFiatCharge: throughEither(createFiatCharge.bind(provider)) }),
    ...(listSettled === undefined ? {} : { listSettled: through(listSettled.bind(provider)) }),
    ...(subscribe === undefined ? {} : { subscribe: through(subscribe.bind(provider)) }),
    // It has rests of its own, and says nothing of the host's other calls.
    ...(follow === undefined ? {} : { follow: follow.bind(provider) }),
    // Nobody is called.
    ...(readNotification === undefined ? {} : { readNotification: readNotification.bind(provider) }),
    isLeftAlone: key => breakers.isOpen(hostOf(key)),
    hostOf,
    troubles: () => breakers.report(),
    close: () => provider.close()
  }
}
