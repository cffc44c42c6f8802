import type { StreamBody, StreamSink } from './reply.ts'

/** What a stream needs of the request that it answers. */
export interface StreamWay {
  /** The client is gone, or the response was broken off. */
  gone(): boolean
  /** Writes the head where it has not been; throws when it cannot be written. */
  head(): void
  write(bytes: Uint8Array): boolean
  end(): void
  fail(error: Error): void
  /** Tells of an error that nobody else would see. */
  fault(error: unknown): void
}

/**
 * The body of a reply while it is written piece by piece. The head goes out with the first piece, or when the body is
 * open.
 */
export class ReplyStream implements StreamSink {
  onDrain: (() => void) | null = null
  onStopping: (() => void) | null = null
  readonly #way: StreamWay
  #stop: (() => void) | null = null
  #over = false

  constructor(way: StreamWay) {
    this.#way = way
  }

  /** Throws what the body or the head throws; then the stream is over, and its error is the caller's to answer. */
  open(body: StreamBody): void {
    try {
      const stop = body.open(this)
      // It may have ended already, while it was being opened.
      if (this.#over) this.#call(stop)
      else {
        this.#stop = stop
        this.#way.head()
      }
    } catch (error) {
      this.close()
      throw error
    }
  }

  write(piece: string | Uint8Array): boolean {
    if (this.#over) return false
    this.#way.head()
    // A pump that writes until it is told to wait must stop also when nobody is there any more.
    return this.#way.write(typeof piece === 'string' ? Buffer.from(piece) : piece) && !this.#way.gone()
  }

  end(): void {
    if (this.#over) return
    this.#way.head()
    this.#way.end()
    this.close()
  }

  fail(error: Error): void {
    if (this.#over) return
    this.#way.fail(error)
    this.close()
  }

  drained(): void {
    if (!this.#over) this.#call(this.onDrain)
  }

  stopping(): void {
    if (!this.#over) this.#call(this.onStopping)
  }

  /** The response is over, however it ended. */
  close(): void {
    this.#over = true
    const stop = this.#stop
    this.#stop = null
    this.#call(stop)
  }

  /** Nobody above knows this stream; what its author's function throws is told and harms nobody else. */
  #call(run: (() => void) | null): void {
    try {
      run?.()
    } catch (error) {
      this.#way.fault(error)
    }
  }
}
