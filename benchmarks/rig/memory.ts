import { readdirSync, readFileSync } from 'node:fs'

/**
 * Resident memory, in bytes, of a process and all its descendants, from /proc/<pid>/status. Shared pages count in each.
 */
export function residentOf(root: number): number {
  const found: Array<{ pid: number; parent: number; resident: number }> = []
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const status = readFileSync(`/proc/${name}/status`, 'utf8')
      const field = (key: string): number => Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0)
      found.push({ pid: Number(name), parent: field('PPid'), resident: field('VmRSS') * 1024 })
    } catch {
      // Ended while we looked.
    }
  }
  const wanted = new Set([root])
  for (let size = 0; size !== wanted.size;) {
    size = wanted.size
    for (const { pid, parent } of found) if (wanted.has(parent)) wanted.add(pid)
  }
  return found.reduce((sum, { pid, resident }) => (wanted.has(pid) ? sum + resident : sum), 0)
}

/** Resident memory of one process alone, in bytes. */
export function residentOfOne(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024
}
