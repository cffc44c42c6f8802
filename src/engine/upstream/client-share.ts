import type { QueuedCall } from './connection.ts'

export class ClientShare {
  running = 0
  inRound = false
  /** The tick when it last lost a connection for delaying others; null after a while. */
  stalledAt: number | null = null
  readonly waiting: QueuedCall[] = []
  readonly most: number

  constructor(most: number) {
    this.most = most
  }

  get wanted(): number {
    return Math.min(this.waiting.length, this.most - this.running)
  }
}

/** Idle clients kept, so that most need no allocation. */
const REMEMBERED = 1024
/**
 * Ticks for which a client that delayed others is deprioritized: a minute. Bounded by the connections lost in that
 * time.
 */
const STALL_MEMORY = 600

/**
 * Fair queue for connections. Clients take turns, one request each, and none exceeds its share, so that one address
 * with many slow requests delays only itself. Requests of one client stay in order.
 *
 * Turns alone fail against many slow addresses, each of which holds its connections for seconds. So clients that lost a
 * connection for that queue behind all others for a while, and share a part of the connections.
 */
export class Round {
  readonly #most: number
  readonly #maxQueued: number
  readonly #shares = new Map<string, ClientShare>()
  readonly #unlimited = new ClientShare(Number.POSITIVE_INFINITY)
  #turns: ClientShare[] = []
  #behind: ClientShare[] = []
  #runningBehind = 0
  #tick = 0

  /** `most` connections per client, `maxQueued` for all deprioritized clients together. */
  constructor(most: number, maxQueued: number) {
    this.#most = most
    this.#maxQueued = maxQueued
  }

  /** A request that may have a connection is queued, though it may be canceled. */
  get occupied(): boolean {
    return this.#turns.length > 0 || (this.#behind.length > 0 && this.#roomBehind > 0)
  }

  /** Deprioritized clients have all the connections they may have. */
  get isQueueFull(): boolean {
    return this.#roomBehind <= 0
  }

  get #roomBehind(): number {
    return this.#maxQueued - this.#runningBehind
  }

  wanted(enough: number): number {
    return Math.min(
      enough,
      wantedOf(this.#turns, enough) + wantedOf(this.#behind, Math.min(enough, Math.max(0, this.#roomBehind)))
    )
  }

  /** `wanted` of the deprioritized clients, ignoring their common limit. */
  wantedBehind(enough: number): number {
    return wantedOf(this.#behind, enough)
  }

  /** Deprioritizes a client that lost a connection for delaying others. */
  noteStall(share: ClientShare): void {
    if (share === this.#unlimited) return
    const known = share.stalledAt !== null
    share.stalledAt = this.#tick
    if (known) return
    this.#runningBehind += share.running
    this.#move(share, this.#turns)
  }

  /** `client` is an address, or the network that counts as one. */
  add(call: QueuedCall, client: string): void {
    const share = this.#shareOf(client)
    share.waiting.push(call)
    this.#join(share)
  }

  /** The share with the next turn and a live request; null for none. */
  first(): ClientShare | null {
    return firstOf(this.#turns) ?? (this.#roomBehind > 0 ? firstOf(this.#behind) : null)
  }

  take(share: ClientShare): QueuedCall | undefined {
    const call = share.waiting.shift()
    share.running++
    if (share.stalledAt !== null) this.#runningBehind++
    const turns = this.#turnsOf(share)
    // Alone it keeps its place, which is the usual case.
    if (turns.length > 1) {
      turns.shift()
      share.inRound = false
      this.#join(share)
    }
    return call
  }

  claim(client: string): ClientShare {
    const share = this.#shareOf(client)
    share.running++
    if (share.stalledAt !== null) this.#runningBehind++
    return share
  }

  release(share: ClientShare): void {
    share.running--
    if (share.stalledAt !== null) this.#runningBehind--
    if (share.waiting.length > 0) this.#join(share)
  }

  /** One tick of the clock: drops canceled requests, expired faults, and idle clients. */
  look(tick: number): void {
    this.#tick = tick
    const many = this.#shares.size > REMEMBERED
    for (const [client, share] of this.#shares) {
      const { waiting } = share
      if (waiting.some(isOver)) waiting.splice(0, waiting.length, ...waiting.filter(call => !isOver(call)))
      if (share.stalledAt !== null && tick - share.stalledAt > STALL_MEMORY) this.#forgive(share)
      if (many && share.running === 0 && waiting.length === 0 && !share.inRound && share.stalledAt === null)
        this.#shares.delete(client)
    }
  }

  clear(): QueuedCall[] {
    const left: QueuedCall[] = []
    for (const share of [...this.#shares.values(), this.#unlimited]) {
      left.push(...share.waiting.splice(0))
      share.inRound = false
    }
    this.#turns = []
    this.#behind = []
    return left
  }

  #forgive(share: ClientShare): void {
    share.stalledAt = null
    this.#runningBehind -= share.running
    this.#move(share, this.#behind)
  }

  #move(share: ClientShare, from: ClientShare[]): void {
    if (!share.inRound) return
    from.splice(from.indexOf(share), 1)
    share.inRound = false
    this.#join(share)
  }

  #turnsOf(share: ClientShare): ClientShare[] {
    return share.stalledAt === null ? this.#turns : this.#behind
  }

  #join(share: ClientShare): void {
    if (share.inRound || share.wanted <= 0) return
    share.inRound = true
    this.#turnsOf(share).push(share)
  }

  #shareOf(client: string): ClientShare {
    if (client === '') return this.#unlimited
    const known = this.#shares.get(client)
    if (known !== undefined) return known
    const created = new ClientShare(this.#most)
    this.#shares.set(client, created)
    return created
  }
}

/** The first turn with a live request; earlier ones lose theirs. */
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
