import cluster, { type Worker } from 'node:cluster'

/** Set for workers that start before the supervisor's database work is done. */
const PENDING = 'BOLTGATE_FIRST_WORK_PENDING'
const QUESTION = 'boltgate: is the first work done?'
const ANSWER = 'boltgate: the first work is done'

/** The supervisor's startup work (tables, keys, first merchant) and its notification of workers. */
export class FirstWork {
  readonly #waiting = new Set<Worker>()
  #isDone = false

  done(): void {
    this.#isDone = true
    for (const worker of this.#waiting) answer(worker)
    this.#waiting.clear()
  }

  /** Environment of a forked worker. */
  get environment(): Readonly<Record<string, string>> {
    return this.#isDone ? {} : { [PENDING]: '1' }
  }

  /** Notifies the worker once done, even if it asks later. */
  tell(worker: Worker): void {
    worker.on('message', message => {
      if (message !== QUESTION) return
      if (this.#isDone) answer(worker)
      else this.#waiting.add(worker)
    })
    worker.on('exit', () => {
      this.#waiting.delete(worker)
    })
  }
}

function answer(worker: Worker): void {
  if (worker.isConnected()) worker.send(ANSWER)
}

/** Whether this process must wait for its supervisor; `done` is called afterward. */
export function awaitsFirstWork(done: () => void): boolean {
  if (!cluster.isWorker || process.env[PENDING] === undefined) return false
  const hear = (message: unknown): void => {
    if (message !== ANSWER) return
    process.off('message', hear)
    done()
  }
  process.on('message', hear)
  process.send?.(QUESTION)
  return true
}
