import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onPath } from './machine.ts'

/** Which processor a process is held on; `null` leaves it to the kernel. */
export type Core = number | null

/** A process of the benchmark, with both of its outputs in files. */
export interface Child {
  readonly pid: number
  /** What it has written to standard output so far. */
  output(): string
  /** Why it has exited unexpectedly, with its last words; null while it runs. */
  fault(): string | null
  /** SIGTERM, and SIGKILL after five seconds; settles when it is gone. */
  stop(): Promise<void>
}

/** The folder of a run, outside the checkout; removed by `removeFolder`. */
export function makeFolder(): string {
  return mkdtempSync(join(tmpdir(), 'boltgate-bench-'))
}

/** Removes a run's folder with everything in it. */
export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
}

/** A command held on one core, where `taskset` (util-linux) is there to do it. */
export function pinned(core: Core, command: readonly string[]): readonly string[] {
  return core === null || onPath('taskset') === null ? command : ['taskset', '-c', String(core), ...command]
}

/**
 * Starts a program held on `core`. Its outputs go to `<name>.out` and `<name>.err` in `folder`: a pipe would make the
 * harness read what the program logs, on a core that is being measured.
 */
export function start(
  name: string,
  folder: string,
  core: Core,
  command: readonly string[],
  options: { env?: Record<string, string>; cwd?: string } = {}
): Child {
  const [file = '', ...args] = pinned(core, command)
  const outFile = join(folder, `${name}.out`)
  const errFile = join(folder, `${name}.err`)
  // Opened for appending, so that a file may be emptied while the program goes on writing.
  const out = openSync(outFile, 'a')
  const err = openSync(errFile, 'a')
  const stdio: StdioOptions = ['ignore', out, err]
  const child: ChildProcess = spawn(file, args, {
    stdio,
    cwd: options.cwd ?? folder,
    env: { ...process.env, ...options.env }
  })
  closeSync(out)
  closeSync(err)
  const closed = once(child, 'close')
  const { pid } = child
  if (pid === undefined) throw new Error(`${name} could not be started: ${file}`)
  const read = (path: string): string => readFileSync(path, 'utf8')
  const over = (): boolean => child.exitCode !== null || child.signalCode !== null
  const lastWords = (): string =>
    `${read(errFile)}\n${read(outFile)}`.trim().split('\n').slice(-6).join(' | ').slice(-600)
  return {
    pid,
    output: () => read(outFile),
    fault: () => (over() ? `ended with ${child.signalCode ?? `code ${child.exitCode ?? 0}`}: ${lastWords()}` : null),
    async stop() {
      if (over()) return
      child.kill('SIGTERM')
      const hard = setTimeout(() => {
        child.kill('SIGKILL')
      }, 5000)
      await closed
      clearTimeout(hard)
    }
  }
}

/** Asks `probe` every 50 ms until it gives a value. Throws when the child ends first, or after `seconds`. */
export async function until<T>(
  name: string,
  child: Child,
  seconds: number,
  probe: () => T | null | Promise<T | null>
): Promise<T> {
  const deadline = performance.now() + seconds * 1000
  for (;;) {
    const value = await probe()
    if (value !== null) return value
    const fault = child.fault()
    if (fault !== null) throw new Error(`${name} ${fault}`)
    if (performance.now() > deadline) throw new Error(`${name} was not ready within ${seconds} s`)
    await new Promise(resolve => {
      setTimeout(resolve, 50)
    })
  }
}

/** The port that a program of ours announces as `{"port":N}` on a line of its own. */
export async function announcedPort(name: string, child: Child): Promise<number> {
  return await until(name, child, 15, () => {
    const line = /\{"port":(\d+)\}/.exec(child.output())
    return line === null ? null : Number(line[1])
  })
}

/** A port on 127.0.0.1 that was free a moment ago, for programs that cannot choose one themselves. */
export async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A server that listens on a port has an address of this form.
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** Whether something answers HTTP at this address. */
export async function answers(url: string): Promise<true | null> {
  try {
    const answer = await fetch(url)
    await answer.arrayBuffer()
    return true
  } catch {
    // Not listening yet: retried by `until`, which knows when to give up.
    return null
  }
}
