import { KINDS, type NostrEvent } from './event.ts'
import type { EventGate } from './event-gate.ts'

export interface NewsListener {
  /** Sender's and receiver's public keys. */
  readonly wallet: string
  readonly client: string
  /** The event is verified and from this wallet to this client. */
  heard(event: NostrEvent): void
}

/** Connections per relay with notifications; the others are polled. */
const MAX_LISTENERS = 250

export class NewsListeners {
  readonly #all = new Map<string, NewsListener>()

  get size(): number {
    return this.#all.size
  }

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

  filter(): object {
    const listeners = [...this.#all.values()]
    return {
      kinds: [KINDS.notification, KINDS.oldNotification],
      authors: [...new Set(listeners.map(({ wallet }) => wallet))],
      '#p': [...new Set(listeners.map(({ client }) => client))]
    }
  }

  /** Dispatches a verified event. Returns the listener of a flooding wallet. */
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

/** Looks up by the first known value of a tag. */
export function firstOf<T>(event: NostrEvent, tag: string, find: (value: string) => T | undefined): T | undefined {
  for (const [name, value = ''] of event.tags) {
    const found = name === tag ? find(value) : undefined
    if (found !== undefined) return found
  }
  return undefined
}
