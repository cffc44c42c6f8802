import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, statSync } from 'node:fs'
import { isPrivate } from 'tiny-secp256k1'
import { KEY_FILE, readPrivate, writePrivate } from '../../../platform/keys/keyfile.ts'
import { CodedError } from '../../../platform/system/errors.ts'

/**
 * The sandbox node's private key, 32 bytes: read from `file` (64 hex characters, mode 0600), or created there. Of
 * concurrent starts the first to place its file wins, and all read it.
 * @throws CodedError when the file holds no key; it is never overwritten, since old invoices name the old node
 */
export function loadNodeKey(file: string): Buffer {
  if (!existsSync(file)) writePrivate(file, `${randomBytes(32).toString('hex')}\n`, 'keep')
  // A restored backup or a volume of a group has opened it; demo invoices need the file in production too.
  else if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600)
  const text = (readPrivate(file) ?? '').trim()
  const key = Buffer.from(text, 'hex')
  if (/^[0-9a-f]{64}$/.test(text) && isPrivate(key)) return key
  throw new CodedError(
    KEY_FILE,
    `${file} must hold a private key as 64 lower-case hex characters; remove it to have a new one made`
  )
}
