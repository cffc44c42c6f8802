import type { StreamBody, StreamSink } from './reply.ts'

interface StreamWay {
  gone(): boolean
  head(): void
  write(bytes: Uint8Array): boolean
  end(): void
  fail(error: Error): void
  /** Reports an error that has no other handler. */
  fault(error: unknown): void
}

/** Streams the body of a reply. The head leaves with the first piece, or once the body is open. */
export class ReplyStream implements StreamSink {
  onDrain: (() => void) | null = null
  onStopping: (() => void) | null = null
  readonly #way: StreamWay
  #stop: (() => void) | null = null
  #over = false

  constructor(way: StreamWay) {
    this.#way = way
  }

  /** Rethrows errors of the body or the head; the stream is then over, and the caller answers the error. */
  open(body: StreamBody): void {
    try {
      const stop = body.open(this)
      // It may have ended while it was being opened.
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
    // A pump that writes until told to wait must also stop when the client is gone.
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

  close(): void {
    this.#over = true
    const stop = this.#stop
    this.#stop = null
    this.#call(stop)
  }

  /** Reports what the body's callbacks throw; they have no other handler. */
  #call(run: (() => void) | null): void {
    try {
      run?.()
    } catch (error) {
      this.#way.fault(error)
    }
  }
}
