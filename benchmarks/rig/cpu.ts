import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
const microsecondsPerTick = 1e6 / ticksPerSecond
/** Whether the kernel counts what each thread has run (CONFIG_SCHED_INFO). */
const keepsSchedstat = existsSync('/proc/self/schedstat')

interface Stat {
  readonly pid: number
  readonly parent: number
  /** Ticks of all its threads, living and ended, and of its children that have ended. */
  readonly own: number
  readonly reaped: number
  /** When it began, in ticks since the machine did: with the pid it names the process. */
  readonly began: number
}

/** What a line of /proc/<pid>/stat says (proc(5)). */
export function parseStat(pid: number, line: string): Stat {
  // The name in parentheses may hold spaces and parentheses, so fields are counted from its end; field 3 comes first.
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  const field = (number: number): number => Number(fields[number - 3])
  return { pid, parent: field(4), own: field(14) + field(15), reaped: field(16) + field(17), began: field(22) }
}

/** Microseconds on a processor, from a line of /proc/<pid>/task/<tid>/schedstat, whose first number is nanoseconds. */
export function parseSchedstat(line: string): number {
  return Number(line.slice(0, line.indexOf(' '))) / 1000
}

/** Null when the process has gone. */
function statOf(pid: number): Stat | null {
  try {
    return parseStat(pid, readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return null
  }
}

/** A process and all its living descendants. */
function treeOf(root: number): Stat[] {
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

/** The pids of a process and all its living descendants. */
export function pidsOfTree(root: number): number[] {
  return treeOf(root).map(({ pid }) => pid)
}

/**
 * Microseconds of the living threads of a process by the scheduler's own count; null where the kernel does not keep it.
 */
function threadsOf(pid: number): number | null {
  if (!keepsSchedstat) return null
  let used = 0
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) used += threadOf(pid, thread)
    return used
  } catch {
    // The process has gone.
    return null
  }
}

function threadOf(pid: number, thread: string): number {
  try {
    return parseSchedstat(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8'))
  } catch {
    // Ended since the folder was read: the ticks of its process have what it used.
    return 0
  }
}

/**
 * Adds up what a process's threads have used. The scheduler counts to the nanosecond, but only for threads that live;
 * the ticks of the whole process have those of ended threads too, and may lack up to one tick of user and one of kernel
 * time. So what the ticks have beyond the living threads is what ended ones used, and a difference of two readings is
 * off by two ticks at most, and by nothing where no thread has ended meanwhile.
 */
export class ProcessClock {
  #ended = 0
  #begun = false

  /**
   * CPU so far, in microseconds, from the living threads' (null when unknown) and from the ticks of the whole process.
   */
  read(threads: number | null, ticks: number, tick: number): number {
    if (threads === null) return ticks
    const beyond = ticks - threads
    if (!this.#begun || beyond > this.#ended + 2 * tick) this.#ended = Math.max(this.#ended, beyond)
    this.#begun = true
    return threads + this.#ended
  }
}

const clocks = new Map<string, ProcessClock>()

function cpuOf({ pid, own, began }: Stat): number {
  const key = `${pid} ${began}`
  let clock = clocks.get(key)
  if (clock === undefined) clocks.set(key, (clock = new ProcessClock()))
  return clock.read(threadsOf(pid), own * microsecondsPerTick, microsecondsPerTick)
}

/**
 * CPU time, in microseconds, that a process and all its living descendants have used so far, in user and kernel mode,
 * all threads included: to the microsecond, or where the kernel does not keep `schedstat`, in ticks of (mostly) 10 ms.
 */
export function cpuOfTree(root: number): number {
  return treeOf(root).reduce((sum, stat) => sum + cpuOf(stat), 0)
}

/** The same; null when the process has gone. */
export function runTimeOfTree(root: number): number | null {
  return statOf(root) === null ? null : cpuOfTree(root)
}

/** The same of one process without its descendants; 0 when it has gone. */
export function cpuOfProcess(pid: number): number {
  const stat = statOf(pid)
  return stat === null ? 0 : cpuOf(stat)
}

/**
 * CPU time, in microseconds, of everything that the harness has started and that still belongs to it: itself, targets,
 * upstream, databases, generators, with those that have ended.
 */
export function cpuOfRun(): number {
  // What a process has used goes over to its parent when it ends, so that the sum loses nothing.
  return treeOf(process.pid).reduce((sum, stat) => sum + cpuOf(stat) + stat.reaped * microsecondsPerTick, 0)
}

/** CPU time, in microseconds, that the whole machine has spent doing anything at all, stolen time included. */
export function cpuOfMachine(): number {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number)
  return (user + nice + system + irq + softirq + steal) * microsecondsPerTick
}
