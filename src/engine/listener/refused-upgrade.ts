import type { IncomingMessage } from 'node:http'
import { pipeline, Transform, type Readable, type TransformCallback } from 'node:stream'
import { UPSTREAM_FAILED, UPSTREAM_TIMEOUT } from '../operations/error-kinds.ts'
import { LongError } from '../operations/errors.ts'
import type { TunnelTarget } from '../message/wire.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'

/**
 * The body of a response other than 101, an ordinary one (RFC 9110 7.8), under the upstream's limits. Destroying it
 * closes the upstream; a failure destroys it with that error.
 */
export function refusedBody(
  response: IncomingMessage,
  { timeout, responseLimit }: Pick<TunnelTarget, 'timeout' | 'responseLimit'>,
  clock: Clock
): Readable {
  const body = new Limited(timeout, responseLimit, clock)
  pipeline(response, body, () => undefined)
  return body
}

class Limited extends Transform {
  readonly #timeout: number
  readonly #limit: number
  readonly #clock: Clock
  #size = 0
  #timer: Timer

  constructor(timeout: number, limit: number, clock: Clock) {
    super()
    this.#timeout = timeout
    this.#limit = limit
    this.#clock = clock
    this.#timer = this.#begin()
  }

  override _transform(piece: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#timer.cancel()
    this.#size += piece.byteLength
    if (this.#size > this.#limit) {
      done(
        new LongError(
          UPSTREAM_FAILED,
          'Bad gateway',
          `The upstream's answer to the upgrade is larger than ${this.#limit} bytes.`
        )
      )
      return
    }
    this.#timer = this.#begin()
    done(null, piece)
  }

  override _flush(done: TransformCallback): void {
    this.#timer.cancel()
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#timer.cancel()
    done(error)
  }

  #begin(): Timer {
    return this.#clock.after(this.#timeout, () => {
      // A client that does not read back-pressures the upstream.
      if (this.readableLength > 0) this.#timer = this.#begin()
      else
        this.destroy(
          new LongError(
            UPSTREAM_TIMEOUT,
            'Gateway timeout',
            'The upstream paused for too long in its answer to the upgrade.'
          )
        )
    })
  }
}
