import type { Socket } from 'node:net'
import { normalAddress, parseAddress } from '../message/addresses.ts'

/**
 * What a connection begins with: a header of the PROXY protocol, of which `length` bytes are read and `address` is the
 * client's (null if the proxy itself connects, or the client's address is unknown), no header, or a part of one.
 */
type Introduction =
  | { readonly kind: 'header'; readonly address: string | null; readonly length: number }
  | { readonly kind: 'none' | 'part' | 'malformed' }

const NONE: Introduction = { kind: 'none' }
const PART: Introduction = { kind: 'part' }
const MALFORMED: Introduction = { kind: 'malformed' }

const SIGNATURE_1 = Buffer.from('PROXY ')
const SIGNATURE_2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const LONGEST_1 = 107
const HEAD_2 = 16
/** Additional data (TLVs) is skipped; more than this is no proxy's. */
const LONGEST_2 = 4096

/**
 * Reads a header of the PROXY protocol, version 1 or 2 (HAProxy's specification, sections 2.1 and 2.2). No HTTP or TLS
 * client begins so.
 */
export function readProxyHeader(bytes: Buffer): Introduction {
  for (const [signature, read] of [
    [SIGNATURE_1, readText],
    [SIGNATURE_2, readBinary]
  ] as const) {
    const length = Math.min(bytes.length, signature.length)
    if (bytes.compare(signature, 0, length, 0, length) === 0) return length < signature.length ? PART : read(bytes)
  }
  return NONE
}

function readText(bytes: Buffer): Introduction {
  const end = bytes.subarray(0, LONGEST_1).indexOf('\r\n')
  if (end < 0) return bytes.length < LONGEST_1 ? PART : MALFORMED
  const [, family, source = '', ...others] = bytes.toString('latin1', 0, end).split(' ')
  const length = end + 2
  if (family === 'UNKNOWN') return { kind: 'header', address: null, length }
  const isKnown = family === 'TCP4' ? !source.includes(':') : family === 'TCP6' && source.includes(':')
  if (!isKnown || others.length !== 3 || parseAddress(source) === null) return MALFORMED
  return { kind: 'header', address: normalAddress(source), length }
}

function readBinary(bytes: Buffer): Introduction {
  if (bytes.length < HEAD_2) return PART
  const [version, command] = [bytes.readUInt8(12) >> 4, bytes.readUInt8(12) & 15]
  const [family, transport] = [bytes.readUInt8(13) >> 4, bytes.readUInt8(13) & 15]
  const length = HEAD_2 + bytes.readUInt16BE(14)
  if (version !== 2 || command > 1 || length > LONGEST_2) return MALFORMED
  if (bytes.length < length) return PART
  // LOCAL: the proxy's own health check. Families other than IP over TCP say nothing that we use.
  if (command === 0 || transport !== 1 || (family !== 1 && family !== 2))
    return { kind: 'header', address: null, length }
  const size = family === 1 ? 4 : 16
  // Both addresses and both ports.
  if (length < HEAD_2 + 2 * size + 4) return MALFORMED
  const source = bytes.subarray(HEAD_2, HEAD_2 + size)
  const text = family === 1 ? source.join('.') : (source.toString('hex').match(/..../g) ?? []).join(':')
  return { kind: 'header', address: normalAddress(text), length }
}

/**
 * Reads the PROXY header of a trusted proxy's connection, if it has one, and leaves all behind it unread in the paused socket. `introduced`
 * receives the client's address, null without one. A malformed header ends the connection.
 */
export function awaitProxyHeader(socket: Socket, introduced: (address: string | null) => void): void {
  let held: Buffer | null = null
  const read = (bytes: Buffer): void => {
    held = held === null ? bytes : Buffer.concat([held, bytes])
    const found = readProxyHeader(held)
    if (found.kind === 'part') return
    socket.off('data', read)
    socket.off('end', leave)
    if (found.kind === 'malformed') {
      socket.destroy()
      return
    }
    const rest = found.kind === 'header' ? held.subarray(found.length) : held
    // The TLS socket that may come here reads what is buffered, but not what flows.
    socket.pause()
    if (rest.length > 0) socket.unshift(rest)
    introduced(found.kind === 'header' ? found.address : null)
  }
  const leave = (): void => {
    socket.destroy()
  }
  socket.on('data', read)
  socket.on('end', leave)
}
