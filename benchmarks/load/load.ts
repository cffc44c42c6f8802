import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { pinned, type Core } from '../rig/child.ts'
import { onPath, versionOf } from '../rig/machine.ts'
import { GeneratorProcess, LoadFailed } from './generator-process.ts'
import type { LoadRequest, LoadResult } from './request.ts'

const run = promisify(execFile)
const script = fileURLToPath(new URL('wrk.lua', import.meta.url))

/** Uncounted load at the beginning of a window of the open loop, in seconds. */
const LEAD = 0.1

/** One window of load on one target. */
export interface Window {
  readonly port: number
  readonly request: LoadRequest
  readonly connections: number
  readonly seconds: number
  /** First variation of the request to use, and how many requests end the window; null for none but its time. */
  readonly from: number
  readonly count: number | null
  /** The core of wrk; our own generator stays where it was started. */
  readonly core: Core
}

/** Called just before the first request of a window, to read counters. */
export type Begin = () => void

/** Makes load in both ways. */
export interface Load {
  /** What drives the closed loop, for the report. */
  readonly closedBy: string
  /** As much as the target takes: every connection asks again as soon as it is answered. @throws LoadFailed */
  closed(window: Window, begin?: Begin): Promise<LoadResult>
  /** `rate` requests a second at intended times; latencies count from those. @throws LoadFailed */
  open(window: Window, rate: number, begin?: Begin): Promise<LoadResult>
  /** Ends the generator. */
  stop(): Promise<void>
}

/**
 * Load by wrk where it is installed, else by the generator here, which is held on `core`; the open loop is always by
 * the latter.
 * `yields`: see `GeneratorProcess`.
 */
export function createLoad(folder: string, core: Core, yields = true): Load {
  const wrk = onPath('wrk')
  const generator = new GeneratorProcess(core, yields)
  const generated = (
    { port, request, connections, seconds, from, count }: Window,
    rate: number | null,
    begin?: Begin
  ): Promise<LoadResult> =>
    generator.run(
      { host: '127.0.0.1', port, request, from, connections, seconds, rate, count, lead: rate === null ? 0 : LEAD },
      begin
    )
  return {
    closedBy:
      wrk === null ? 'own generator (wrk is not on PATH)' : (/wrk \S+/.exec(versionOf(wrk, '-v'))?.[0] ?? 'wrk'),
    // wrk knows 2xx and 3xx alone as good, repeats one request, and counts time only.
    closed: (window, begin) =>
      wrk === null || window.count !== null || window.request.varied !== null || window.request.status !== 200
        ? generated(window, null, begin)
        : byWrk(wrk, folder, window, begin),
    open: generated,
    stop: () => generator.stop()
  }
}

async function byWrk(
  wrk: string,
  folder: string,
  { port, request, connections, seconds, core }: Window,
  begin?: Begin
): Promise<LoadResult> {
  // The headers go into a script: a token on a command line shows up in every process list.
  const file = join(folder, `wrk-${port}.lua`)
  const headers = Object.entries(request.headers)
    .map(([name, value]) => `wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}\n`)
    .join('')
  const body = request.body === null ? '' : `wrk.body = ${JSON.stringify(request.body)}\n`
  writeFileSync(
    file,
    `wrk.method = ${JSON.stringify(request.method)}\n${headers}${body}dofile(${JSON.stringify(script)})\n`
  )
  const [command = '', ...args] = pinned(core, [
    wrk,
    '-t1',
    `-c${connections}`,
    `-d${Math.max(1, Math.round(seconds))}s`,
    '--timeout',
    '5s',
    '-s',
    file,
    `http://127.0.0.1:${port}${request.path}`
  ])
  begin?.()
  let output: string
  try {
    output = (await run(command, args)).stdout
  } catch (error) {
    throw new LoadFailed(
      `wrk gave up: ${(error instanceof Error ? error.message : String(error)).trim().split('\n').at(-1) ?? ''}`
    )
  }
  const line = output
    .trim()
    .split('\n')
    .findLast(text => text.startsWith('{'))
  if (line === undefined) throw new LoadFailed(`wrk gave no result: ${output.slice(0, 300)}`)
  // wrk.lua is ours and prints this type.
  return JSON.parse(line) as LoadResult
}
