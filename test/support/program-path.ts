import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/**
 * The path of a program, looked up as a shell does (and in the places where Debian puts servers); null where it is not
 * installed.
 */
export function programPath(name: string): string | null {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']
  return folders.map(folder => join(folder, name)).find(path => existsSync(path)) ?? null
}
