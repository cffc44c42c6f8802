import type { QueuedCall } from './connection.ts'

/** One client's part of the connections to an upstream. */
export class ClientShare {
  /** Connections that carry a request of this client. */
  running = 0
  /** It stands in the round. */
  inRound = false
  /** Requests that wait for a connection, in the order in which they came. */
  readonly waiting: QueuedCall[] = []
  /** Most connections at once. */
  readonly most: number

  constructor (most: number) {
    this.most = most
  }

  /** How many more connections its waiting requests may take. */
  get wanted (): number {
    return Math.min(this.waiting.length, this.most - this.running)
  }
}

/** Clients that are remembered although they ask for nothing, so that most are found and not made. */
const REMEMBERED = 1024

/**
 * Who gets the next connection. Clients take turns, one request each, and none has more connections at once than its share, so
 * that one address with many slow requests keeps only its own others waiting. Requests of one client go in their order.
 */
export class Round {
  readonly #most: number
  readonly #shares = new Map<string, ClientShare>()
  /** Requests that are nobody's in particular. */
  readonly #nobody = new ClientShare(Number.POSITIVE_INFINITY)
  #turns: ClientShare[] = []

  /** `most` connections for one client. */
  constructor (most: number) {
    this.#most = most
  }

  /** Some request may stand in it, though perhaps nobody waits for it any more. */
  get occupied (): boolean {
    return this.#turns.length > 0
  }

  /** How many connections the waiting requests may take, as far as `enough`. */
  wanted (enough: number): number {
    let wanted = 0
    for (const share of this.#turns) {
      wanted += share.wanted
      if (wanted >= enough) return enough
    }
    return wanted
  }

  /** Lets a request wait. `client` is its address, or the network that counts as one. */
  add (call: QueuedCall, client: string): void {
    const share = this.#shareOf(client)
    share.waiting.push(call)
    this.#join(share)
  }

  /** The share whose turn it is and whose first request somebody still waits for; null when none is. */
  first (): ClientShare | null {
    for (;;) {
      const share = this.#turns[0]
      if (share === undefined) return null
      while (share.waiting[0]?.handler.over === true) share.waiting.shift()
      if (share.wanted > 0) return share
      this.#turns.shift()
      share.inRound = false
    }
  }

  /** Takes the first request of the share whose turn it is, for a connection. */
  take (share: ClientShare): QueuedCall | undefined {
    const call = share.waiting.shift()
    share.running++
    // Alone it keeps its place, which is the usual case.
    if (this.#turns.length > 1) {
      this.#turns.shift()
      share.inRound = false
      this.#join(share)
    }
    return call
  }

  /** A connection of this share is free again. */
  release (share: ClientShare): void {
    share.running--
    if (share.waiting.length > 0) this.#join(share)
  }

  /** One tick of the clock: forgets requests that nobody waits for any more, and clients that want nothing. */
  look (): void {
    const many = this.#shares.size > REMEMBERED
    for (const [client, share] of this.#shares) {
      const { waiting } = share
      if (waiting.some(isOver)) waiting.splice(0, waiting.length, ...waiting.filter(call => !isOver(call)))
      if (many && share.running === 0 && waiting.length === 0 && !share.inRound) this.#shares.delete(client)
    }
  }

  /** Empties it; answers what waited. */
  clear (): QueuedCall[] {
    const left: QueuedCall[] = []
    for (const share of [...this.#shares.values(), this.#nobody]) {
      left.push(...share.waiting.splice(0))
      share.inRound = false
    }
    this.#turns = []
    return left
  }

  #join (share: ClientShare): void {
    if (share.inRound || share.wanted <= 0) return
    share.inRound = true
    this.#turns.push(share)
  }

  #shareOf (client: string): ClientShare {
    if (client === '') return this.#nobody
    const known = this.#shares.get(client)
    if (known !== undefined) return known
    const made = new ClientShare(this.#most)
    this.#shares.set(client, made)
    return made
  }
}

function isOver (call: QueuedCall): boolean {
  return call.handler.over
}
