import type { HeaderList } from '../message/headers.ts'
import type { UpstreamRequest } from './plugin.ts'
import type { TunnelTarget } from '../message/wire.ts'

/** What the terminal plugin holds while it streams a response: the way back through the chain to the client. */
export interface Responder {
  /** The client is gone: stop, and abort what was begun. */
  readonly gone: boolean
  /** Called when the client's connection takes bytes again after `write` answered false. */
  onDrain: (() => void) | null
  /** Called once when the response is over in any way, also when the client left. */
  onClose: (() => void) | null
  /** Runs the chain's `upstream` hooks over the request that is about to leave. */
  forwarding(out: UpstreamRequest): void
  /** Passes on a 102 or 103. */
  interim(status: number, headers: readonly string[]): void
  /** Takes the head up the chain and writes it. When it answers a promise, write nothing before it has resolved. */
  head(status: number, headers: HeaderList): void | Promise<void>
  /** Writes a piece; false asks to wait for `onDrain`. */
  write(bytes: Uint8Array): boolean
  /** Ends the response cleanly. */
  end(trailers: readonly string[] | null): void
  /** Before the head: answers with the error. After it: breaks the connection off, so that the client sees a fault. */
  fail(error: Error): void
  /** Joins an upgrade to its upstream; the head of the response, 101 or another, goes up the chain like any other. */
  tunnel(target: TunnelTarget, policy: TunnelPolicy): Promise<void>
}

/** What the forwarder makes of the upstream's side of an upgrade. */
export interface TunnelPolicy {
  /** The headers of the upstream's response as they may be passed on; `raw` is flat. */
  headers(status: number, raw: readonly string[]): HeaderList
  /** What is answered when the upstream could not be joined. */
  failure(error: Error): Error
}
