import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { pinned, type Core } from '../rig/child.ts'
import type { Job } from './generator.ts'
import type { LoadResult } from './request.ts'

const program = fileURLToPath(new URL('generator.ts', import.meta.url))

/** The generator could not do its work, mostly because the target is gone: the window is void. */
export class LoadFailed extends Error {
  override name = 'LoadFailed'
}

interface Running {
  readonly child: ChildProcessWithoutNullStreams
  readonly lines: AsyncIterator<string>
}

/**
 * The generator as a process that serves one job after another, so that it is compiled and its windows are as long as
 * they say. It is started by the first job, and again by the next one after it has died.
 */
export class GeneratorProcess {
  readonly #core: Core
  readonly #yields: boolean
  #running: Running | null = null
  // Jobs wait for the one before.
  #last: Promise<unknown> = Promise.resolve()

  /**
   * `yields`: whether it gives way to other programs of its core, for the upstream's sake where that has no precedence
   * of its own.
   */
  constructor(core: Core, yields: boolean) {
    this.#core = core
    this.#yields = yields
  }

  /** Runs a job. `begin` is called when its connections are open, just before the first request. @throws LoadFailed */
  async run(job: Job, begin: () => void = () => {}): Promise<LoadResult> {
    const before = this.#last
    const mine = before.then(() => this.#serve(job, begin))
    this.#last = mine.catch(() => {})
    return await mine
  }

  async stop(): Promise<void> {
    const running = this.#running
    this.#running = null
    if (running === null || running.child.exitCode !== null || running.child.signalCode !== null) return
    const { promise, resolve } = Promise.withResolvers<void>()
    running.child.once('close', () => {
      resolve()
    })
    running.child.kill('SIGKILL')
    await promise
  }

  #start(): Running {
    // The open loop never sleeps. At a normal priority the scheduler would let it finish its slice of some milliseconds
    // while the upstream, on the same core, waits with an answer in hand.
    const node = [process.execPath, program]
    const [command = '', ...args] = pinned(this.#core, this.#yields ? ['nice', '-n', '19', ...node] : node)
    const child = spawn(command, args)
    child.stderr.pipe(process.stderr)
    // A line to a generator that died meanwhile shows up as its exit.
    child.stdin.on('error', () => {})
    return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() }
  }

  async #serve(job: Job, begin: () => void): Promise<LoadResult> {
    const running = (this.#running ??= this.#start())
    const answer = async (line: string): Promise<object> => {
      running.child.stdin.write(`${line}\n`)
      const said = await running.lines.next()
      if (said.done === true) {
        this.#running = null
        throw new LoadFailed('the generator ended')
      }
      // What it prints is an object; see generator.ts.
      const value = JSON.parse(said.value) as object
      if ('failed' in value) throw new LoadFailed(`the generator gave up: ${String(value.failed)}`)
      return value
    }
    await answer(JSON.stringify(job))
    begin()
    // After its ready, the generator says a result or that it failed.
    return (await answer('go')) as LoadResult
  }
}
