import { hash, randomBytes } from 'node:crypto'
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
  readdirSync,
  writeFileSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import zlib from 'node:zlib'

/**
 * An image: the compressed folder of a new, migrated and closed embedded database. A first start unpacks it, which
 * saves seconds.
 */
const FORMAT = 4

/** Named by the migrations' digest (`shape`) and PGlite's version: another version may not read it. */
export function imageName(shape: string): string {
  return `pglite-${pgliteVersion()}-${hash('sha256', `${FORMAT} ${shape}`).slice(0, 16)}.tar.br`
}

function pgliteVersion(): string {
  const file = new URL('../package.json', import.meta.resolve('@electric-sql/pglite'))
  // Every package's manifest has a version.
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }).version
}

/** The image's tar. Throws the system's error, or zlib's when the file is damaged. */
export function readImage(file: string): Buffer {
  return zlib.brotliDecompressSync(readFileSync(file))
}

export function writeImage(file: string, folder: string): void {
  // Seconds, once for each set of migrations; it is the largest part of the package.
  const bytes = zlib.brotliCompressSync(packFolder(folder), { params: { [zlib.constants.BROTLI_PARAM_LGWIN]: 24 } })
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

const BLOCK = 512
const FOLDER = '5'
const FILE = '0'
const NAME_LENGTH = 100

/**
 * POSIX ustar, only what an image needs: names of at most 100 bytes, no links. Drops owners, times and modes, so that
 * the same files give the same bytes.
 */
export function packFolder(folder: string): Buffer {
  const parts: Buffer[] = []
  const walk = (inner: string): void => {
    const entries = readdirSync(join(folder, inner), { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
    for (const entry of entries) {
      const name = inner === '' ? entry.name : `${inner}/${entry.name}`
      if (entry.isDirectory()) {
        parts.push(headOf(`${name}/`, FOLDER, 0))
        walk(name)
      } else if (entry.isFile()) {
        const bytes = readFileSync(join(folder, name))
        parts.push(headOf(name, FILE, bytes.length), bytes, Buffer.alloc(padding(bytes.length)))
      } else throw new Error(`${join(folder, name)} is neither a file nor a folder`)
    }
  }
  walk('')
  parts.push(Buffer.alloc(2 * BLOCK))
  return Buffer.concat(parts)
}

/**
 * Unpacks into a new `folder`, for the owner alone, whatever the umask.
 * @throws Error when it is no tar of `packFolder`, or a file cannot be written.
 */
export function unpackInto(folder: string, tar: Buffer): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0;) {
    const head = tar.subarray(at, at + BLOCK)
    const name = textIn(head, 0, NAME_LENGTH)
    const size = Number.parseInt(textIn(head, 124, 12), 8)
    const isWhole = Number.parseInt(textIn(head, 148, 8), 8) === checksumOf(head) && at + BLOCK + size <= tar.length
    if (!isWhole || name.startsWith('/') || name.split('/').includes('..'))
      throw new Error(`The image is damaged at byte ${at}`)
    at += BLOCK
    if (textIn(head, 156, 1) === FOLDER) mkdirSync(join(folder, name), { mode: 0o700 })
    else writeFileSync(join(folder, name), tar.subarray(at, at + size), { mode: 0o600, flag: 'wx' })
    at += size + padding(size)
  }
}

function headOf(name: string, kind: string, size: number): Buffer {
  const head = Buffer.alloc(BLOCK)
  if (Buffer.byteLength(name) > NAME_LENGTH) throw new Error(`The name ${name} is too long for the image`)
  head.write(name, 0)
  head.write(kind === FOLDER ? '0000700\0' : '0000600\0', 100)
  head.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  head.write('00000000000\0', 136)
  head.write(kind, 156)
  head.write('ustar\x0000', 257)
  head.write(`${checksumOf(head).toString(8).padStart(6, '0')}\0 `, 148)
  return head
}

/** The sum of the head's bytes, its own field counted as spaces (POSIX, pax interchange format). */
function checksumOf(head: Buffer): number {
  let sum = 0
  for (let i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? 0x20 : (head[i] ?? 0)
  return sum
}

function textIn(head: Buffer, from: number, length: number): string {
  const text = head.toString('utf8', from, from + length)
  const end = text.indexOf('\0')
  return end < 0 ? text : text.slice(0, end)
}

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK
}
