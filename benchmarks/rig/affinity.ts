import { execFile, execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { promisify } from 'node:util'
import { pidsOfTree } from './cpu.ts'
import { onPath } from './machine.ts'

const run = promisify(execFile)

/**
 * Moves running processes, with all their threads and descendants, to these processors (a list as `taskset` takes it,
 * such as `0` or `0-1`). Does nothing where `taskset` is missing.
 */
export async function moveTrees(roots: readonly number[], cores: string): Promise<void> {
  if (onPath('taskset') === null || roots.length === 0) return
  const pids = roots.flatMap(pidsOfTree).map(String)
  // One shell for all; a process that has ended meanwhile needs no processor.
  await run('/bin/sh', [
    '-c',
    'cores=$1; shift; for pid; do taskset -acp "$cores" "$pid"; done >/dev/null 2>&1; true',
    'sh',
    cores,
    ...pids
  ])
}

/** The rank of a process in the real-time class, 0 when it has none, from its line of /proc/<pid>/stat (proc(5)). */
export function realTimeRank(line: string): number {
  return Number(line.slice(line.lastIndexOf(')') + 2).split(' ')[40 - 3])
}

/**
 * Gives a process and its descendants precedence on their processor, over this program and whatever it starts: they run
 * as soon as they can, though something beside them never sleeps. A niceness alone does that by the slice, which is
 * some milliseconds. False where we may not.
 */
export function favor(root: number): boolean {
  const rank = realTimeRank(readFileSync('/proc/self/stat', 'utf8')) + 1
  try {
    for (const pid of pidsOfTree(root)) execFileSync('chrt', ['-r', '-a', '-p', String(rank), String(pid)])
    return true
  } catch {
    // Needs CAP_SYS_NICE, and chrt (util-linux).
  }
  if (rank > 1) return false
  try {
    for (const pid of pidsOfTree(root)) setPriority(pid, -19)
    return true
  } catch {
    // Needs CAP_SYS_NICE.
    return false
  }
}
