import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { pinned, type Core } from '../rig/child.ts'

/** A program of this folder that runs, says lines of JSON, and ends when told to. */
export interface Tool {
  /** The next line that it prints, parsed. Throws when it ends without one. */
  next (): Promise<Record<string, unknown>>
  /** Closes its standard input. */
  end (): void
  stop (): Promise<void>
}

/** Starts `holder` or `echo` with its job, held on a core. */
export function startTool (name: 'holder' | 'echo', job: object, core: Core): Tool {
  const [command = '', ...args] = pinned(core, [process.execPath, fileURLToPath(new URL(`${name}.ts`, import.meta.url)), JSON.stringify(job)])
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async next () {
      const line = await lines.next()
      if (line.done === true) throw new Error(`${name} ended before it had said anything`)
      // Both programs print objects.
      return JSON.parse(line.value) as Record<string, unknown>
    },
    end () { child.stdin.end() },
    async stop () {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
      await closed
    }
  }
}
