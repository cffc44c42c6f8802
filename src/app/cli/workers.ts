import cluster, { type Worker } from 'node:cluster'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { removeUnserved } from '../../engine/listener/acceptors.ts'
import type { Log } from '../../platform/telemetry/log.ts'

/** Delay before a worker is replaced, so that crashes do not spin. */
const FIRST_REPLACE_MS = 1_000
/** Longest delay; doubled while replacements end before serving. */
const LAST_REPLACE_MS = 30_000

/**
 * Runs `server.workers` processes on one port, replaces dead ones, forwards SIGHUP, and drains all on SIGTERM, SIGINT
 * or SIGQUIT. Resolves with exit code 0 after a signal. Rejects when no worker ever listened, as with a port in use:
 * retrying would not help.
 */
export async function superviseWorkers(config: GatewayConfig, log: Log, firstWork: FirstWork): Promise<number> {
  let ending: 'stopped' | 'failed' | null = null
  let everListened = false
  let replaceAfter = FIRST_REPLACE_MS
  const { promise, resolve, reject } = Promise.withResolvers<number>()

  const each = (run: (worker: Worker) => void): void => {
    for (const worker of Object.values(cluster.workers ?? {})) if (worker !== undefined) run(worker)
  }
  const end = (why: 'stopped' | 'failed'): void => {
    ending ??= why
    each(worker => {
      worker.process.kill('SIGTERM')
    })
    finish()
  }
  const finish = (): void => {
    if (ending === null || Object.keys(cluster.workers ?? {}).length > 0) return
    if (ending === 'stopped') resolve(0)
    else reject(new Error('The workers ended before they could listen; giving up. Their own lines say why.'))
  }
  const fork = (): void => {
    const worker = cluster.fork(firstWork.environment)
    firstWork.tell(worker)
    worker.on('listening', () => {
      everListened = true
      replaceAfter = FIRST_REPLACE_MS
    })
    worker.on('error', error => {
      log.error({ err: error, worker: worker.id }, 'a worker could not be started')
    })
  }
  cluster.on('exit', (worker: Worker, code: number, signal: string | null) => {
    const ended = { worker: worker.id, pid: worker.process.pid, code, signal }
    if (ending !== null) return finish()
    if (!everListened && signal === null) {
      log.error(ended, 'a worker ended before it could listen')
      return end('failed')
    }
    log.error({ ...ended, replaceMs: replaceAfter }, 'a worker ended and is replaced')
    setTimeout(() => {
      if (ending === null) fork()
    }, replaceAfter)
    replaceAfter = Math.min(LAST_REPLACE_MS, replaceAfter * 2)
  })
  process.on('SIGHUP', () => {
    each(worker => {
      worker.process.kill('SIGHUP')
    })
  })
  for (const name of ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const)
    process.once(name, () => {
      end('stopped')
    })
  // A worker cannot tell such a file from the socket of another worker.
  for (const address of config.server.addresses) await removeUnserved(address)
  for (let index = 0; index < config.server.workers; index++) fork()
  log.info({ workers: config.server.workers, publicUrl: config.server.publicUrl }, 'workers started')
  return await promise
}

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
