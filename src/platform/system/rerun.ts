/**
 * Runs a task one at a time. A request during a run triggers one more: the current run may have read before the change.
 */
export class Rerun {
  readonly #task: () => Promise<void>
  #again = false
  #running: Promise<void> | null = null

  constructor(task: () => Promise<void>) {
    this.#task = task
  }

  /** Resolves when a run that began after this call has ended; rejects when the task does. */
  run(): Promise<void> {
    this.#again = true
    return (this.#running ??= this.#run())
  }

  async ended(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    try {
      do {
        this.#again = false
        await this.#task()
      } while (this.#again)
    } finally {
      // In the same step as the last check: a request in between would otherwise never run.
      this.#running = null
    }
  }
}
