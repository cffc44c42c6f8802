import { Worker } from 'node:worker_threads'
import type { InvoiceTerms } from '../../lightning/bolt11.ts'
import type { FromThread, ToThread } from './signer-thread.ts'

// Type stripping runs this file as .ts, the built package as .js; the thread's file stands beside it either way.
const threadFile = new URL(`./signer-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)

/** The thread ended before it answered. The next call starts another. */
export class SignerStopped extends Error {
  override name = 'SignerStopped'
}

interface Waiting {
  readonly resolve: (invoice: string) => void
  readonly reject: (error: Error) => void
}

/**
 * Signs invoices in a thread of its own: one signature takes most of a millisecond, which would stop every stream of
 * the gateway's event loop. The thread starts at the first call.
 */
export class InvoiceSigner {
  readonly #privateKey: Uint8Array
  #thread: Worker | null = null
  readonly #waiting = new Map<number, Waiting>()
  #last = 0
  #closed = false

  /** `privateKey` is the node's, 32 bytes. */
  constructor(privateKey: Uint8Array) {
    this.#privateKey = privateKey
  }

  /**
   * Writes and signs an invoice.
   * @throws SignerStopped; InvoiceError's message as an Error when the terms cannot be written
   */
  sign(terms: InvoiceTerms): Promise<string> {
    if (this.#closed) return Promise.reject(new SignerStopped('The signer is closed'))
    const thread = (this.#thread ??= this.#start())
    const id = ++this.#last
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      // A thread that waits for work must not keep the process alive; one that works must.
      thread.ref()
      const message: ToThread = { id, terms }
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a worker thread, not a window
      thread.postMessage(message)
    })
  }

  /** Ends the thread; what still waits fails with SignerStopped. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#thread?.terminate()
  }

  #start(): Worker {
    const thread = new Worker(threadFile, { workerData: this.#privateKey, execArgv: [], name: 'invoice-signer' })
    thread.on('message', (answer: FromThread) => {
      const waiting = this.#waiting.get(answer.id)
      this.#waiting.delete(answer.id)
      if (this.#waiting.size === 0) thread.unref()
      if ('invoice' in answer) waiting?.resolve(answer.invoice)
      else waiting?.reject(new Error(answer.error))
    })
    thread.on('error', (error: unknown) => {
      this.#stopped(thread, error)
    })
    thread.on('exit', () => {
      this.#stopped(thread, null)
    })
    return thread
  }

  #stopped(thread: Worker, cause: unknown): void {
    if (this.#thread !== thread) return
    this.#thread = null
    const error = new SignerStopped('The signing thread ended', { cause })
    for (const waiting of this.#waiting.values()) waiting.reject(error)
    this.#waiting.clear()
  }
}
