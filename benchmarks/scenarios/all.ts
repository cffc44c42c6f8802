import { allocation } from './allocation.ts'
import { coldL402, tenThousandTokens } from './many-tokens.ts'
import { createPayment, readPayment } from './merchant-api.ts'
import { mint402 } from './mint-402.ts'
import { modernOnce, postDigest } from './modern.ts'
import { overTls } from './over-tls.ts'
import { passThrough } from './pass-through.ts'
import { redemption } from './redemption.ts'
import { slowProvider } from './slow-provider.ts'
import { streamed } from './streamed.ts'
import { eventStreams, idleConnections, webSocketEcho } from './studies.ts'
import { metered } from './metered.ts'
import { verifiedL402 } from './verified-l402.ts'
import type { Scenario, Study } from './scenario.ts'

/**
 * In the order of a run. Those that leave many rows in the databases come last; ten thousand tokens have the code
 * compiled that a cold one needs.
 */
export const scenarios: readonly Scenario[] = [
  verifiedL402,
  metered,
  passThrough,
  tenThousandTokens,
  coldL402,
  readPayment,
  modernOnce,
  postDigest,
  createPayment,
  mint402
]
/** What comes after them, each with processes of its own. */
export const studies: readonly Study[] = [
  allocation,
  redemption,
  slowProvider,
  eventStreams,
  idleConnections,
  webSocketEcho,
  streamed,
  overTls
]
