import type { HeaderList } from '../message/headers.ts'
import type { UpstreamRequest } from './plugin.ts'
import type { TunnelTarget } from '../message/wire.ts'

/** How the terminal plugin streams a response through the chain to the client. */
export interface Responder {
  /** The client is gone: stop, and abort pending work. */
  readonly gone: boolean
  /** Called when the client reads again after `write` returned false. */
  onDrain: (() => void) | null
  /** Called once when the response is over, also when the client left. */
  onClose: (() => void) | null
  forwarding(out: UpstreamRequest): void
  interim(status: number, headers: readonly string[]): void
  /** Runs the response hooks and writes the head. If it returns a promise, write nothing before it resolves. */
  head(status: number, headers: HeaderList): void | Promise<void>
  /** False asks to wait for `onDrain`. */
  write(bytes: Uint8Array): boolean
  end(trailers: readonly string[] | null): void
  /** Answers with the error before the head. After it, aborts the connection so that the client sees a fault. */
  fail(error: Error): void
  /** Joins an upgrade to its upstream; the response's head, 101 or another, goes up the chain. */
  tunnel(target: TunnelTarget, policy: TunnelPolicy): Promise<void>
}

export interface TunnelPolicy {
  /** The headers of the upstream's response that may be passed on; `raw` is flat. */
  headers(status: number, raw: readonly string[]): HeaderList
  failure(error: Error): Error
}
