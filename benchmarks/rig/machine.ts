import { execFileSync } from 'node:child_process'
import { accessSync, constants, readFileSync } from 'node:fs'
import { arch, cpus, loadavg, release, totalmem } from 'node:os'
import { delimiter, join } from 'node:path'

/** Where figures were made; goes into the results, so that results of two machines are not compared by mistake. */
export interface Machine {
  readonly processor: string
  readonly cores: number
  readonly memoryMiB: number
  readonly kernel: string
  readonly node: string
  /** Load averages of 1, 5 and 15 minutes. */
  readonly load: readonly number[]
}

/** Describes this machine as it is now. */
export function describeMachine(): Machine {
  const all = cpus()
  return {
    processor: all[0]?.model.trim() ?? 'unknown',
    cores: all.length,
    memoryMiB: Math.round(totalmem() / 2 ** 20),
    kernel: `Linux ${release()} ${arch()}`,
    node: process.version,
    load: loadavg().map(value => Math.round(value * 100) / 100)
  }
}

/**
 * The full path of a program, or null. /usr/sbin is searched too: Debian puts nginx there, and users' PATH lacks it.
 */
export function onPath(program: string): string | null {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']) {
    const file = join(folder, program)
    try {
      accessSync(file, constants.X_OK)
      return file
    } catch {
      // Not in this folder: the next one is tried.
    }
  }
  return null
}

/** The first line that a program prints about its version, on either output. */
export function versionOf(file: string, ...args: readonly string[]): string {
  const both = execFileSync('/bin/sh', ['-c', '"$@" 2>&1 || true', 'sh', file, ...args], { encoding: 'utf8' })
  return both.split('\n')[0]?.trim() ?? ''
}

/** The version of an installed package of the benchmarks, or null where it is not installed. */
export function packageVersion(name: string): string | null {
  try {
    // Every package.json has this member.
    return (
      JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url), 'utf8')) as {
        version: string
      }
    ).version
  } catch {
    return null
  }
}
