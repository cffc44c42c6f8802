import cluster, { type Worker } from 'node:cluster'

/** Set for workers that begin before the supervisor has done its work at the database. */
const PENDING = 'BOLTGATE_FIRST_WORK_PENDING'
const QUESTION = 'boltgate: is the first work done?'
const ANSWER = 'boltgate: the first work is done'

/** What the supervisor does before anybody serves (tables, keys, the first merchant), as its workers hear of it. */
export class FirstWork {
  readonly #waiting = new Set<Worker>()
  #isDone = false

  /** Tells all workers that wait. */
  done(): void {
    this.#isDone = true
    for (const worker of this.#waiting) answer(worker)
    this.#waiting.clear()
  }

  /** The environment that a worker is forked with. */
  get environment(): Readonly<Record<string, string>> {
    return this.#isDone ? {} : { [PENDING]: '1' }
  }

  /** Answers the worker once it is done, whenever the worker asks. */
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

/** Whether this process has to wait for its supervisor's first work; `done` is called once that is done. */
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
