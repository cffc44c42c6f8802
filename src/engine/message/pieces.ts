const EMPTY = new Uint8Array(0)

/** Most bytes that are joined. */
const BLOCK = 16 * 1024

/** Bytes that wait for a reader. Small pieces are joined: each takes some 350 bytes more, and a write of its own. */
export class Pieces {
  size = 0
  #earlier: Uint8Array[] | null = null
  #last: Uint8Array | null = null
  /** Memory of the last piece, where pieces were joined in it. */
  #block: Uint8Array | null = null

  add(piece: Uint8Array): void {
    this.size += piece.byteLength
    const last = this.#last
    if (last === null) {
      this.#last = piece
      return
    }
    const size = last.byteLength + piece.byteLength
    if (size > BLOCK) {
      this.#earlier ??= []
      this.#earlier.push(last)
      this.#last = piece
      this.#block = null
      return
    }
    if (this.#block === null || size > this.#block.byteLength) {
      this.#block = Buffer.allocUnsafeSlow(Math.min(BLOCK, 4 * size))
      this.#block.set(last)
    }
    this.#block.set(piece, last.byteLength)
    this.#last = this.#block.subarray(0, size)
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
