import { Socket } from 'node:net'
import { MalformedBody } from '../operations/errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Stopping } from '../message/wire.ts'
import type { Keeping } from '../message/allowance.ts'
import { takenBytes, type Watch, type Watched } from './deadlines.ts'
import { rawReply, rawReplyBytes, type RefusalHost } from './refusals.ts'
import type { ResponseWire, WireConnection } from './response-wire.ts'

export interface HttpHost extends RefusalHost {
  readonly draining: Stopping
  readonly clock: Clock
  readonly keeping: Keeping
  monotonic(): number
  dateLine(): string
}

/** A client connection over HTTP/1, whose requests are answered in order. */
export abstract class HttpConnection implements WireConnection, Watched {
  abstract readonly watch: Watch
  abstract readonly tunnelling: boolean
  abstract readonly leftover: boolean
  readonly socket: Socket
  readonly peerAddress: string
  readonly trusted: boolean
  current: ResponseWire | null = null
  closing = false
  served = false
  readonly #host: HttpHost

  constructor(socket: Socket, peerAddress: string, trusted: boolean, host: HttpHost) {
    this.socket = socket
    this.peerAddress = peerAddress
    this.trusted = trusted
    this.#host = host
  }

  get draining(): Stopping {
    return this.#host.draining
  }

  get clock(): Clock {
    return this.#host.clock
  }

  get keeping(): Keeping {
    return this.#host.keeping
  }

  get taken(): number {
    return takenBytes(this.socket)
  }

  dateLine(): string {
    return this.#host.dateLine()
  }

  /** The client closes the connection with the current request. */
  protected abstract readonly isLast: boolean
  abstract lastResponse(): void
  abstract settled(): void
  abstract refuse(status: number, message: string, offered?: string | null): void
  /** The system has accepted the current response. */
  protected finished(): void {}

  readonly written = (error?: Error | null): void => {
    const wire = this.current
    // The connection's close reports failures.
    if (wire === null || (error ?? null) !== null || this.socket.errored !== null) return
    if (this.closing || this.isLast) this.finishSoon()
    this.finished()
    wire.closed(true)
  }

  readonly drained = (): void => {
    this.current?.drained()
  }

  closed(): void {
    // A tunnel tells how it ended.
    if (!this.tunnelling) this.current?.closed(false)
  }

  /** The current response is over. */
  protected rest(): void {
    this.current = null
    this.served = true
    this.watch.idle(this.#host.monotonic(), this.socket.bytesRead)
  }

  /** Fails the current request's body as malformed or late; that request is the last. */
  failBody(status: number, message: string): void {
    this.closing = true
    this.current?.body.fail(new MalformedBody(status, message))
  }

  /**
   * Replaces the socket's `destroySoon`. With unread bytes of an upload that would send a reset, and the client would
   * lose the response. The deadlines close what remains.
   */
  finishSoon(): void {
    this.lastResponse()
    if (this.leftover) this.socket.end()
    else Socket.prototype.destroySoon.call(this.socket)
  }

  protected writeRefusal(status: number, message: string, offered: string | null): void {
    const { socket, peerAddress } = this
    const host = this.#host
    const correlationId = host.correlationId(offered)
    host.refused({ status, message, peerAddress, correlationId })
    if (socket.writable) socket.end(rawReplyBytes(rawReply(status, message, correlationId), host.now()))
    else socket.destroy()
  }
}
