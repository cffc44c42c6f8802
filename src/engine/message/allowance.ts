import { sizeKept } from './pieces.ts'

/** Memory budget shared by many connections; one that finds it used up does without. */
export class Allowance {
  used = 0
  readonly most: number

  constructor(most: number) {
    this.most = most
  }

  /** Returns false, and takes nothing, where that would exceed the budget. */
  take(bytes: number): boolean {
    if (this.used + bytes > this.most) return false
    this.used += bytes
    return true
  }

  give(bytes: number): void {
    this.used -= bytes
  }
}

/** What each client network has in flight. */
export class ClientCounts {
  readonly #counts = new Map<string, number>()

  /** Returns false, and counts nothing, where the client has `most` already. */
  take(network: string, most: number): boolean {
    const count = this.#counts.get(network) ?? 0
    if (count >= most) return false
    this.#counts.set(network, count + 1)
    return true
  }

  give(network: string): void {
    const left = (this.#counts.get(network) ?? 1) - 1
    if (left === 0) this.#counts.delete(network)
    else this.#counts.set(network, left)
  }
}

export interface Keeping {
  /** Bytes for one slow client, in one direction. */
  readonly each: number
  readonly slow: Allowance
  /** For bodies from unauthenticated senders while an operation reads them. */
  readonly shared: Allowance
}

/**
 * Reserves room for another piece of a slow client that has `kept` so much; returns the bytes counted, or 0 without
 * room.
 */
export function keepFor({ each, slow }: Keeping, kept: number, bytes: number): number {
  const size = sizeKept(bytes)
  return kept + size <= each && slow.take(size) ? size : 0
}
