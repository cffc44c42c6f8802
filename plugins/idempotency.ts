import { hash } from 'node:crypto'
import {
  definePlugin,
  idempotencyKeyReused,
  KeptResponse,
  List,
  requestInProgress,
  ShortError,
  StateUnavailable,
  Type,
  Unavailable,
  type Context,
  type ReadonlyHeaders,
  type ReplayRecord,
  type Timer,
  type Reply,
  VALIDATION
} from '../src/index.ts'

const longestKey = 256
/** Renewals per claim TTL: one may be late or fail. */
const HEARTBEATS = 4

/** Claim of a running keyed request, with its response so far. */
interface Claim {
  readonly heartbeat: Timer
  readonly kept: KeptResponse
}

/** Key of a request: the standard header wins, blank ones do not count (decision 20). */
function keyOf(headers: ReadonlyHeaders): string | null {
  const key = headers.get('idempotency-key')?.trim()
  if (key !== undefined && key !== '') return key
  const older = headers.get('x-idempotency-key')?.trim()
  return older === undefined || older === '' ? null : older
}

function replay(record: ReplayRecord): Reply {
  return {
    status: record.status,
    headers: [...record.headers.flat(), 'X-Idempotency-Replayed', 'true'],
    body: record.body.byteLength === 0 ? null : record.body
  }
}

/** Milliseconds for which a response is replayed (contract, Limits). */
const KEEP = 86_400_000
/** Milliseconds that a repetition waits for the first request. */
const WAIT = 30_000
/** Milliseconds until the claim of a dead worker lapses; running requests renew theirs. */
const LOCK = 10_000

/**
 * Replays the first response to repeated requests (contract, Limits; decisions 18 to 20). Fails closed: unrecorded
 * requests might move money twice.
 */
export default definePlugin({
  name: 'idempotency',
  description:
    'Requests with an Idempotency-Key (or X-Idempotency-Key) run once for each principal, method, path and key. A retry gets the first response, byte for byte, with X-Idempotency-Replayed: true. Only 2xx responses are kept. The same key with another body is 400. A retry during the first request waits for it. While Redis is down such requests are 503. Refunds, payments and checkout sessions store their key with their row, so a retry after a restart finds the original. Requests without a key or without a principal pass.',
  config: Type.Object(
    {
      methods: List(Type.String({ 'x-format': 'method' }), {
        default: ['POST'],
        description: 'Methods for which a key counts.'
      })
    },
    { additionalProperties: false, description: 'Which responses are given again.' }
  ),
  uses: ['state', 'clock', 'log'],
  needs: ['principal'],
  provides: ['idempotency'],
  setup(config, { services: { state, clock, log }, slot }) {
    const claimed = slot<Claim>('claim')
    const methods = new Set<string>(config.methods)

    const failing = (correlationId: string) => (error: unknown) => {
      log.warn({ err: error, correlationId }, 'an idempotent response or its claim could not be kept')
    }

    const claim = async (ctx: Context, key: string, scope: string): Promise<void | Reply> => {
      const fingerprint = hash('sha256', await ctx.body.bytes())
      ctx.idempotency = { key, fingerprint }
      const deadline = clock.monotonic() + WAIT
      for (;;) {
        const begun = await state.begin(scope, fingerprint, LOCK)
        switch (begun.kind) {
          case 'run': {
            const { token } = begun
            const failed = failing(ctx.correlationId)
            ctx.set(claimed, {
              kept: new KeptResponse({ state, key: scope, token, failed }),
              heartbeat: clock.every(LOCK / HEARTBEATS, () => {
                const extended = state.extend(scope, token, LOCK)
                if (extended instanceof Promise) extended.catch(failed)
              })
            })
            return
          }
          case 'replay':
            return replay(begun.record)
          case 'conflict':
            throw idempotencyKeyReused()
          case 'running':
            break
        }
        const left = deadline - clock.monotonic()
        if (left <= 0) throw requestInProgress()
        const waited = await state.waitFor(scope, left)
        if (waited.kind === 'replay') return replay(waited.record)
        if (waited.kind === 'timeout') throw requestInProgress()
      }
    }

    const guarded = async (ctx: Context, key: string, scope: string): Promise<void | Reply> => {
      try {
        return await claim(ctx, key, scope)
      } catch (error) {
        if (!(error instanceof StateUnavailable)) throw error
        throw new Unavailable(
          'Service unavailable',
          'Idempotent requests cannot be recorded at the moment, so this one was not run. Try again shortly.',
          5,
          {},
          error
        )
      }
    }

    return {
      request(ctx) {
        const { principal } = ctx
        if (principal === null || !methods.has(ctx.method)) return
        const key = keyOf(ctx.headers)
        if (key === null) return
        if (key.length > longestKey)
          throw new ShortError(VALIDATION, `Idempotency key must not exceed ${longestKey} characters.`)
        // No part before the key contains a space, so scopes are unambiguous.
        return guarded(ctx, key, `${principal.kind} ${principal.id} ${ctx.method} ${ctx.path} ${key}`)
      },
      response(ctx, head) {
        const claim = ctx.get(claimed)
        // Streams are not replayed.
        if (claim === undefined || head.source === 'error' || head.source === 'stream') return
        // Replayed from its row: its TTL must not restart.
        if (head.headers.get('x-idempotency-replayed') !== undefined) return
        if (head.status >= 200 && head.status <= 299) claim.kept.head(head)
      },
      chunk(ctx, bytes) {
        ctx.get(claimed)?.kept.chunk(bytes)
      },
      done(ctx, outcome) {
        const claim = ctx.get(claimed)
        claim?.heartbeat.cancel()
        claim?.kept.done(outcome, KEEP)
      }
    }
  }
})
