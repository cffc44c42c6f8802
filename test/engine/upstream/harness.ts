import { Readable } from 'node:stream'
import type { UrlUpstreamConfig } from '../../../src/engine/sections/upstream.ts'
import {
  type RequestBody,
  Context,
  type RequestFacts,
  NO_ROUTE,
  type UpstreamTarget
} from '../../../src/engine/message/context.ts'
import { GatewayError } from '../../../src/engine/operations/errors.ts'
import type { Responder, UpstreamRequest } from '../../../src/engine/pipeline/plugin.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { ProxyScope } from '../../../src/engine/message/proxy-scope.ts'
import type { TunnelTarget } from '../../../src/engine/message/wire.ts'
import { Forwarder } from '../../../src/engine/upstream/forwarder.ts'
import type { RouteUpstream } from '../../../src/engine/upstream/route-upstream.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import type { Test } from 'tap'

/** The client's side of one request, written down instead of sent. */
export class RecordingResponder implements Responder {
  gone = false
  onDrain: (() => void) | null = null
  onClose: (() => void) | null = null
  readonly interims: Array<{ status: number; headers: readonly string[] }> = []
  status = 0
  headers = new HeaderList()
  readonly pieces: Uint8Array[] = []
  trailers: readonly string[] | null = null
  error: Error | null = null
  ended = false
  tunnelled: TunnelTarget | null = null
  /** What the `upstream` hooks of a chain would do. */
  hook: (out: UpstreamRequest) => void = () => {
    /* changes nothing */
  }
  /** Holds the head back until it resolves. */
  headDelay: Promise<void> | null = null
  /** What `write` answers. */
  flowing = true
  bytes = 0
  /** Pieces are counted but not kept. */
  discard = false
  readonly done: Promise<void>
  readonly headed: Promise<void>
  readonly wrote: Promise<void>
  #resolve: () => void = () => {
    /* set below */
  }
  #head: () => void = () => {
    /* set below */
  }
  #write: () => void = () => {
    /* set below */
  }

  constructor() {
    this.done = new Promise(resolve => {
      this.#resolve = resolve
    })
    this.headed = new Promise(resolve => {
      this.#head = resolve
    })
    this.wrote = new Promise(resolve => {
      this.#write = resolve
    })
  }

  get body(): string {
    return Buffer.concat(this.pieces).toString('latin1')
  }

  forwarding(out: UpstreamRequest): void {
    this.hook(out)
  }

  interim(status: number, headers: readonly string[]): void {
    this.interims.push({ status, headers })
  }

  head(status: number, headers: HeaderList): void | Promise<void> {
    this.status = status
    this.headers = headers
    this.#head()
    if (this.headDelay !== null) return this.headDelay
  }

  write(bytes: Uint8Array): boolean {
    this.bytes += bytes.byteLength
    if (!this.discard) this.pieces.push(bytes)
    this.#write()
    return this.flowing
  }

  end(trailers: readonly string[] | null): void {
    this.ended = true
    this.trailers = trailers
    this.#close()
  }

  fail(error: Error): void {
    this.error = error
    this.#close()
  }

  async tunnel(target: TunnelTarget): Promise<void> {
    this.tunnelled = target
    this.#close()
  }

  /** The client closes its connection. */
  leave(): void {
    this.gone = true
    this.#close()
  }

  #close(): void {
    const close = this.onClose
    this.onClose = null
    close?.()
    this.#resolve()
  }

  /** The error that a client would get: its status and members. */
  get failure(): { status: number; members: Record<string, unknown> | null } | null {
    if (!(this.error instanceof GatewayError)) return null
    return {
      status: this.error.status,
      members: this.error.members({ correlationId: 'c', now: 0, mode: 'production' })
    }
  }
}

/** A body of bytes, of a stream, or none. */
export function bodyOf(content: string | Readable | null, length: number | null = null): RequestBody {
  const bytes = typeof content === 'string' ? Buffer.from(content, 'latin1') : null
  return {
    length: content === null ? 0 : length,
    collected: bytes,
    received: 0,
    pieces: 0,
    unfinished: false,
    limit: Infinity,
    isAnonymous: false,
    each: () => Promise.reject(new Error('not used here')),
    gather: () => null,
    bytes: async () => bytes ?? Buffer.alloc(0),
    stream: () => (content instanceof Readable ? content : Readable.from([]))
  }
}

/** A context with the facts of a plain GET, changed as given. */
export function contextOf(facts: Partial<Omit<RequestFacts, 'headers'>> & { headers?: string[] } = {}): Context {
  return new Context(
    {
      method: 'GET',
      target: '/',
      host: 'gateway.test',
      body: bodyOf(null),
      peerAddress: '203.0.113.7',
      clientAddress: '203.0.113.7',
      secure: true,
      httpVersion: '1.1',
      upgrade: null,
      expectsContinue: false,
      correlationId: 'corr-1',
      now: 0,
      startedAt: 0,
      ...facts,
      headers: new HeaderList(facts.headers ?? ['Host', 'gateway.test'])
    },
    NO_ROUTE
  )
}

/** A merchant's target at `origin`, changed as given. */
export function targetOf(origin: string, more: Partial<UpstreamTarget> = {}): UpstreamTarget {
  return {
    origin,
    path: '/',
    requestHeaders: [],
    responseHeaders: [],
    timeout: 30_000,
    responseLimit: 10_485_760,
    tenant: 'merchant-1',
    untrusted: new ProxyScope('p-1', '/l402/proxy/p-1'),
    tls: null,
    errorMembers: { proxy_id: 'p-1' },
    ...more
  }
}

/** An operator's upstream at `url` with the defaults of the configuration. */
export function upstreamConfig(url: string, more: Partial<Omit<UrlUpstreamConfig, 'kind'>> = {}): UrlUpstreamConfig {
  return {
    kind: 'url',
    url: [url],
    timeout: 30_000,
    connections: 256,
    preserveHost: false,
    headers: {},
    ...more
  }
}

/** A forwarder that is closed with the test, before its upstream. */
export function forwarderTo(t: Test, upstream: { close(): Promise<void> }, clock = systemClock) {
  const forwarder = new Forwarder({ clock, production: false })
  t.teardown(async () => {
    await forwarder.close()
    await upstream.close()
  })
  return forwarder
}

/** Forwards a request; answers what records its response. */
export function sent(
  forwarder: Forwarder,
  to: UpstreamTarget | RouteUpstream,
  facts: Parameters<typeof contextOf>[0] = {}
) {
  const responder = new RecordingResponder()
  const ctx = contextOf(facts)
  void ('release' in to ? forwarder.forwardTo(ctx, responder, to) : forwarder.forward(ctx, responder, to))
  return responder
}
