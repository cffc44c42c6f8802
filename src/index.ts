/** What plugin authors get. The gateway's own plugins import nothing else. */
export { definePlugin } from './gateway/plugin.ts'
export type { HookResult, Hooks, Plugin, Scope, UpstreamRequest } from './gateway/plugin.ts'
export { Context } from './gateway/context.ts'
export type { Principal, RequestOffer, RequestPayment, Slot } from './gateway/context.ts'
export type { Head, HeadSource, Outcome, Reply, StreamBody, StreamSink } from './gateway/reply.ts'
export type { RequestBody } from './gateway/body.ts'
export type { ReadonlyHeaders } from './gateway/headers.ts'
export { HeaderList } from './gateway/headers.ts'
export type { Responder } from './gateway/responder.ts'
export type { UpstreamTarget } from './gateway/target.ts'
export type { Idempotency } from './gateway/idempotency.ts'
export type { RouteInfo } from './gateway/route.ts'
export type { Services } from './gateway/services.ts'
export { codeOf, type ErrorCode } from './errors/codes.ts'
export * from './gateway/errors.ts'
export { Type } from 'typebox'
export { harness } from './gateway/harness.ts'
export type {
  AnyPlugin,
  Harness,
  HarnessAnswer,
  HarnessEntry,
  HarnessExchange,
  HarnessOptions,
  HarnessRequest,
  HarnessResult
} from './gateway/harness.ts'
export { clientNetwork } from './gateway/addresses.ts'
export { Duration, Price, Size } from './config/units.ts'
export { List, PolicyName, SecretText } from './config/fields.ts'
export type { PolicyConfig } from './config/schema.ts'
export type { Clock, Timer } from './system/clock.ts'
export { cleanTarget } from './telemetry/log.ts'
export type { Log } from './telemetry/log.ts'
export { MemoryState } from './state/memory.ts'
export { StateUnavailable } from './state/state.ts'
export type { LimitVerdict, Maybe, ReplayRecord, State } from './state/state.ts'
export { prefixSegments } from './proxies/admission.ts'
export { merchantOf } from './merchants/principal.ts'
export type { AdminPrincipal, MerchantPrincipal } from './merchants/principal.ts'
export type { Merchant, MerchantFlags } from './merchants/schema.ts'
export type { Merchants } from './merchants/service.ts'
export type { SubscriptionGate } from './merchants/gate.ts'
export type { AdminKey } from './merchants/admin-key.ts'
export type { AuthThrottle } from './merchants/auth-throttle.ts'
export type { CredentialVerdict, Paid } from './challenges/verdict.ts'
export { UNPAID } from './challenges/verdict.ts'
export type { Challenges } from './challenges/service.ts'
