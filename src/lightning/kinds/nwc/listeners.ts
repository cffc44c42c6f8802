import { KINDS, type NostrEvent } from './event.ts'
import type { EventGate } from './event-gate.ts'

/** Who hears notifications of a wallet. */
export interface NewsListener {
  /** Public keys of the sender and the receiver. */
  readonly wallet: string
  readonly client: string
  /** The event is genuine, of this wallet and for this client. */
  heard(event: NostrEvent): void
}

/** Connections of one relay whose notifications are heard; the payments of others are polled. */
const MAX_LISTENERS = 250

/** The listeners on one relay. */
export class NewsListeners {
  readonly #all = new Map<string, NewsListener>()

  get size(): number {
    return this.#all.size
  }

  /** Replaces a listener for the same two; false where there are too many. */
  add(listener: NewsListener): boolean {
    const name = nameOf(listener.wallet, listener.client)
    if (this.#all.size >= MAX_LISTENERS && !this.#all.has(name)) return false
    this.#all.set(name, listener)
    return true
  }

  remove({ wallet, client }: NewsListener): boolean {
    return this.#all.delete(nameOf(wallet, client))
  }

  clear(): void {
    this.#all.clear()
  }

  /** Asks a relay for all of their notifications. */
  filter(): object {
    const listeners = [...this.#all.values()]
    return {
      kinds: [KINDS.notification, KINDS.oldNotification],
      authors: [...new Set(listeners.map(({ wallet }) => wallet))],
      '#p': [...new Set(listeners.map(({ client }) => client))]
    }
  }

  /** Gives a genuine event to its listener. Returns the listener of a wallet that floods. */
  heard(event: NostrEvent, gate: EventGate): NewsListener | undefined {
    const find = (client: string) => this.#all.get(nameOf(event.pubkey, client))
    const listener = firstOf(event, 'p', find)
    if (listener === undefined || (event.kind !== KINDS.notification && event.kind !== KINDS.oldNotification))
      return undefined
    if (!gate.takesFrom(event.pubkey)) return listener
    gate.verify(
      event,
      () => find(listener.client) === listener,
      genuine => {
        listener.heard(genuine)
      }
    )
    return undefined
  }
}

function nameOf(wallet: string, client: string): string {
  return `${wallet} ${client}`
}

/** What is kept under the first value of a tag that names something. */
export function firstOf<T>(event: NostrEvent, tag: string, find: (value: string) => T | undefined): T | undefined {
  for (const [name, value = ''] of event.tags) {
    const found = name === tag ? find(value) : undefined
    if (found !== undefined) return found
  }
  return undefined
}
