/**
 * The process in which the embedded database lives: PostgreSQL compiled to WebAssembly takes several hundred megabytes, and
 * its queries would stop the gateway's event loop. It speaks PostgreSQL's wire protocol over one pipe: bytes in, bytes out,
 * one message at a time and in order. It waits for each synchronously, which saves the event loop's part of every query. The
 * pipe's end is its own end, so it dies with the gateway however that dies: at once, or after the query that it is in.
 */
import { createReadStream, existsSync } from 'node:fs'
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { FolderInUse, lockFolder, type FolderLock } from './folder-lock.ts'
import { frame, receiveFrameSync, sendFrameSync, type FrameKind } from './pglite-frames.ts'

/** What the process is started with, as JSON in its only argument. */
export interface PgliteInput {
  /** Folder of the database, or null for one that lives in memory. */
  folder: string | null
  /** Folder that keeps the image of an empty database, to save its making; null for none. Written when absent. */
  template: string | null
}

// Ctrl-C and a service manager's stop reach every process of the group. The gateway still needs its database while it
// finishes what is under way, and says when to close.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

// The one who starts this process passes exactly this shape (pglite.ts).
const input = JSON.parse(process.argv[2] ?? '') as PgliteInput
const pipe = 3

function say (kind: FrameKind, bytes: Uint8Array | string): void {
  try {
    sendFrameSync(pipe, kind, typeof bytes === 'string' ? Buffer.from(bytes) : bytes)
  } catch {
    // The gateway is gone, and with it everyone who could be told.
    process.exit(0)
  }
}

function nextFrame (): ReturnType<typeof receiveFrameSync> {
  try {
    return receiveFrameSync(pipe)
  } catch {
    // Killed before it had read the last answer.
    return null
  }
}

async function readTemplate (file: string): Promise<Blob> {
  const parts: Buffer<ArrayBuffer>[] = []
  for await (const part of createReadStream(file, { highWaterMark: 1 << 20 })) parts.push(part)
  return new Blob(parts)
}

async function writeTemplate (db: PGlite, file: string): Promise<void> {
  const image = await db.dumpDataDir('none')
  await mkdir(dirname(file), { recursive: true })
  const unique = `${file}.${process.pid}.${Math.random().toString(36).slice(2)}`
  const handle = await open(unique, 'wx', 0o600)
  try {
    await handle.writeFile(Buffer.from(await image.arrayBuffer()))
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(unique, file)
}

/** The image's file carries PGlite's version, since another version may not read it. */
async function templateFile (folder: string): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(new URL('../package.json', import.meta.resolve('@electric-sql/pglite')), 'utf8'))
  const version = typeof manifest === 'object' && manifest !== null && 'version' in manifest ? String(manifest.version) : 'unknown'
  return join(folder, `pglite-${version}.tar`)
}

/** How long the process of a gateway that was killed is given to end. Making a database takes it longest, a quarter of a minute on a slow machine. */
const orphanMs = 60_000

// The server's own default of 128 MB of buffers is more than all else here; a gateway's rows need a fraction of it.
const startParams = [...PGlite.defaultStartParams, '-c', 'shared_buffers=16MB']

async function make (dataDir: string): Promise<PGlite> {
  if (input.template === null) return PGlite.create(dataDir, { startParams })
  const file = await templateFile(input.template)
  if (existsSync(file)) return PGlite.create({ dataDir, loadDataDir: await readTemplate(file), startParams })
  const db = await PGlite.create(dataDir, { startParams })
  try {
    await writeTemplate(db, file)
  } catch (error) {
    // It only saves time the next time, so the database goes on without.
    say(frame.warning, `The image of an empty database could not be kept: ${reason(error)}`)
  }
  return db
}

function reason (error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

// Held until the process ends: a lock that nothing refers to would be collected, and given up.
const locks: FolderLock[] = []

async function start (): Promise<PGlite> {
  if (input.folder === null) return make('memory://')
  // The gateway has locked the folder for itself, but another that was killed just now may have left its process, which
  // ends after the query that it is in.
  locks.push(lockFolder(`${input.folder}.process`, orphanMs))
  // PG_VERSION is written early, so it says only that someone began; a folder under its real name is always whole,
  // because it is made beside it and renamed when done: a crash while making leaves nothing that would be opened.
  if (existsSync(input.folder)) {
    await readFile(`${input.folder}/PG_VERSION`)
    return PGlite.create(input.folder, { startParams })
  }
  const unfinished = `${input.folder}.making`
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(dirname(unfinished), { recursive: true })
  const made = await make(unfinished)
  await made.close()
  await rename(unfinished, input.folder)
  return PGlite.create(input.folder, { startParams })
}

async function opened (): Promise<PGlite> {
  try {
    return await start()
  } catch (error) {
    if (error instanceof FolderInUse) say(frame.inUse, String(error.pid ?? ''))
    else say(frame.failed, reason(error))
    process.exit(1)
  }
}

const database = await opened()
say(frame.ready, '')
for (;;) {
  const asked = nextFrame()
  // Without its gateway the database is left as it stands, as the gateway's own death would leave it: what was acknowledged
  // is written, and a transaction that was not finished never was.
  if (asked === null) break
  if (asked.kind === frame.close) {
    await database.close()
    for (const lock of locks) lock.release()
    break
  }
  try {
    say(frame.answer, await database.execProtocolRaw(asked.bytes))
  } catch (error) {
    say(frame.broken, reason(error))
  }
}
process.exit(0)
