import type { OnPaid } from '../../../src/selling/holding/challenge.ts'
import type { Test as T } from 'tap'
import { challengeOperations } from '../../../src/selling/challenges/operations.ts'
import type { ChallengeSettings } from '../../../src/selling/offers/settings.ts'
import { loadConfigText } from '../../../src/engine/config/load.ts'
import type { GatewayConfig } from '../../../src/engine/config/schema.ts'
import { harness, type HarnessRequest, type HarnessResult } from '../../../src/engine/pipeline/harness.ts'
import { InternalUpstream } from '../../../src/engine/pipeline/internal.ts'
import type { PlanTier } from '../../../src/accounts/merchants/plans.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { MerchantStore } from '../../../src/accounts/merchants/store.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { pluginFacts } from '../../engine/config/plugin-facts.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { fixture, fixtureOn, type Fixture } from './fixture.ts'
import { principalOfKey } from '../../../src/accounts/merchants/principal.ts'

const yaml = `
chains:
  api: [ correlation ]
  paid: [ correlation, challenge ]
  proxied: [ proxy, challenge ]
plans:
  free: { endpoints: 3, challengesPerMonth: 5, maxPriceSats: 1000 }
routes:
  - match: { path: /demo/* }
    price: 10 sats
    description: A quote about money
    chain: paid
    upstream: { internal: api }
  - match: { path: [ /l402/proxy/:proxyId, /l402/proxy/:proxyId/* ] }
    description: APIs of merchants
    chain: proxied
    upstream: { proxy: ":proxyId" }
  - match: { path: /l402/test/ping, method: GET }
    price: 1 sat
    chain: paid
    upstream: { internal: api }
  - match: { path: /default }
    chain: paid
    upstream: { internal: api }
  - match: { path: /free }
    chain: api
    upstream: { internal: api }
`

/** A configuration of its own; the plan free has 5 challenges a month. */
export function configuration(): Promise<GatewayConfig> {
  return loadConfigText('gateway.yaml', yaml, {}, { plugins: pluginFacts, folder: '/srv/gateway' })
}

export type Json = Record<string, unknown>

/** What a caller of the producer API is given. */
export interface Reply extends HarnessResult {
  readonly data: Json
}

/** The operations of one gateway, called as a merchant. */
export interface Caller {
  (merchant: Merchant | null, method: string, target: string, body?: unknown, request?: HarnessRequest): Promise<Reply>
}

export interface ProducerFixture extends Fixture {
  readonly call: Caller
  /** The operations of another gateway on the same database. */
  elsewhere(): Promise<Caller>
  merchant(tier?: PlanTier): Promise<Merchant>
  /** Proxies that each merchant is said to have. */
  proxies: number
}

let merchants = 0

/** The producer API over the database that the tests of one file share, or over `database`. */
export async function producer(
  t: T,
  changes: Partial<ChallengeSettings> = {},
  database?: Database,
  paid?: OnPaid
): Promise<ProducerFixture> {
  const base =
    database === undefined ? await fixture(t, changes, paid) : fixtureOn(t, database, new ManualClock(), changes, paid)
  const config = await configuration()
  const store = new MerchantStore(base.database)
  const caller = async (selling: Fixture['selling']): Promise<Caller> => {
    const upstream = new InternalUpstream(
      challengeOperations({
        ...selling,
        clock: base.clock,
        database: base.database,
        config: () => config,
        publicUrl: () => 'https://gateway.example',
        countProxies: () => Promise.resolve(made.proxies)
      })
    )
    const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
    return async (merchant, method, target, body, request = {}) => {
      const headers = { 'content-type': 'application/json', ...request.headers }
      const result = await chain.run({
        ...request,
        method,
        target,
        headers,
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        ...(merchant === null ? {} : { principal: principalOfKey(merchant) })
      })
      return { ...result, data: result.text === '' ? {} : (result.json() as Json) }
    }
  }
  const made: ProducerFixture = {
    ...base,
    proxies: 0,
    call: await caller(base.selling),
    elsewhere: () => caller(base.another('gateway-2').selling),
    merchant: async (tier = 'individual') => {
      const id = await store.nextId()
      merchants++
      return await store.insert(
        {
          id,
          name: 'Acme',
          email: `acme-${process.pid}-${merchants}@example.com`,
          keyId: `key${process.pid}x${merchants}`,
          keyDigest: Buffer.alloc(32),
          planTier: tier,
          isActive: true,
          subscriptionStatus: 'active',
          refundsEnabled: false,
          multiCurrencyEnabled: false,
          l402Enabled: true
        },
        base.clock.now()
      )
    }
  }
  return made
}

/** The producer API as one merchant calls it. */
export async function merchantApi(t: T, tier?: PlanTier, ...more: ProducerOptions) {
  const f = await producer(t, ...more)
  const merchant = await f.merchant(tier)
  const call = async (method: string, target: string, body?: unknown, request?: HarnessRequest): Promise<Reply> =>
    await f.call(merchant, method, target, body, request)
  const create = (body: unknown, request?: HarnessRequest) => call('POST', CHALLENGES, body, request)
  return { f, merchant, call, create }
}

type ProducerOptions = Parameters<typeof producer> extends [T, ...infer Rest] ? Rest : never

export const CHALLENGES = '/api/l402/challenges'

/** Base of the producer's problem types. */
export const PROBLEMS = 'https://gateway.example/problems'

/** A member of an answer that must be text. */
export function text(data: Json, name: string): string {
  const value = data[name]
  if (typeof value !== 'string') throw new Error(`${name} is not a text: ${JSON.stringify(data)}`)
  return value
}
