import { clientNetwork } from '../message/addresses.ts'
import type { Context, UpstreamTarget } from '../message/context.ts'
import { Unavailable } from '../operations/errors.ts'
import { credentialField, paidKey, paymentScheme } from '../message/payment-headers.ts'
import type { Clock } from '../../platform/system/clock.ts'

/** Consecutive failures that open a breaker. */
const FAILURES = 5
/** Milliseconds until the first probe; doubled after each failed one. */
const FIRST_PAUSE = 5_000
const LONGEST_PAUSE = 30_000
/** Most open breakers. Merchants choose their upstreams; the oldest is evicted. */
const MAX_UPSTREAMS = 10_000
/** Most milliseconds for which one probe blocks the others. */
const LONGEST_TRY = 30_000

/** Where requests fail, since the last success. */
export interface UpstreamTrouble {
  readonly route: string
  /** Empty for the operator's own. */
  readonly tenant: string
  readonly origin: string
  readonly failures: number
  /** Milliseconds since the epoch: the first failure and the last. */
  readonly since: number
  readonly lastAt: number
  /** The only network whose requests failed; null for several, or when no connection was possible. */
  readonly client: string | null
}

interface Trouble extends UpstreamTrouble {
  failures: number
  lastAt: number
  client: string | null
  /** Milliseconds of the current pause; 0 while requests still pass. */
  pause: number
  /** When the pause ends, when the probe is given up, and when the next sale is allowed. */
  until: number
  triedUntil: number
  soldFrom: number
}

/**
 * Circuit breakers of upstreams, one per address of an operator's route and per merchant's host. They observe real requests: after
 * five consecutive failures the upstream is paused for five seconds, then probed by one request at a time. Each failed
 * probe doubles the pause up to 30 s. Failures that a client can provoke count against that client alone until another
 * one has them too.
 *
 * Unlike `lightning/provider-calls/breaker.ts`, a request passes here twice, and the first pass may end in a 402
 * without an attempt.
 */
export class UpstreamBreakers {
  readonly #clock: Clock
  readonly #troubles = new Map<string, Trouble>()
  readonly #known = new Map<object, { readonly route: string; readonly targets: readonly UpstreamTarget[] }>()

  #hasChecks = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Where a route's own requests go, until `forget`. */
  know(upstream: object, route: string, targets: readonly UpstreamTarget[]): void {
    this.#known.set(upstream, { route, targets })
    this.#hasChecks ||= targets.some(({ health }) => health !== undefined && health !== null)
  }

  forget(upstream: object, targets: readonly UpstreamTarget[]): void {
    if (this.#known.get(upstream)?.targets === targets) this.#known.delete(upstream)
  }

  /**
   * Refuses to sell what cannot be delivered. After the pause paid requests pass, and one unpaid request per pause, or
   * no probe would ever run.
   * @throws Unavailable 503 with Retry-After
   */
  requireSellable(ctx: Context): void {
    if (this.#troubles.size === 0 && !this.#hasChecks) return
    const own = ctx.route.config?.upstream
    const targets =
      ctx.upstreamTarget !== null ? [ctx.upstreamTarget] : own === undefined ? [] : this.#known.get(own)?.targets
    if (targets === undefined || targets.length === 0) return
    if (targets.some(target => target.health?.isHealthy !== false && this.#open(ctx, target) === null)) return
    const isPaid = carriesPayment(ctx)
    let least = Infinity
    for (const target of targets) {
      const now = this.#clock.monotonic()
      const trouble = this.#open(ctx, target)
      const pause = trouble === null ? 0 : (isPaid ? trouble.until : Math.max(trouble.until, trouble.soldFrom)) - now
      const wait = target.health?.isHealthy === false ? Math.max(pause, target.health.every) : pause
      if (wait <= 0) {
        if (trouble !== null && !isPaid) trouble.soldFrom = now + trouble.pause
        return
      }
      least = Math.min(least, wait)
    }
    throw leftAlone(ctx, least)
  }

  /** Milliseconds until a request may go to the target; 0 for now. */
  wait(ctx: Context, target: UpstreamTarget): number {
    if (target.health?.isHealthy === false) return target.health.every
    const trouble = this.#open(ctx, target)
    return trouble === null ? 0 : Math.max(0, Math.max(trouble.until, trouble.triedUntil) - this.#clock.monotonic())
  }

  /** @throws Unavailable 503 with Retry-After */
  enter(ctx: Context, target: UpstreamTarget): void {
    const wait = this.wait(ctx, target)
    if (wait > 0) throw leftAlone(ctx, wait)
    const trouble = this.#open(ctx, target)
    if (trouble !== null) trouble.triedUntil = this.#clock.monotonic() + LONGEST_TRY
  }

  answered(ctx: Context, target: UpstreamTarget): void {
    if (this.#troubles.size > 0) this.#troubles.delete(keyOf(ctx, target))
  }

  /** `isUnreachable`: there was no connection, whatever the request was. */
  failed(ctx: Context, target: UpstreamTarget, isUnreachable: boolean): void {
    const client = isUnreachable ? null : clientNetwork(ctx.clientAddress)
    const now = this.#clock.monotonic()
    const trouble = this.#troubles.get(keyOf(ctx, target)) ?? this.#remember(ctx, target, client)
    // A request sent before the pause says nothing about the upstream after it.
    if (now < trouble.until) return
    if (trouble.client !== client) trouble.client = null
    trouble.triedUntil = 0
    trouble.lastAt = this.#clock.now()
    if (++trouble.failures < FAILURES) return
    trouble.pause = Math.min(Math.max(trouble.pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
    trouble.until = trouble.soldFrom = now + trouble.pause
  }

  /** In this process. */
  report(): readonly UpstreamTrouble[] {
    const unhealthy = [...this.#known.values()].flatMap(({ route, targets }) =>
      targets.flatMap(({ origin, tenant, health }) => {
        if (health === undefined || health === null || health.isHealthy) return []
        const { failures, since, lastAt } = health
        return [{ route, tenant, origin, failures, since, lastAt, client: null }]
      })
    )
    return [...this.#troubles.values(), ...unhealthy]
  }

  left(ctx: Context, target: UpstreamTarget): void {
    const trouble = this.#open(ctx, target)
    if (trouble !== null) trouble.triedUntil = 0
  }

  #open(ctx: Context, target: UpstreamTarget): Trouble | null {
    if (this.#troubles.size === 0) return null
    const trouble = this.#troubles.get(keyOf(ctx, target))
    if (trouble === undefined || trouble.pause === 0) return null
    return trouble.client === null || trouble.client === clientNetwork(ctx.clientAddress) ? trouble : null
  }

  #remember(ctx: Context, target: UpstreamTarget, client: string | null): Trouble {
    const oldest = this.#troubles.size < MAX_UPSTREAMS ? undefined : this.#troubles.keys().next().value
    if (oldest !== undefined) this.#troubles.delete(oldest)
    const { origin, tenant } = target
    const since = this.#clock.now()
    const timing = { since, lastAt: since, pause: 0, until: 0, triedUntil: 0, soldFrom: 0 }
    const trouble: Trouble = { route: ctx.route.name, tenant, origin, failures: 0, client, ...timing }
    this.#troubles.set(keyOf(ctx, target), trouble)
    return trouble
  }
}

/** By route, since a slow one says nothing of others. */
function keyOf({ route }: Context, { origin, tenant }: UpstreamTarget): string {
  return `${route.name} ${tenant} ${origin}`
}

function carriesPayment({ headers }: Context): boolean {
  const { pairs } = headers
  for (let at = 0; at < pairs.length; at += 2) {
    const field = credentialField(pairs[at] ?? '')
    if (field === null) continue
    const value = pairs[at + 1] ?? ''
    if (field === 'macaroon' || field === 'payment' || field === 'x402' || paidKey(value) !== null) return true
    if (field === 'authorization' && paymentScheme(value) !== null) return true
  }
  return false
}

function leftAlone({ upstreamTarget }: Context, wait: number): Unavailable {
  return new Unavailable(
    'Service unavailable',
    'The upstream has failed several times in a row. Nothing was charged; what is paid stays good. Send the same request again later.',
    Math.max(1, Math.ceil(wait / 1000)),
    upstreamTarget?.errorMembers ?? {}
  )
}
