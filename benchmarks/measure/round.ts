import { LoadFailed } from '../load/generator-process.ts'
import type { Load, Window } from '../load/load.ts'
import type { LoadResult } from '../load/request.ts'
import type { Target } from '../peers/target.ts'
import { cpuOfMachine, cpuOfRun, cpuOfTree } from '../rig/cpu.ts'

/** Lateness of sending, in microseconds at the 99th percentile, above which that percentile is the generator's. */
const MAX_LATE = 1000
/** The same of the median, above which nothing of the window counts. */
const MAX_LATE_MEDIAN = 50
/** Share of its core that a proxy must have used for its requests a second to be its own limit. */
const SATURATED = 0.9

const NOTHING: LoadResult = {
  requests: 0,
  seconds: 0,
  refused: 0,
  broken: 0,
  sent: 0,
  latency: { p50: 0, p99: 0, p999: 0 }
}

/** One window on one target. */
export interface Sample extends LoadResult {
  /** Why the window does not count; absent when it does. */
  readonly void?: string
  /** Why its median counts and its tail does not; absent when both do, or neither. */
  readonly tailVoid?: string
  /** CPU microseconds of the target's processes for each request; null for the bare upstream. */
  readonly cpuPerRequest: number | null
  /** Closed loop: whether the proxy, and not the generator, was the limit. */
  readonly saturated: boolean
  /**
   * CPU that this machine spent meanwhile on what is no part of the run, as a share of one core: other programs, the
   * kernel's own work, and time stolen by the host.
   */
  readonly foreign: number
}

/** What is said of an open loop's window whose target did not take its rate. */
export const UNSENT = 'requests were never sent'

/** Why a window does not count, or null. */
export function voidReason(result: LoadResult, rate: number | null): string | null {
  if (result.requests === 0) return 'no answer'
  if (result.refused > 0) return `${result.refused} answers had another status`
  if (result.broken > 0) return `${result.broken} requests broke`
  if (rate === null) return null
  if ((result.unsent ?? 0) > 0) return `${result.unsent ?? 0} ${UNSENT}, since no connection was free`
  const late = result.lateMedian ?? 0
  return late > MAX_LATE_MEDIAN ? `the generator fell behind: ${Math.round(late)} µs late at the median` : null
}

/** Why the tail of a window that counts does not, or null. */
export function tailVoidReason({ late = 0 }: LoadResult): string | null {
  return late > MAX_LATE ? `the generator fell behind: ${Math.round(late)} µs late at p99` : null
}

/** Loads a target for one window, closed loop when `rate` is null, and counts what its processes used. */
export async function measure(load: Load, target: Target, window: Window, rate: number | null): Promise<Sample> {
  const cpu = (): number => (target.pid === null ? 0 : cpuOfTree(target.pid))
  const others = (): number => cpuOfMachine() - cpuOfRun()
  const read = () => ({ cpu: cpu(), others: others(), at: performance.now() })
  let before = read()
  // Connections are opened before, and they are no part of a request.
  const begin = (): void => {
    before = read()
  }
  let failure: string | null = null
  let result = NOTHING
  try {
    result = rate === null ? await load.closed(window, begin) : await load.open(window, rate, begin)
  } catch (error) {
    if (!(error instanceof LoadFailed)) throw error
    failure = error.message
  }
  const after = read()
  const used = after.cpu - before.cpu
  const reason = target.fault() ?? failure ?? voidReason(result, rate)
  const tail = reason === null ? tailVoidReason(result) : null
  return {
    ...result,
    ...(reason === null ? {} : { void: reason }),
    ...(tail === null ? {} : { tailVoid: tail }),
    cpuPerRequest: target.pid === null || result.requests === 0 ? null : used / result.requests,
    saturated: result.seconds > 0 && used / (result.seconds * 1e6) >= SATURATED,
    foreign: Math.max(0, (after.others - before.others) / ((after.at - before.at) * 1000))
  }
}
