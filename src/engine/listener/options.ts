import type { Context } from '../message/context.ts'
import type { Wire } from '../message/wire.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { RefusalEvent } from './connection.ts'
import type { ListenerLimits } from './deadlines.ts'
import type { TlsOptions } from './tls.ts'

export interface ListenerOptions {
  readonly limits: ListenerLimits
  /** Addresses and ranges whose X-Forwarded-* headers are trusted. */
  readonly trustedProxies: readonly string[]
  /** Null serves plain HTTP. */
  readonly tls?: Omit<TlsOptions, 'clock' | 'http2'> | null
  /** Offers HTTP/2 in TLS, and takes it from trusted proxies in the clear. Default false. */
  readonly http2?: boolean
  /** HTTPS origins, to which plain requests of other machines are sent (308); the first is for unknown hosts. Default none. */
  readonly toHttps?: readonly [string, ...string[]] | undefined
  readonly clock: Clock
  /** Makes a correlation id for a request without one (decision 14). */
  readonly freshId: () => string
  /** Receives each admitted request. Must not throw. */
  readonly handle: (ctx: Context, wire: Wire) => void
  /** Whether a path may hide a dot segment (`DoorRules.takesAnySegment`); default none. */
  readonly takesAnySegment?: (method: string, host: string, path: string) => boolean
  readonly refused?: (event: RefusalEvent) => void
  /** Whether plain requests bypass node:http (default true); responses are the same. */
  readonly fastLane?: boolean
  /**
   * Called when the system cannot accept a connection, for example without file descriptors; the listener continues.
   */
  readonly failed?: (error: Error) => void
}
