/**
 * Runs a task one at a time. Asked for while it runs, it runs once more afterwards: the run under way may have read
 * before the change that it is asked for.
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

  /** Resolves when nothing is under way. */
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
      // In one step with the last look at what was asked for: what is asked for in between would never be run.
      this.#running = null
    }
  }
}
