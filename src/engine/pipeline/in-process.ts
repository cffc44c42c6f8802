import { currentLanguage, speaking } from '../formats/language.ts'
import { Context, type Principal, NO_ROUTE } from '../message/context.ts'
import { HeaderList } from '../message/headers.ts'
import { WholeBody } from '../message/request-body.ts'
import { isStreamBody, type WholeReply } from '../message/reply.ts'
import { asGatewayError, errorReply, notFound, type GatewayError } from '../operations/errors.ts'
import type { ChainProgress } from './chain.ts'
import type { ExchangeEvents } from './exchange.ts'
import type { CompiledRoute } from './snapshot.ts'

export interface InProcessRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly target: string
  /** Sent as JSON; omit for none. */
  readonly body?: unknown
  readonly headers?: readonly string[]
}

/**
 * The context of an in-process API call by a page, with the page's session. `internal` tells plugins that the page's
 * request was already counted, measured and logged. `principal` reuses the caller of the page's chain; null looks the
 * session up again.
 * @throws TypeError for a change from a read-only page: a link can lead to it (decision 322)
 */
export class InternalContext extends Context {
  constructor(
    page: Context,
    { method, target, body, headers = [] }: InProcessRequest,
    principal: Principal | null = null
  ) {
    if (method !== 'GET' && (page.method === 'GET' || page.method === 'HEAD'))
      throw new TypeError(`a page that is only read asks for ${method} ${target}`)
    const bytes = body === undefined ? null : Buffer.from(JSON.stringify(body))
    const cookie = page.headers.all('cookie').flatMap(value => ['Cookie', value])
    const sent = ['Host', page.host, 'Accept', 'application/json', 'Sec-Fetch-Site', 'same-origin', ...cookie]
    if (bytes !== null) sent.push('Content-Type', 'application/json', 'Content-Length', String(bytes.byteLength))
    super(
      {
        method,
        target,
        headers: new HeaderList([...sent, ...headers]),
        host: page.host,
        body: new WholeBody(bytes ?? undefined),
        peerAddress: page.peerAddress,
        clientAddress: page.clientAddress,
        secure: page.secure,
        httpVersion: '1.1',
        upgrade: null,
        expectsContinue: false,
        correlationId: page.correlationId,
        now: page.now,
        startedAt: page.startedAt
      },
      NO_ROUTE
    )
    this.principal = principal
  }

  override get internal(): boolean {
    return true
  }
}

/**
 * Runs the route's chain and the operation without a connection: reads in the page's language, and changes in English,
 * whose texts may be stored. Errors are answered too. Never rejects.
 */
export async function replyInProcess(...request: Parameters<typeof reply>): Promise<WholeReply> {
  return await speaking(request[0].method === 'GET' ? currentLanguage() : 'en', () => reply(...request))
}

async function reply(ctx: Context, { chain, operations }: CompiledRoute, events: ExchangeEvents): Promise<WholeReply> {
  const progress: ChainProgress = { next: 0, stopped: false }
  let error: GatewayError | null = null
  let reply: WholeReply
  try {
    if (operations === null) throw notFound()
    const { status, headers, body } = (await chain.enter(ctx, progress)) ?? (await operations.handle(ctx))
    if (isStreamBody(body)) throw new TypeError(`a page reads the stream of ${ctx.target}`)
    reply = { status, headers, body }
    await chain.leave(ctx, { status, headers: new HeaderList([...headers]), source: 'reply' }, progress)
    if (chain.watchesChunks && body !== null) await chain.chunk(ctx, Buffer.from(body), progress)
  } catch (cause) {
    error = asGatewayError(cause)
    if (error.status >= 500) events.fault(ctx, error)
    reply = errorReply(error, { correlationId: ctx.correlationId, now: events.now(), mode: events.mode })
  }
  const outcome = {
    status: reply.status,
    source: error === null ? 'reply' : 'error',
    headSent: true,
    delivered: true,
    bytesIn: ctx.body.received,
    bytesOut: reply.body?.length ?? 0,
    duration: events.monotonic() - ctx.startedAt,
    error
  } as const
  chain.settle(ctx, outcome, progress, fault => {
    events.fault(ctx, fault instanceof Error ? fault : new Error(String(fault)))
  })
  return reply
}
