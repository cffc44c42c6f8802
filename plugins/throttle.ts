import {
  clientNetwork,
  definePlugin,
  MemoryState,
  PolicyName,
  RateLimited,
  StateUnavailable,
  Type,
  type BodyLimit,
  type Context,
  type Maybe,
  type PolicyConfig,
  type State,
  type LimitVerdict
} from '../src/index.ts'

/** Counter key: the payment, the account, else the client's address, IPv6 by /64 (decision 32). */
function subject(ctx: Context, by: PolicyConfig['by']): string {
  const { payment, principal } = ctx
  // Before it is verified, any client could name another payment with each request.
  if (by === 'token' && payment !== null) return `payment ${payment.paymentHash}`
  if (by === 'address' || principal === null) return clientNetwork(ctx.clientAddress)
  return `${principal.kind} ${principal.id}`
}

function take(state: State, policy: PolicyConfig, key: string): Maybe<LimitVerdict> {
  return policy.sliding === undefined
    ? state.takeFixed(key, policy.limit, policy.window)
    : state.takeSliding(key, policy.limit, policy.window, policy.sliding)
}

/**
 * Enforces one rate limit policy (contract, Limits; decisions 30 to 34). Each entry in a chain counts on its own
 * (decision 30).
 */
export default definePlugin({
  name: 'throttle',
  description:
    'Counts requests under a policy and answers 429 with Retry-After above its limit. Each policy has one counter per principal: the merchant or administrator if auth precedes it in the chain, else the client address (IPv6 by /64). Policies by address always use the address, those by token the payment. Rejected requests are not counted. A body that is read before payment counts as one more request for each 64 KiB, and for each 1,024 chunks. Each throttle in a chain counts separately, so several can be stacked. Put it before anything that costs money, such as challenge.',
  config: Type.Object(
    {
      policy: PolicyName({ default: 'global', description: 'Name of a policy, built in or from `policies`.' })
    },
    { additionalProperties: false, description: 'Which requests are too many.' }
  ),
  uses: ['state', 'policies', 'clock', 'metrics', 'log'],
  provides: ['throttle'],
  setup(config, { services, route }) {
    const { state, clock, metrics, log } = services
    const policy = services.policies[config.policy]
    if (policy === undefined)
      throw new TypeError(
        `there is no policy "${config.policy}"; there are ${Object.keys(services.policies).join(', ')}`
      )
    const prefix = `${config.policy} `
    const refused = metrics
      .counter('boltgate_throttled_total', 'Requests refused by a rate limit, by policy.', ['policy'])
      .labels(config.policy)
    let local: MemoryState | null = null
    let isDown = false

    const decide = (verdict: LimitVerdict): void => {
      if (verdict.allowed) return
      refused.inc()
      throw new RateLimited(verdict.retryAfterMs / 1000)
    }

    const withoutState = (key: string, error: unknown): void => {
      if (!(error instanceof StateUnavailable)) throw error
      // Logs once per outage.
      if (!isDown)
        log.warn(
          { err: error, route: route.name, policy: config.policy },
          'rate limits cannot reach the shared state; until then this worker counts alone'
        )
      isDown = true
      local ??= new MemoryState(clock)
      decide(take(local, policy, key) as LimitVerdict)
    }

    const counted = (verdict: LimitVerdict): void => {
      isDown = false
      decide(verdict)
    }

    /** Counts a body. Excess units are dropped, so that one large body can still be served. */
    const takeAll = (key: string, units: number): Array<Maybe<LimitVerdict>> =>
      Array.from({ length: Math.min(units, policy.limit) }, () => take(state, policy, key))

    const bodies: BodyLimit = {
      async count(ctx, units) {
        const key = prefix + subject(ctx, policy.by)
        try {
          const verdicts = await Promise.all(takeAll(key, units))
          const [first] = verdicts
          if (first !== undefined && !verdicts.some(({ allowed }) => allowed)) decide(first)
        } catch (error) {
          withoutState(key, error)
        }
      }
    }
    const alone = [bodies]

    return {
      request(ctx) {
        // Console reads must not consume the account's API limit: the page was counted, and changes have their own
        // counter.
        if (ctx.internal && ctx.method === 'GET') return
        const key = `${prefix}${ctx.internal ? 'console ' : ''}${subject(ctx, policy.by)}`
        ctx.bodyLimits = ctx.bodyLimits.length === 0 ? alone : [...ctx.bodyLimits, bodies]
        const verdict = take(state, policy, key)
        if ('then' in verdict)
          return verdict.then(counted, (error: unknown) => {
            withoutState(key, error)
          })
        decide(verdict)
      },
      done(ctx) {
        const units = ctx.bodyUnits ?? 0
        if (units === 0 || ctx.payment !== null) return
        Promise.all(takeAll(prefix + subject(ctx, policy.by), units)).catch((error: unknown) => {
          log.warn(
            { err: error, route: route.name, policy: config.policy },
            'the body of an unpaid request is not counted'
          )
        })
      }
    }
  }
})
