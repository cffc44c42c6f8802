import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { pinned, type Core } from '../rig/child.ts'

/** Seconds for which the next line is waited for: more than any of them needs, on a slow machine. */
const PATIENCE = { holder: 60, echo: 60, flow: 900 }

/** A program of this folder that prints lines of JSON and ends on request. */
export interface Tool {
  /** The next line that it prints, parsed. Throws when it ends without one. */
  next(): Promise<Record<string, unknown>>
  /** Closes its standard input. */
  end(): void
  stop(): Promise<void>
}

/** Starts `holder`, `echo` or `flow` with its job, held on a core. */
export function startTool(name: 'holder' | 'echo' | 'flow', job: object, core: Core): Tool {
  const [command = '', ...args] = pinned(core, [
    process.execPath,
    fileURLToPath(new URL(`${name}.ts`, import.meta.url)),
    JSON.stringify(job)
  ])
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async next() {
      const patience = Promise.withResolvers<never>()
      const timer = setTimeout(() => {
        patience.reject(
          new Error(
            `${name} had nothing to say for ${PATIENCE[name]} s: the target did not answer all that it was asked`
          )
        )
      }, PATIENCE[name] * 1000)
      const line = await Promise.race([lines.next(), patience.promise]).finally(() => {
        clearTimeout(timer)
      })
      if (line.done === true) throw new Error(`${name} ended before it had said anything`)
      // All of them print objects.
      return JSON.parse(line.value) as Record<string, unknown>
    },
    end() {
      child.stdin.end()
    },
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
      await closed
    }
  }
}
