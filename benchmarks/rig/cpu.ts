import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
const microsecondsPerTick = 1e6 / ticksPerSecond

interface Stat { readonly pid: number, readonly parent: number, readonly own: number, readonly reaped: number }

/** One line of /proc/<pid>/stat (proc(5)); null when the process has gone. */
function statOf (pid: number): Stat | null {
  let line: string
  try {
    line = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return null
  }
  // The name in parentheses may hold spaces and parentheses, so fields are counted from its end; field 3 comes first.
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  const field = (number: number): number => Number(fields[number - 3])
  return { pid, parent: field(4), own: field(14) + field(15), reaped: field(16) + field(17) }
}

/** A process and all its living descendants. */
function treeOf (root: number): Stat[] {
  const all: Stat[] = []
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : null
    if (stat !== null) all.push(stat)
  }
  const wanted = new Set([root])
  for (let size = 0; size !== wanted.size;) {
    size = wanted.size
    for (const { pid, parent } of all) if (wanted.has(parent)) wanted.add(pid)
  }
  return all.filter(({ pid }) => wanted.has(pid))
}

/**
 * CPU time, in microseconds, that a process and all its living descendants have used so far, in user and kernel mode,
 * all threads included. The kernel counts in ticks of (mostly) 10 ms: a window of three seconds is good to about 0.3 %.
 */
export function cpuOfTree (root: number): number {
  let ticks = 0
  for (const { own } of treeOf(root)) ticks += own
  return ticks * microsecondsPerTick
}

/**
 * The same for processes of one thread, from the scheduler's own count, which is good to the microsecond: for short windows. Null
 * where the kernel does not keep it.
 */
export function runTimeOfTree (root: number): number | null {
  let nanoseconds = 0
  for (const { pid } of treeOf(root)) {
    try {
      nanoseconds += Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0])
    } catch {
      // Ended meanwhile, or a kernel without it.
      if (pid === root) return null
    }
  }
  return nanoseconds / 1000
}

/** CPU time, in microseconds, that threads of this name have used in a process; the kernel keeps 15 characters of a name. */
export function cpuOfThreads (pid: number, name: string): number {
  let ticks = 0
  let threads: string[]
  try {
    threads = readdirSync(`/proc/${pid}/task`)
  } catch {
    // The process has gone, and its threads with it.
    return 0
  }
  for (const thread of threads) {
    try {
      const line = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')
      const end = line.lastIndexOf(')')
      if (line.slice(line.indexOf('(') + 1, end) !== name.slice(0, 15)) continue
      const fields = line.slice(end + 2).split(' ')
      ticks += Number(fields[11]) + Number(fields[12])
    } catch {
      // Ended meanwhile.
    }
  }
  return ticks * microsecondsPerTick
}

/** CPU time, in microseconds, of the harness itself and of its children that have ended, such as load generators. */
export function cpuOfHarness (): number {
  const stat = statOf(process.pid)
  return stat === null ? 0 : (stat.own + stat.reaped) * microsecondsPerTick
}

/** CPU time, in microseconds, that the whole machine has spent doing anything at all, stolen time included. */
export function cpuOfMachine (): number {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.trim().split(/\s+/).slice(1).map(Number)
  return (user + nice + system + irq + softirq + steal) * microsecondsPerTick
}
