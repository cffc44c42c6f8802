import { hash, randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import zlib from 'node:zlib'
import { packFolder } from './tar.ts'

/**
 * An image: the compressed folder of a new, migrated and closed embedded database. A first start unpacks it, which
 * saves seconds.
 */
const FORMAT = 3

/** Named by the migrations' digest (`shape`) and PGlite's version: another version may not read it. */
export function imageName(shape: string): string {
  return `pglite-${pgliteVersion()}-${hash('sha256', `${FORMAT} ${shape}`).slice(0, 16)}.tar.zst`
}

function pgliteVersion(): string {
  const file = new URL('../package.json', import.meta.resolve('@electric-sql/pglite'))
  // Every package's manifest has a version.
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }).version
}

/** The image's tar. Throws the system's error, or zlib's when the file is damaged. */
export function readImage(file: string): Buffer {
  return zlib.zstdDecompressSync(readFileSync(file))
}

export function writeImage(file: string, folder: string): void {
  const bytes = zlib.zstdCompressSync(packFolder(folder), { params: { [zlib.constants.ZSTD_c_compressionLevel]: 19 } })
  mkdirSync(dirname(file), { recursive: true })
  const unique = `${file}.${randomBytes(6).toString('hex')}`
  const handle = openSync(unique, 'wx', 0o644)
  try {
    writeSync(handle, bytes)
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
  renameSync(unique, file)
}
