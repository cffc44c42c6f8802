import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import { randomToken, systemRandom, type Random } from '../system/ids.ts'
import { Secret } from './secrets.ts'
import { CodedError, defineError, hasCode } from '../system/errors.ts'

export const KEY_FILE = defineError('BG_KEY_FILE', {
  cause: 'A key file in the data folder is readable by others, or has unexpected content.',
  fix: 'Run `chmod 600` on it or restore it from a backup, as the message says. A new sandbox node key is created if you delete the old one.'
})

export interface Keys {
  adminKey: Secret<string>
  merchant: { id: number; apiKey: Secret<string> } | null
}

const keysName = 'keys.json'
const masterName = 'master.key'
const apertureName = 'aperture.keys'

export function keysPath(dataDir: string): string {
  return join(dataDir, keysName)
}

export function masterPath(dataDir: string): string {
  return join(dataDir, masterName)
}

export function aperturePath(dataDir: string): string {
  return join(dataDir, apertureName)
}

/** The text of `aperture.keys`, which `boltgate import` writes. @throws CodedError when others could read it */
export function readApertureKeys(dataDir: string): string | null {
  return readPrivate(aperturePath(dataDir))
}

export function writeApertureKeys(dataDir: string, text: string): void {
  writePrivate(aperturePath(dataDir), text, 'replace')
}

/**
 * Null when there is none.
 * @throws CodedError when others could read it, or for invalid content
 */
export function readKeys(dataDir: string): Keys | null {
  const file = keysPath(dataDir)
  const text = readPrivate(file)
  if (text === null) return null
  const found = parseJson(text, file)
  const adminKey = member(found, 'adminKey')
  const id = member(member(found, 'merchant'), 'id')
  const apiKey = member(member(found, 'merchant'), 'apiKey')
  const merchant = typeof id === 'number' && typeof apiKey === 'string' ? { id, apiKey: new Secret(apiKey) } : null
  if (typeof adminKey !== 'string' || adminKey === '' || (merchant === null && member(found, 'merchant') !== null)) {
    throw new CodedError(
      KEY_FILE,
      `${file} must hold {"adminKey": "…", "merchant": {"id": 1, "apiKey": "…"}}; remove the file to have it made again`
    )
  }
  return { adminKey: new Secret(adminKey), merchant }
}

/** Writes `keys.json` atomically, readable by its owner alone. */
export function writeKeys(dataDir: string, keys: Keys): void {
  const { merchant } = keys
  const content = {
    adminKey: keys.adminKey.reveal(),
    merchant: merchant === null ? null : { id: merchant.id, apiKey: merchant.apiKey.reveal() }
  }
  writePrivate(keysPath(dataDir), `${JSON.stringify(content, null, 2)}\n`, 'replace')
}

export interface Masters {
  readonly current: Secret<string>
  readonly previous: ReadonlyArray<Secret<string>>
}

/**
 * Reads `master.key` in the data folder, one secret per line, current first. The first start creates it (48 random
 * bytes in base64url).
 * @throws CodedError when others could read it, a line is too short, or the file is missing from a folder in use
 */
export function loadMasters(dataDir: string, random: Random = systemRandom): Masters {
  const file = masterPath(dataDir)
  // First: of two processes that start together the other may make both meanwhile, the master secret before the rest.
  const inUse = isInUse(dataDir)
  if (!existsSync(file)) {
    if (inUse) {
      throw new CodedError(
        KEY_FILE,
        `${file} is missing, but ${dataDir} has the data of a gateway. Restore the file from a backup, or set secrets.master (BOLTGATE_SECRET) to the secret used so far. If it is lost for good, \`boltgate keys adopt\` makes a new one: tokens sold and provider keys saved under the old one are lost`
      )
    }
    makeMaster(dataDir, random)
  }
  const [current, ...previous] = (readPrivate(file) ?? '')
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')
  if (current === undefined || [current, ...previous].some(line => Buffer.byteLength(line) < 32)) {
    throw new CodedError(
      KEY_FILE,
      `${file} holds no master secret (at least 32 bytes a line); restore it from a copy, or, if nothing was sealed with it, remove it`
    )
  }
  return { current: new Secret(current), previous: previous.map(line => new Secret(line)) }
}

export function makeMaster(dataDir: string, random: Random = systemRandom): void {
  // Of two processes that start together the first to place its file wins, and both read it.
  writePrivate(masterPath(dataDir), `${randomToken(48, random)}\n`, 'keep')
}

function isInUse(dataDir: string): boolean {
  if (statSync(dataDir, { throwIfNoEntry: false })?.isDirectory() !== true) return false
  return (
    existsSync(keysPath(dataDir)) || readdirSync(dataDir).some(name => existsSync(join(dataDir, name, 'PG_VERSION')))
  )
}

/**
 * Prepends a new master secret to `master.key` and returns the file. Running gateways keep theirs.
 * @throws CodedError like `loadMasters`
 */
export function rotateMaster(dataDir: string, random: Random = systemRandom): string {
  const { current, previous } = loadMasters(dataDir, random)
  const file = masterPath(dataDir)
  const lines = [randomToken(48, random), current.reveal(), ...previous.map(secret => secret.reveal())]
  writePrivate(file, `${lines.join('\n')}\n`, 'replace')
  return file
}

/** Null when there is none. @throws CodedError when others could read it */
export function readPrivate(file: string): string | null {
  if (!existsSync(file)) return null
  // Windows has no such bits.
  const open = process.platform === 'win32' ? 0 : statSync(file).mode & 0o077
  if (open !== 0)
    throw new CodedError(KEY_FILE, `${file} holds secrets but others may read or change it; run: chmod 600 ${file}`)
  return readFileSync(file, 'utf8')
}

/** Writes a file atomically, readable by its owner alone, or keeps one that is there. */
export function writePrivate(file: string, text: string, present: 'replace' | 'keep'): void {
  const folder = dirname(file)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const unfinished = `${file}.${process.pid}.${randomToken(6)}`
  const handle = openSync(unfinished, 'wx', 0o600)
  try {
    // The umask may have removed bits of the mode.
    chmodSync(unfinished, 0o600)
    writeSync(handle, text)
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
  if (present === 'replace') renameSync(unfinished, file)
  else placeUnlessPresent(unfinished, file)
  const parent = openSync(folder, 'r')
  try {
    // The file's name is in the folder, which has to reach the disk as well.
    fsyncSync(parent)
  } finally {
    closeSync(parent)
  }
}

function placeUnlessPresent(unfinished: string, file: string): void {
  try {
    linkSync(unfinished, file)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  } finally {
    rmSync(unfinished)
  }
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // JSON.parse quotes the text, and here that is a secret.
    throw new CodedError(KEY_FILE, `${file} is not JSON; remove the file to have it made again`)
  }
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && name in value ? Reflect.get(value, name) : null
}
