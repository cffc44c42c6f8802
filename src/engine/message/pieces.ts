const EMPTY = new Uint8Array(0)

/** Most bytes that are joined. */
const BLOCK = 16 * 1024
/** Overhead of a piece in bytes. Without it, a body in pieces of one byte would take hundreds of times its size. */
const PER_PIECE = 512

export function sizeKept(bytes: number): number {
  return bytes + PER_PIECE
}

/** Bytes that wait for a reader. Small pieces are joined: each takes some 350 bytes more, and a write of its own. */
export class Pieces {
  size = 0
  #earlier: Uint8Array[] | null = null
  #last: Uint8Array | null = null
  /** Memory of the last piece, where pieces were joined in it. */
  #block: Uint8Array | null = null

  /** Returns the memory that it takes, as `sizeKept` counts what `shift` returns. */
  add(piece: Uint8Array): number {
    this.size += piece.byteLength
    const last = this.#last
    if (last === null) {
      this.#last = piece
      return sizeKept(piece.byteLength)
    }
    const size = last.byteLength + piece.byteLength
    if (size > BLOCK) {
      this.#earlier ??= []
      this.#earlier.push(last)
      this.#last = piece
      this.#block = null
      return sizeKept(piece.byteLength)
    }
    if (this.#block === null || size > this.#block.byteLength) {
      this.#block = Buffer.allocUnsafeSlow(Math.min(BLOCK, 2 * size))
      this.#block.set(last)
    }
    this.#block.set(piece, last.byteLength)
    this.#last = this.#block.subarray(0, size)
    return piece.byteLength
  }

  shift(): Uint8Array | null {
    const first = this.#earlier?.shift()
    if (first !== undefined) {
      this.size -= first.byteLength
      return first
    }
    const last = this.#last
    this.clear()
    return last
  }

  /** All of them as one; they stay. */
  joined(): Uint8Array {
    const last = this.#last ?? EMPTY
    return this.#earlier === null ? last : Buffer.concat([...this.#earlier, last])
  }

  clear(): void {
    this.size = 0
    this.#earlier = this.#last = this.#block = null
  }
}
