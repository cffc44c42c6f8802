import { decodeMacaroon, MacaroonError } from '../../l402/macaroon.ts'

/** What the bakery that lnd uses writes before its message. */
const BAKERY_VERSION = 3
const BYTES = 2
const OPERATIONS = 3
const ENTITY = 1
const ACTION = 2

/**
 * What a macaroon of lnd may do, as `lncli bakemacaroon` spells it, such as `invoices:read`; null for one that does not
 * say, since it was made by something else. Its identifier is a message of gopkg.in/macaroon-bakery.v2, `MacaroonId`:
 * nonce, number of the root key, and operations, each an entity with its actions.
 */
export function permissionsOf(macaroon: Uint8Array): string[] | null {
  let identifier: Uint8Array
  try {
    ;({ identifier } = decodeMacaroon(macaroon))
  } catch (error) {
    if (error instanceof MacaroonError) return null
    throw error
  }
  if (identifier[0] !== BAKERY_VERSION) return null
  const operations = fields(identifier.subarray(1))?.filter(({ number }) => number === OPERATIONS)
  const found: string[] = []
  for (const { bytes } of operations ?? []) {
    const parts = fields(bytes)
    const entity = parts?.find(({ number }) => number === ENTITY)
    if (parts === null || entity === undefined) return null
    for (const { number, bytes: action } of parts)
      if (number === ACTION) found.push(`${text(entity.bytes)}:${text(action)}`)
  }
  return found.length === 0 ? null : found
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8')
}

/** The fields of a protobuf message whose fields are all bytes; null for any other. */
function fields(message: Uint8Array): Array<{ readonly number: number; readonly bytes: Uint8Array }> | null {
  const found = []
  for (let at = 0; at < message.length;) {
    const tag = message[at++] ?? 0
    let length = 0
    let shift = 0
    let byte: number
    do {
      byte = message[at++] ?? 0
      length += (byte & 0x7f) * 2 ** shift
      shift += 7
    } while (byte >= 0x80 && shift < 28)
    if ((tag & 7) !== BYTES || tag >= 0x80 || at + length > message.length) return null
    found.push({ number: tag >> 3, bytes: message.subarray(at, at + length) })
    at += length
  }
  return found
}
