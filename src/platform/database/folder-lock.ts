import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { DatabaseOpenError } from './errors.ts'
import { defineError, hasCode } from '../system/errors.ts'

const DATABASE_IN_USE = defineError('BG_DATABASE_IN_USE', {
  cause: 'Another gateway uses the folder of the embedded database.',
  fix: 'Stop that gateway, or set another `data` folder; several gateways on one database need PostgreSQL.'
})

export class FolderInUse extends Error {
  override name = 'FolderInUse'
  readonly code = DATABASE_IN_USE.code
  readonly folder: string
  /** The holder's process id; null when unreadable. */
  readonly pid: number | null

  constructor(folder: string, pid: number | null) {
    const holder =
      pid === null ? 'another process' : pid === process.pid ? `this process (pid ${pid})` : `process ${pid}`
    super(
      `The embedded database in ${folder} is in use by ${holder}. Stop that one, or give this one another \`data\` folder; several gateways on one database need PostgreSQL.`
    )
    this.folder = folder
    this.pid = pid
  }
}

const BUSY = 5

/** Releasing twice is harmless; the system releases it when the process ends in any way. */
export interface FolderLock {
  release(): void
}

/**
 * Locks `folder` (which need not exist) for this process, by a file beside it.
 *
 * An operating system lock, which Node reaches only through SQLite, ends with its process, SIGKILL included. Process
 * ids would be reused and differ between containers; the one beside the lock only serves the message.
 *
 * @param waitMs milliseconds that this thread waits for the holder.
 * @throws FolderInUse when it is locked, DatabaseOpenError without permission.
 */
export function lockFolder(folder: string, waitMs = 0): FolderLock {
  mkdirSync(dirname(folder), { recursive: true })
  const pidFile = `${folder}.pid`
  const name = `${folder}.lock`
  let file: DatabaseSync | null = null
  try {
    file = new DatabaseSync(name, { timeout: waitMs })
    file.exec('pragma journal_mode = memory; pragma locking_mode = exclusive; begin exclusive')
  } catch (error) {
    file?.close()
    if (!(error instanceof Error)) throw error
    if ('errcode' in error && error.errcode === BUSY) throw new FolderInUse(folder, readPid(pidFile))
    throw new DatabaseOpenError(
      folder,
      `${name} cannot be locked (${error.message}); give the folder around it to the user of this process, or name another with \`data\``,
      { cause: error }
    )
  }
  writeFileSync(pidFile, `${process.pid}\n`)
  let held = true
  return {
    release: () => {
      if (!held) return
      held = false
      rmSync(pidFile, { force: true })
      file.close()
    }
  }
}

function readPid(file: string): number | null {
  try {
    const pid = Number(readFileSync(file, 'utf8'))
    return Number.isInteger(pid) && pid > 0 ? pid : null
  } catch (error) {
    // The holder writes the file just after it took the lock, so it may be missing for a moment.
    if (hasCode(error, 'ENOENT')) return null
    throw error
  }
}
