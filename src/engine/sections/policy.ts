import { Type, type Static } from 'typebox'
import { described, type DeepReadonly } from '../config/fields.ts'
import { Duration } from '../config/units.ts'

/** A rate limit under `policies` (contract, Limits; decisions 30 to 34). */
export const PolicySchema = Type.Object(
  {
    limit: Type.Integer({ minimum: 1, description: 'Requests allowed in one window.' }),
    window: Duration({ minimum: '1s', maximum: '1d', description: 'Length of the window.' }),
    by: Type.Union([Type.Literal('principal'), Type.Literal('address'), Type.Literal('token')], {
      default: 'principal',
      description:
        'Whom a counter belongs to: the authenticated principal (the address where there is none), always the client address, or the payment of the request. The latter needs a throttle after `credential` in the chain, and before it another one.'
    })
  },
  described('A rate limit.')
)

/** `limit` requests in `window` milliseconds (decisions 32 to 34). */
export type PolicyConfig = DeepReadonly<Static<typeof PolicySchema>> & {
  /** Segments of a sliding window; a fixed one without. */
  readonly sliding?: number
}

/** The contract's rate limits (contract, Limits); the file may replace each by its name. */
export const builtInPolicies: Readonly<Record<string, PolicyConfig>> = Object.freeze({
  global: { limit: 100, window: 60_000, by: 'principal' },
  read: { limit: 200, window: 60_000, by: 'principal' },
  'payment-create': { limit: 10, window: 60_000, by: 'principal' },
  write: { limit: 20, window: 60_000, by: 'principal' },
  'checkout-create': { limit: 5, window: 60_000, by: 'principal' },
  admin: { limit: 30, window: 60_000, by: 'principal' },
  webhook: { limit: 100, window: 60_000, sliding: 4, by: 'principal' },
  'l402-proxy': { limit: 100, window: 60_000, by: 'address' },
  'magic-link': { limit: 3, window: 900_000, by: 'address' },
  // Ours: console pages refresh every few seconds in each tab.
  console: { limit: 600, window: 60_000, by: 'principal' },
  // Ours: a passkey sign-in takes two requests.
  passkey: { limit: 20, window: 900_000, by: 'address' }
} satisfies Record<string, PolicyConfig>)
