/**
 * Protocol between the gateway and its embedded database's process: frames of a kind, a length and that many bytes.
 * Answers are PostgreSQL's own stream, passed on uncopied.
 */
import { readSync, writeSync } from 'node:fs'
import type { Socket } from 'node:net'

/** To the database: `request`, `close`. From it: the others; their bytes are JSON or UTF-8 text. */
export const frame = {
  /** Whole messages of the wire protocol. */
  request: 1,
  /** Empty: close the database and exit. */
  close: 2,
  ready: 3,
  warning: 4,
  /** Text: why it could not start. */
  failed: 5,
  /** Text: the id (or empty) of another process that has the folder. */
  inUse: 6,
  /** Bytes of the wire protocol. */
  answer: 7,
  /** Text: why its further output is invalid. */
  broken: 8
} as const

export type FrameKind = (typeof frame)[keyof typeof frame]

const headLength = 5

function headOf(kind: FrameKind, length: number): Buffer {
  const head = Buffer.allocUnsafe(headLength)
  head.writeUInt8(kind, 0)
  head.writeUInt32LE(length, 1)
  return head
}

export function sendFrame(to: Socket, kind: FrameKind, bytes: Uint8Array): void {
  to.cork()
  to.write(headOf(kind, bytes.length))
  to.write(bytes)
  to.uncork()
}

/**
 * The database's side: sends a frame synchronously.
 * @throws EPIPE and the like when the gateway is gone.
 */
export function sendFrameSync(fd: number, kind: FrameKind, bytes: Uint8Array): void {
  let left = Buffer.concat([headOf(kind, bytes.length), bytes])
  while (left.length > 0) left = left.subarray(writeSync(fd, left))
}

/**
 * The database's side: waits for the next frame; null when the gateway has closed the pipe.
 * @throws ECONNRESET and the like
 */
export function receiveFrameSync(fd: number): { kind: number; bytes: Buffer } | null {
  const head = readSyncWhole(fd, headLength)
  const bytes = head === null ? null : readSyncWhole(fd, head.readUInt32LE(1))
  return head === null || bytes === null ? null : { kind: head.readUInt8(0), bytes }
}

function readSyncWhole(fd: number, length: number): Buffer | null {
  const bytes = Buffer.allocUnsafe(length)
  for (let at = 0; at < length;) {
    const got = readSync(fd, bytes, at, length - at, null)
    if (got === 0) return null
    at += got
  }
  return bytes
}

export class FrameReader {
  readonly #whole: (kind: number, bytes: Buffer) => void
  readonly #answer: (bytes: Buffer, whole: boolean) => void
  readonly #head = Buffer.alloc(headLength)
  #headFilled = 0
  #left = 0
  #dependencies: Buffer[] = []

  /**
   * @param answer called with the bytes of answers in pieces; `whole` with the last piece of each, which may be empty.
   * @param whole called with each frame of another kind.
   */
  constructor(answer: (bytes: Buffer, whole: boolean) => void, whole: (kind: number, bytes: Buffer) => void) {
    this.#answer = answer
    this.#whole = whole
  }

  /** Keeps the bytes, or passes them on, uncopied. */
  read(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length) {
      if (this.#headFilled < headLength) {
        const taken = bytes.copy(this.#head, this.#headFilled, at)
        at += taken
        this.#headFilled += taken
        if (this.#headFilled < headLength) return
        this.#left = this.#head.readUInt32LE(1)
      }
      // Empty when the frame has no bytes, or none of them here.
      const piece = bytes.subarray(at, at + this.#left)
      at += piece.length
      this.#left -= piece.length
      this.#take(this.#head.readUInt8(0), piece)
    }
  }

  #take(kind: number, piece: Buffer): void {
    const done = this.#left === 0
    if (done) this.#headFilled = 0
    if (kind === frame.answer) {
      if (done || piece.length > 0) this.#answer(piece, done)
      return
    }
    if (!done) {
      this.#dependencies.push(piece)
      return
    }
    const bytes = this.#dependencies.length === 0 ? piece : Buffer.concat([...this.#dependencies, piece])
    this.#dependencies = []
    this.#whole(kind, bytes)
  }
}
