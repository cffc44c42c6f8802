import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import postgres from 'postgres'
import type { Clock } from '../system/clock.ts'
import type { TransactionSql } from './database.ts'

/** Called by every health check, so it answers from memory most of the time. */
export interface WriteProbe {
  /** Why the database is read-only, without address or path; null when writable or unknown. Never rejects. */
  fault(): Promise<string | null>
}

const CACHE_TTL = { good: 30_000, bad: 5_000 }
/** Free bytes that the embedded database needs: below that its next writes fail. */
const LEAST_FREE = 16 * 1024 * 1024
/**
 * Errors of an unwritable server: disk full, I/O error, read-only. Others, such as a missing privilege, do not prove
 * it.
 */
const UNWRITABLE: Readonly<Record<string, string>> = Object.freeze({
  53100: 'its disk is full',
  58030: 'its disk fails',
  25006: 'it is read-only'
})

/**
 * The probe for a server: fills four pages of a table and rolls back, since rows that fit into free space would be
 * written on a full disk too. `transaction` runs one.
 */
export function tableProbe(
  transaction: (run: (tx: TransactionSql) => Promise<void>) => Promise<void>,
  clock: Clock
): WriteProbe {
  return new Remembered(clock, async () => {
    try {
      await transaction(async tx => {
        const table = tx(`boltgate_write_probe_${randomBytes(6).toString('hex')}`)
        await tx`create unlogged table ${table} (filler text not null)`
        await tx`insert into ${table} select repeat('x', 1900) from generate_series(1, 16)`
        throw new Undone()
      })
    } catch (error) {
      const code = error instanceof postgres.PostgresError ? error.code : ''
      const why = UNWRITABLE[code]
      if (why !== undefined) return `The database cannot be written: ${why} (${code})`
    }
    return null
  })
}

/** The probe for a database in a folder: free disk space. `free` returns bytes. */
export function folderProbe(
  folder: string,
  clock: Clock,
  free: (folder: string) => Promise<number> = freeBytes
): WriteProbe {
  return new Remembered(clock, async () => {
    // A folder that cannot be checked says nothing about its disk; the database's own answer does.
    const bytes = await free(folder).catch(() => Infinity)
    return bytes < LEAST_FREE
      ? `The database cannot be written: ${Math.floor(bytes / 1024 / 1024)} MiB are left on its disk`
      : null
  })
}

export async function freeBytes(folder: string): Promise<number> {
  // The first start creates the folder; its parent is on the same disk.
  const { bavail, bsize } = await statfs(existsSync(folder) ? folder : dirname(folder))
  return bavail * bsize
}

class Undone extends Error {}

class Remembered implements WriteProbe {
  readonly #clock: Clock
  readonly #look: () => Promise<string | null>
  #known: string | null = null
  #until = -Infinity

  constructor(clock: Clock, look: () => Promise<string | null>) {
    this.#clock = clock
    this.#look = look
  }

  async fault(): Promise<string | null> {
    if (this.#clock.monotonic() < this.#until) return this.#known
    this.#known = await this.#look()
    this.#until = this.#clock.monotonic() + (this.#known === null ? CACHE_TTL.good : CACHE_TTL.bad)
    return this.#known
  }
}
