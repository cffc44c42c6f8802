import type { QueuedCall } from './connection.ts'

/** One client's part of the connections to an upstream. */
export class ClientShare {
  /** Connections that carry a request of this client. */
  running = 0
  /** It stands in the round. */
  inRound = false
  /**
   * The tick in which a connection was last taken from it because it kept others waiting; null where that is long ago.
   */
  dawdledAt: number | null = null
  /** Requests that wait for a connection, in the order in which they came. */
  readonly waiting: QueuedCall[] = []
  /** Most connections at once. */
  readonly most: number

  constructor(most: number) {
    this.most = most
  }

  /** How many more connections its waiting requests may take. */
  get wanted(): number {
    return Math.min(this.waiting.length, this.most - this.running)
  }
}

/** Clients that are remembered although they ask for nothing, so that most are found and not made. */
const REMEMBERED = 1024
/**
 * Ticks for which a client that kept others waiting goes behind them: a minute. No more are remembered than can lose a
 * connection in it.
 */
const GRUDGE = 600

/**
 * Who gets the next connection. Clients take turns, one request each, and none has more connections at once than its
 * share, so that one address with many slow requests keeps only its own others waiting. Requests of one client go in
 * their order.
 *
 * Turns alone are not enough against many slow addresses: each holds what it gets for seconds, and whoever asks more
 * often than its turn comes would wait ever longer. So clients that lost a connection for that go behind all others for
 * a while, and have a part of the connections between them; the rest is free whenever somebody else comes.
 */
export class Round {
  readonly #most: number
  readonly #mostBehind: number
  readonly #shares = new Map<string, ClientShare>()
  /** Requests that are nobody's in particular. */
  readonly #nobody = new ClientShare(Number.POSITIVE_INFINITY)
  #turns: ClientShare[] = []
  /** The turns of those that kept others waiting. */
  #behind: ClientShare[] = []
  /** Connections that carry their requests. */
  #runningBehind = 0
  #tick = 0

  /** `most` connections for one client, and `mostBehind` for all together that lately kept others waiting. */
  constructor(most: number, mostBehind: number) {
    this.#most = most
    this.#mostBehind = mostBehind
  }

  /** Some request that may have a connection stands in it, though perhaps nobody waits for it any more. */
  get occupied(): boolean {
    return this.#turns.length > 0 || (this.#behind.length > 0 && this.#roomBehind > 0)
  }

  /** Those that kept others waiting have all the connections that they may have. */
  get crowdedBehind(): boolean {
    return this.#roomBehind <= 0
  }

  get #roomBehind(): number {
    return this.#mostBehind - this.#runningBehind
  }

  /** How many connections the waiting requests may take, as far as `enough`. */
  wanted(enough: number): number {
    return Math.min(
      enough,
      wantedOf(this.#turns, enough) + wantedOf(this.#behind, Math.min(enough, Math.max(0, this.#roomBehind)))
    )
  }

  /** As `wanted`, of those alone that lately kept others waiting, whatever all of them together may have. */
  wantedBehind(enough: number): number {
    return wantedOf(this.#behind, enough)
  }

  /** A connection is taken from this client because it kept others waiting. */
  dawdled(share: ClientShare): void {
    if (share === this.#nobody) return
    const known = share.dawdledAt !== null
    share.dawdledAt = this.#tick
    if (known) return
    this.#runningBehind += share.running
    this.#move(share, this.#turns)
  }

  /** Lets a request wait. `client` is its address, or the network that counts as one. */
  add(call: QueuedCall, client: string): void {
    const share = this.#shareOf(client)
    share.waiting.push(call)
    this.#join(share)
  }

  /** The share whose turn it is and whose first request somebody still waits for; null when none is. */
  first(): ClientShare | null {
    return firstOf(this.#turns) ?? (this.#roomBehind > 0 ? firstOf(this.#behind) : null)
  }

  /** Takes the first request of the share whose turn it is, for a connection. */
  take(share: ClientShare): QueuedCall | undefined {
    const call = share.waiting.shift()
    share.running++
    if (share.dawdledAt !== null) this.#runningBehind++
    const turns = this.#turnsOf(share)
    // Alone it keeps its place, which is the usual case.
    if (turns.length > 1) {
      turns.shift()
      share.inRound = false
      this.#join(share)
    }
    return call
  }

  /** Counts a connection that is made for one request of this client. */
  claim(client: string): ClientShare {
    const share = this.#shareOf(client)
    share.running++
    if (share.dawdledAt !== null) this.#runningBehind++
    return share
  }

  /** A connection of this share is free again. */
  release(share: ClientShare): void {
    share.running--
    if (share.dawdledAt !== null) this.#runningBehind--
    if (share.waiting.length > 0) this.#join(share)
  }

  /**
   * One tick of the clock: forgets requests that nobody waits for any more, old faults, and clients that want nothing.
   */
  look(tick: number): void {
    this.#tick = tick
    const many = this.#shares.size > REMEMBERED
    for (const [client, share] of this.#shares) {
      const { waiting } = share
      if (waiting.some(isOver)) waiting.splice(0, waiting.length, ...waiting.filter(call => !isOver(call)))
      if (share.dawdledAt !== null && tick - share.dawdledAt > GRUDGE) this.#forgive(share)
      if (many && share.running === 0 && waiting.length === 0 && !share.inRound && share.dawdledAt === null)
        this.#shares.delete(client)
    }
  }

  /** Empties it; returns what waited. */
  clear(): QueuedCall[] {
    const left: QueuedCall[] = []
    for (const share of [...this.#shares.values(), this.#nobody]) {
      left.push(...share.waiting.splice(0))
      share.inRound = false
    }
    this.#turns = []
    this.#behind = []
    return left
  }

  #forgive(share: ClientShare): void {
    share.dawdledAt = null
    this.#runningBehind -= share.running
    this.#move(share, this.#behind)
  }

  /** Lets it stand where it belongs now. */
  #move(share: ClientShare, from: ClientShare[]): void {
    if (!share.inRound) return
    from.splice(from.indexOf(share), 1)
    share.inRound = false
    this.#join(share)
  }

  #turnsOf(share: ClientShare): ClientShare[] {
    return share.dawdledAt === null ? this.#turns : this.#behind
  }

  #join(share: ClientShare): void {
    if (share.inRound || share.wanted <= 0) return
    share.inRound = true
    this.#turnsOf(share).push(share)
  }

  #shareOf(client: string): ClientShare {
    if (client === '') return this.#nobody
    const known = this.#shares.get(client)
    if (known !== undefined) return known
    const made = new ClientShare(this.#most)
    this.#shares.set(client, made)
    return made
  }
}

/** The first of these turns whose first request somebody still waits for; those before it lose theirs. */
function firstOf(turns: ClientShare[]): ClientShare | null {
  for (;;) {
    const share = turns[0]
    if (share === undefined) return null
    while (share.waiting[0]?.handler.over === true) share.waiting.shift()
    if (share.wanted > 0) return share
    turns.shift()
    share.inRound = false
  }
}

function wantedOf(turns: readonly ClientShare[], enough: number): number {
  let wanted = 0
  for (const share of turns) {
    if (wanted >= enough) return enough
    wanted += share.wanted
  }
  return Math.min(wanted, enough)
}

function isOver(call: QueuedCall): boolean {
  return call.handler.over
}
