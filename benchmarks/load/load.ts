import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { pinned, type Core } from '../rig/child.ts'
import { onPath, versionOf } from '../rig/machine.ts'
import type { Job } from './generator.ts'
import type { LoadRequest, LoadResult } from './request.ts'

const run = promisify(execFile)
const script = fileURLToPath(new URL('wrk.lua', import.meta.url))
const generator = fileURLToPath(new URL('generator.ts', import.meta.url))

/** Uncounted load at the beginning of a window of our own generator, in seconds. */
const LEAD = 0.5

/** One window of load on one target. */
export interface Window {
  readonly port: number
  readonly request: LoadRequest
  readonly connections: number
  readonly seconds: number
  /** First variation of the request to use, and how many requests end the window; null for none but its time. */
  readonly from: number
  readonly count: number | null
  /** The generator's core. */
  readonly core: Core
}

/** Makes load in both ways. */
export interface Load {
  /** What drives the closed loop, for the report. */
  readonly closedBy: string
  /** As much as the target takes: every connection asks again as soon as it is answered. */
  closed (window: Window): Promise<LoadResult>
  /** `rate` requests a second at intended times; latencies count from those. */
  open (window: Window, rate: number): Promise<LoadResult>
}

/** The generator could not do its work, mostly because the target is gone: the window is void. */
export class LoadFailed extends Error {
  override name = 'LoadFailed'
}

/** Load by wrk where it is installed, else by the generator here; the open loop is always by the latter. */
export function createLoad (folder: string): Load {
  const wrk = onPath('wrk')
  return {
    closedBy: wrk === null ? 'own generator (wrk is not on PATH)' : (/wrk \S+/.exec(versionOf(wrk, '-v'))?.[0] ?? 'wrk'),
    // wrk knows 2xx and 3xx alone as good, repeats one request, and counts time only.
    closed: window => wrk === null || window.count !== null || window.request.varied !== null || window.request.status !== 200 ? byGenerator(window, null) : byWrk(wrk, folder, window),
    open: byGenerator
  }
}

async function byWrk (wrk: string, folder: string, { port, request, connections, seconds, core }: Window): Promise<LoadResult> {
  // The headers go into a script: a token on a command line would stand in every process list.
  const file = join(folder, 'wrk-request.lua')
  const headers = Object.entries(request.headers).map(([name, value]) => `wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}\n`).join('')
  const body = request.body === null ? '' : `wrk.body = ${JSON.stringify(request.body)}\n`
  writeFileSync(file, `wrk.method = ${JSON.stringify(request.method)}\n${headers}${body}dofile(${JSON.stringify(script)})\n`)
  const [command = '', ...args] = pinned(core, [wrk, '-t1', `-c${connections}`, `-d${Math.max(1, Math.round(seconds))}s`, '--timeout', '5s', '-s', file, `http://127.0.0.1:${port}${request.path}`])
  return await resultOf(command, args)
}

async function byGenerator ({ port, request, connections, seconds, core, from, count }: Window, rate: number | null): Promise<LoadResult> {
  // Where requests are counted, all of them count: there are not enough for a lead.
  const job: Job = { host: '127.0.0.1', port, request, from, connections, seconds, rate, count, lead: count === null ? LEAD : 0 }
  const program = [process.execPath, generator, JSON.stringify(job)]
  // The open loop never sleeps. At a normal priority the scheduler would let it finish its slice of some milliseconds while
  // the upstream, on the same core, waits with an answer in hand.
  const [command = '', ...args] = pinned(core, rate === null ? program : ['nice', '-n', '19', ...program])
  return await resultOf(command, args)
}

async function resultOf (command: string, args: readonly string[]): Promise<LoadResult> {
  let output: string
  try {
    output = (await run(command, args)).stdout
  } catch (error) {
    throw new LoadFailed(`the generator gave up: ${(error instanceof Error ? error.message : String(error)).trim().split('\n').at(-1) ?? ''}`)
  }
  const line = output.trim().split('\n').findLast(text => text.startsWith('{'))
  if (line === undefined) throw new LoadFailed(`the generator gave no result: ${output.slice(0, 300)}`)
  // Both generators are ours and print this type.
  return JSON.parse(line) as LoadResult
}
