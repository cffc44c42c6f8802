import { chmodSync, linkSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { isPrivate } from 'tiny-secp256k1'
import { randomToken, systemRandom, type Random } from '../../../platform/system/ids.ts'
import { KEY_FILE } from '../../../platform/keys/keyfile.ts'
import { CodedError, hasCode } from '../../../platform/system/errors.ts'

/**
 * The sandbox node's private key, 32 bytes: read from `file` (64 hex characters, mode 0600), or created there.
 * Concurrent starts agree on one key: the finished file is linked into place and the first link wins.
 * @throws CodedError when the file holds no key; it is never overwritten, since old invoices name the old node
 */
export function loadNodeKey(file: string, random: Random = systemRandom): Buffer {
  const present = readKey(file)
  if (present !== null) return present
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomToken(6)}`
  writeFileSync(draft, `${newKey(random).toString('hex')}\n`, { mode: 0o600, flag: 'wx' })
  try {
    linkSync(draft, file)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  } finally {
    rmSync(draft)
  }
  const created = readKey(file)
  if (created === null) throw new CodedError(KEY_FILE, `${file} vanished while it was being made`)
  return created
}

function readKey(file: string): Buffer | null {
  let text: string
  try {
    text = readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw error
  }
  const key = Buffer.from(text, 'hex')
  if (!/^[0-9a-f]{64}$/.test(text) || !isPrivate(key)) {
    throw new CodedError(
      KEY_FILE,
      `${file} must hold a private key as 64 lower-case hex characters; remove it to have a new one made`
    )
  }
  if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600)
  return key
}

function newKey(random: Random): Buffer {
  for (;;) {
    const key = Buffer.from(random(32))
    // Invalid about once in 2^128.
    if (isPrivate(key)) return key
  }
}
