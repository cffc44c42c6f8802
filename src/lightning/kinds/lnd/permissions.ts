import { decodeMacaroon, MacaroonError } from '../../l402/macaroon.ts'

/** Version byte that lnd's bakery writes first. */
const BAKERY_VERSION = 3
const BYTES = 2
const OPERATIONS = 3
const ENTITY = 1
const ACTION = 2

/**
 * Permissions of an lnd macaroon, spelled as `lncli bakemacaroon` does, such as `invoices:read`; null for another
 * issuer's. The identifier is `MacaroonId` of gopkg.in/macaroon-bakery.v2: nonce, root key id, and operations.
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

/** Fields of a protobuf message with bytes fields only; null for others. */
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
