import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { localAddress, portOf, type ListenAddress } from '../../../src/engine/config/listen-address.ts'
import { asGatewayError, errorReply } from '../../../src/engine/operations/errors.ts'
import type { Context } from '../../../src/engine/message/context.ts'
import type { Wire } from '../../../src/engine/message/wire.ts'
import type { RefusalEvent } from '../../../src/engine/listener/refusals.ts'
import { defaultLimits, type ListenerLimits } from '../../../src/engine/listener/deadlines.ts'
import { createListener, type Listener } from '../../../src/engine/listener/listener.ts'
import { type Clock, systemClock } from '../../../src/platform/system/clock.ts'
import type { CertificateFiles, TlsOptions } from '../../../src/engine/listener/tls.ts'
import { selfSigned } from '../../fakes/certificate.ts'
import { RawClient } from '../../support/raw-client.ts'

/** A listener on a free port, closed with its test. */
export interface Door {
  readonly listener: Listener
  readonly port: number
  readonly refusals: RefusalEvent[]
  connect(): Promise<RawClient>
}

export interface DoorOptions {
  readonly limits?: Partial<ListenerLimits>
  readonly trustedProxies?: readonly string[]
  readonly clock?: Clock
  /** Whether plain requests are read by the fast lane; as `doors` says where nothing else is said. */
  readonly fastLane?: boolean
  readonly tls?: Omit<TlsOptions, 'clock' | 'http2'> | null
  readonly http2?: boolean
  readonly toHttps?: readonly [string, ...string[]]
  /** Default one on loopback. */
  readonly addresses?: readonly ListenAddress[]
  readonly handle: (ctx: Context, wire: Wire) => void
}

/** Set to run the same tests over node:http alone, or over TLS. */
export const doors = { fastLane: true, tls: false }

/** Writes a self-signed certificate for the names to files that go with the test. */
export function certificateFiles(
  names: readonly string[],
  folder = mkdtempSync(join(tmpdir(), 'boltgate-tls-'))
): CertificateFiles {
  const { certificate, key } = selfSigned({ names })
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
  writeFileSync(files.cert, certificate)
  writeFileSync(files.key, key)
  return files
}

const unexpected = (error: Error): never => {
  throw error
}

export function tlsOptions(
  ...certificates: readonly [CertificateFiles, ...CertificateFiles[]]
): Omit<TlsOptions, 'clock' | 'http2'> {
  return { certificates, ticketSecret: Buffer.alloc(32, 7), failed: unexpected, renewed: () => undefined }
}

/** Opens a listener whose requests go to `handle`. */
export async function openDoor(t: Test, options: DoorOptions): Promise<Door> {
  const refusals: RefusalEvent[] = []
  const clients: RawClient[] = []
  const listener = createListener({
    limits: { ...defaultLimits, ...options.limits },
    trustedProxies: options.trustedProxies ?? [],
    clock: options.clock ?? systemClock,
    tls: options.tls === undefined && doors.tls ? tlsOptions(certificateFiles(['localhost'])) : (options.tls ?? null),
    freshId: () => 'fresh-id',
    http2: options.http2 === true,
    toHttps: options.toHttps,
    handle: options.handle,
    fastLane: options.fastLane ?? doors.fastLane,
    refused: event => {
      refusals.push(event)
    }
  })
  await listener.listen(...(options.addresses ?? [localAddress()]))
  const port = portOf(listener.addresses)
  t.teardown(async () => {
    for (const client of clients) client.close()
    await listener.drain(1000)
  })
  return {
    listener,
    port,
    refusals,
    async connect() {
      const isSecure = options.tls === undefined ? doors.tls : options.tls !== null
      const client = await RawClient.connect(port, undefined, isSecure)
      clients.push(client)
      return client
    }
  }
}

export interface Arrival {
  readonly ctx: Context
  readonly wire: Wire
}

/** A listener that gives its requests to the test one by one. */
export async function arrivals(
  t: Test,
  options: Omit<DoorOptions, 'handle'> = {}
): Promise<{ door: Door; next(): Promise<Arrival> }> {
  const queue: Arrival[] = []
  const waiting: ((arrival: Arrival) => void)[] = []
  const door = await openDoor(t, {
    ...options,
    handle(ctx, wire) {
      const wake = waiting.shift()
      if (wake === undefined) queue.push({ ctx, wire })
      else wake({ ctx, wire })
    }
  })
  return {
    door,
    next: async () => queue.shift() ?? (await new Promise(resolve => waiting.push(resolve)))
  }
}

/** The first request of a client that sends `bytes`, and ends its side if it `ends`. */
export async function arrival(
  t: Test,
  bytes: string,
  { ends = false, ...options }: Omit<DoorOptions, 'handle'> & { readonly ends?: boolean } = {}
) {
  const { door, next } = await arrivals(t, options)
  const client = await door.connect()
  client.send(bytes)
  if (ends) client.socket.end()
  const { ctx, wire } = await next()
  return { door, next, client, ctx, wire, watch: watchWire(wire) }
}

/** Answers immediately. */
export function reply(wire: Wire, status: number, body: string, headers: readonly string[] = []): void {
  wire.listener ??= {
    drained() {
      return undefined
    },
    stopping() {
      return undefined
    },
    closed() {
      return undefined
    }
  }
  wire.head(status, [...headers, 'Content-Length', String(Buffer.byteLength(body))])
  wire.end(body, null)
}

/** Answers an error as the engine would. */
export function replyError(ctx: Context, wire: Wire, cause: unknown): void {
  const answer = errorReply(asGatewayError(cause), {
    correlationId: ctx.correlationId,
    now: ctx.now,
    mode: 'development'
  })
  if (answer.body === null) wire.destroy()
  else reply(wire, answer.status, String(answer.body), answer.headers)
}

/** A listener of a wire that remembers, with promises for what it waits for. */
export function watchWire(wire: Wire): {
  readonly drains: number
  readonly closes: boolean[]
  readonly closed: Promise<boolean>
  drained(): Promise<void>
} {
  let drains = 0
  const closes: boolean[] = []
  let waiting: (() => void)[] = []
  const { promise, resolve } = Promise.withResolvers<boolean>()
  wire.listener = {
    drained() {
      drains++
      const woken = waiting
      waiting = []
      for (const wake of woken) wake()
    },
    stopping() {
      return undefined
    },
    closed(complete) {
      closes.push(complete)
      resolve(complete)
    }
  }
  return {
    get drains() {
      return drains
    },
    closes,
    closed: promise,
    drained: () =>
      new Promise(wake => {
        waiting.push(wake)
      })
  }
}
