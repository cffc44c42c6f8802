import type { Clock, Timer } from '../../system/clock.ts'
import { isConnectionFault } from '../errors.ts'
import { openServer, type PostgresClient } from './client.ts'
import type { Log } from '../../telemetry/log.ts'
import type { Silence } from './silence.ts'

const retryMs = 1_000

/**
 * Listens over its own connection, and again after every loss. postgres.js's `listen` repeats silently and only after a
 * lost connection: a server that keeps the connection and refuses, as a standby does before promotion, would never
 * notify.
 */
export class PostgresListener {
  readonly #client: PostgresClient
  readonly #clock: Clock
  readonly #log: Log
  readonly #silence: Silence
  readonly #channels = new Map<string, Set<(payload: string) => void>>()
  #retry: Timer | null = null
  #closed = false

  /** Connects with the first `listen`. `silence` limits its statements, not the time between notifications. */
  constructor(url: string, { clock, log, silence }: { clock: Clock; log: Log; silence: Silence }) {
    this.#clock = clock
    this.#log = log
    this.#silence = silence
    this.#client = openServer(
      url,
      { silence, settings: { application_name: 'boltgate-listener' } },
      {
        max: 1,
        idle_timeout: undefined,
        max_lifetime: null,
        onnotify: (channel: string, payload: string) => {
          for (const heard of this.#channels.get(channel) ?? []) heard(payload)
        },
        onclose: () => {
          this.#later()
        }
      }
    )
  }

  /**
   * Does not wait for an unavailable PostgreSQL: retries every second.
   * @returns a function that stops it.
   */
  async listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>> {
    const listeners = this.#channels.get(channel) ?? new Set()
    this.#channels.set(channel, listeners)
    listeners.add(heard)
    await this.#begin(channel)
    return async () => {
      if (!listeners.delete(heard) || listeners.size > 0 || this.#closed) return
      this.#channels.delete(channel)
      await this.#silence.limit(this.#client`unlisten ${this.#client(channel)}`).catch(ignoreFault)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#retry?.cancel()
    await this.#client.end({ timeout: 1 })
  }

  async #begin(channel: string): Promise<void> {
    try {
      // PostgreSQL ignores a repetition.
      await this.#silence.limit(this.#client`listen ${this.#client(channel)}`)
    } catch (error) {
      if (!isConnectionFault(error)) throw error
      this.#later()
    }
  }

  #later(): void {
    if (this.#closed || this.#retry !== null || this.#channels.size === 0) return
    this.#retry = this.#clock.after(retryMs, () => {
      this.#retry = null
      for (const channel of this.#channels.keys()) {
        this.#begin(channel).catch((error: unknown) => {
          this.#log.error({ err: error, channel }, 'Could not listen to PostgreSQL again')
        })
      }
    })
  }
}

// The connection is gone, and the subscription with it.
function ignoreFault(error: unknown): void {
  if (!isConnectionFault(error)) throw error
}
