/**
 * The embedded database's process: PostgreSQL as WebAssembly takes several hundred megabytes, and its queries would
 * block the gateway's event loop. Handles one message at a time, synchronously, which saves the event loop's overhead.
 * Exits when the pipe closes.
 */
import { chmodSync, existsSync, renameSync, rmSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { PGlite } from '@electric-sql/pglite'
import { FolderInUse, lockFolder, type FolderLock } from '../folder-lock.ts'
import { answerTo, isIdle, Upkeep } from './upkeep.ts'
import { frame, receiveFrameSync, sendFrameSync, type FrameKind } from './frames.ts'
import { readImage, unpackInto } from './image.ts'

/** JSON in the process's only argument. */
export interface PgliteInput {
  folder: string | null
  /** Image file for a new database; null creates one from scratch, which takes seconds. */
  image: string | null
}

// PGlite makes files that every user may read and write.
process.umask(0o077)

// Signals to the process group reach the database too. The gateway still needs it while it drains, and closes it last.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)
  process.on(signal, () => {})

// The parent passes exactly this shape (pglite.ts).
const input = JSON.parse(process.argv[2] ?? '') as PgliteInput
const pipe = 3

function say(kind: FrameKind, bytes: Uint8Array | string): void {
  try {
    sendFrameSync(pipe, kind, typeof bytes === 'string' ? Buffer.from(bytes) : bytes)
  } catch {
    process.exit(0)
  }
}

function nextFrame(): ReturnType<typeof receiveFrameSync> {
  try {
    return receiveFrameSync(pipe)
  } catch {
    return null
  }
}

/**
 * How long the process of a killed gateway may take to exit. Creating a database takes longest, 15 seconds on a slow
 * machine.
 */
const orphanMs = 60_000

// The default of 128 MB of buffers is unnecessary. ANALYZE of a hundred thousand challenges takes 70 ms with a tenth of
// the sample, a second with the usual one.
const startParams = [...PGlite.defaultStartParams, '-c', 'shared_buffers=16MB', '-c', 'default_statistics_target=10']
// WAL segments of a new database. The usual 16 MB would be two thirds of it.
const initDbStartParams = ['--wal-segsize=1']

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

// Held until the process exits: an unreferenced lock would be collected and released.
const locks: FolderLock[] = []

async function start(): Promise<PGlite> {
  const { folder, image } = input
  if (folder === null) {
    if (image === null) return PGlite.create('memory://', { startParams, initDbStartParams })
    return PGlite.create('memory://', { startParams, loadDataDir: new Blob([new Uint8Array(readImage(image))]) })
  }
  // The gateway holds its own lock, but the process of one just killed may still be in its last query.
  locks.push(lockFolder(`${folder}.process`, orphanMs))
  // PG_VERSION is written early, so it only proves a start. A folder under its real name is always complete, because it
  // is renamed when done.
  if (existsSync(folder)) {
    await readFile(`${folder}/PG_VERSION`)
    closeToOthers(folder)
  } else {
    const unfinished = `${folder}.making`
    if (image === null || !unpacked(unfinished, image)) {
      rmSync(unfinished, { recursive: true, force: true })
      await (await PGlite.create(unfinished, { startParams, initDbStartParams })).close()
      chmodSync(unfinished, 0o700)
    }
    renameSync(unfinished, folder)
  }
  return PGlite.create(folder, { startParams })
}

/** An image only saves time: false, with a line in the log, when it cannot be used. */
function unpacked(folder: string, image: string): boolean {
  rmSync(folder, { recursive: true, force: true })
  try {
    unpackInto(folder, readImage(image))
    return true
  } catch (error) {
    say(frame.warning, `The image of a new database cannot be used, so one is made from nothing: ${reason(error)}`)
    return false
  }
}

/**
 * PGlite makes files that every user may read and write, and others may have made the data folder: this one is ours.
 */
function closeToOthers(folder: string): void {
  if ((statSync(folder).mode & 0o077) === 0) return
  chmodSync(folder, 0o700)
  say(frame.warning, `${folder} could be read by other users of this machine; from now on its owner alone can`)
}

async function opened(): Promise<PGlite> {
  try {
    return await start()
  } catch (error) {
    if (error instanceof FolderInUse) say(frame.inUse, String(error.pid ?? ''))
    else say(frame.failed, reason(error))
    process.exit(1)
  }
}

const database = await opened()
const upkeep = new Upkeep()
say(frame.ready, '')
for (;;) {
  const request = nextFrame()
  // As in a crash of the gateway: acknowledged data is written, unfinished transactions are not.
  if (request === null) break
  if (request.kind === frame.close) {
    await database.close()
    for (const lock of locks) lock.release()
    break
  }
  try {
    const answer = await answerTo(database, request.bytes)
    say(frame.answer, answer)
    if (upkeep.due(request.bytes.length) && isIdle(answer)) await upkeep.run(database)
  } catch (error) {
    say(frame.broken, reason(error))
  }
}
process.exit(0)
