/**
 * The process in which the embedded database lives: PostgreSQL compiled to WebAssembly takes several hundred megabytes,
 * and its queries would stop the gateway's event loop. It speaks PostgreSQL's wire protocol over one pipe: bytes in,
 * bytes out, one message at a time and in order. It waits for each synchronously, which saves the event loop's part of
 * every query. The pipe's end is its own end, so it dies with the gateway however that dies: at once, or after the
 * query that it is in.
 */
import { chmodSync, existsSync, renameSync, rmSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { PGlite } from '@electric-sql/pglite'
import { FolderInUse, lockFolder, type FolderLock } from '../folder-lock.ts'
import { answerTo, isIdle, Upkeep } from './upkeep.ts'
import { frame, receiveFrameSync, sendFrameSync, type FrameKind } from './frames.ts'
import { readImage } from './image.ts'
import { unpackInto } from './tar.ts'

/** What the process is started with, as JSON in its only argument. */
export interface PgliteInput {
  /** Folder of the database, or null for one that lives in memory. */
  folder: string | null
  /** File of the image that a new database begins with; null makes one from nothing, which takes seconds. */
  image: string | null
}

// PGlite asks for files that everybody may read and write.
process.umask(0o077)

// Signals to the process group reach the database too. The gateway still needs it while it drains, and closes it last.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)
  process.on(signal, () => {})

// The one who starts this process passes exactly this shape (pglite.ts).
const input = JSON.parse(process.argv[2] ?? '') as PgliteInput
const pipe = 3

function say(kind: FrameKind, bytes: Uint8Array | string): void {
  try {
    sendFrameSync(pipe, kind, typeof bytes === 'string' ? Buffer.from(bytes) : bytes)
  } catch {
    // The gateway is gone, and with it everyone who could be told.
    process.exit(0)
  }
}

function nextFrame(): ReturnType<typeof receiveFrameSync> {
  try {
    return receiveFrameSync(pipe)
  } catch {
    // Killed before it had read the last answer.
    return null
  }
}

/**
 * How long the process of a gateway that was killed is given to end. Making a database takes it longest, a quarter of a
 * minute on a slow machine.
 */
const orphanMs = 60_000

// The server's own default of 128 MB of buffers is more than all else here; a gateway's rows need a fraction of it.
// A look of the planner at a hundred thousand challenges takes 70 ms by a sample of a tenth, in which nothing is
// answered, and a second by the usual one.
const startParams = [...PGlite.defaultStartParams, '-c', 'shared_buffers=16MB', '-c', 'default_statistics_target=10']
// Of the log that a new database has from the start. The usual 16 MB would be two thirds of it.
const initDbStartParams = ['--wal-segsize=1']

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

// Held until the process ends: a lock that nothing refers to would be collected, and given up.
const locks: FolderLock[] = []

async function start(): Promise<PGlite> {
  const { folder, image } = input
  if (folder === null) {
    if (image === null) return PGlite.create('memory://', { startParams, initDbStartParams })
    return PGlite.create('memory://', { startParams, loadDataDir: new Blob([new Uint8Array(readImage(image))]) })
  }
  // The gateway has locked the folder for itself, but another that was killed just now may have left its process, which
  // ends after the query that it is in.
  locks.push(lockFolder(`${folder}.process`, orphanMs))
  // PG_VERSION is written early, so it says only that someone began; a folder under its real name is always whole,
  // because it is made beside it and renamed when done: a crash while making leaves nothing that would be opened.
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
 * PGlite makes files that everybody may read and write, and the data folder may have been made by others: this one is
 * ours.
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
  const asked = nextFrame()
  // Without its gateway the database is left as it stands, as the gateway's own death would leave it: what was
  // acknowledged is written, and a transaction that was not finished never was.
  if (asked === null) break
  if (asked.kind === frame.close) {
    await database.close()
    for (const lock of locks) lock.release()
    break
  }
  try {
    const answer = await answerTo(database, asked.bytes)
    say(frame.answer, answer)
    if (upkeep.due(asked.bytes.length) && isIdle(answer)) await upkeep.run(database)
  } catch (error) {
    say(frame.broken, reason(error))
  }
}
process.exit(0)
