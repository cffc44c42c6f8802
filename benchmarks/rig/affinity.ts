import { execFile } from 'node:child_process'
import { setPriority } from 'node:os'
import { promisify } from 'node:util'
import { pidsOfTree } from './cpu.ts'
import { onPath } from './machine.ts'

const run = promisify(execFile)

/**
 * Moves running processes, with all their threads and descendants, to these processors (a list as `taskset` takes it,
 * such as `0` or
 * `0-1`). Does nothing where `taskset` is missing.
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

/** Gives a process and its descendants precedence on their processor. False where we may not. */
export function favour(root: number): boolean {
  try {
    for (const pid of pidsOfTree(root)) setPriority(pid, -19)
    return true
  } catch {
    // Needs CAP_SYS_NICE.
    return false
  }
}
