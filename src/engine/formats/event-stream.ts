import type { Clock } from '../../platform/system/clock.ts'
import type { StreamBody } from '../message/reply.ts'

/** WHATWG HTML, 9.2 "Server-sent events". */
interface ServerSentEvent {
  /** May have several lines; every line end becomes LF. */
  readonly data: string
  /** Sent back as Last-Event-ID on reconnect; one line. */
  readonly id?: string
  /** Default `message`; one line. */
  readonly event?: string
}

export interface EventSink {
  /**
   * Throws `TypeError` when `id` or `event` is more than one line. Ends the stream of a client that has stopped
   * reading, which then reconnects.
   */
  send(event: ServerSentEvent): void
  end(): void
}

export interface EventStreamOptions {
  readonly clock: Clock
  /** Called once, when the client is connected; returns the clean-up, called once at the end. */
  readonly begin: (events: EventSink) => () => void
  readonly retry?: number
  readonly heartbeat?: number
  /** Ends the stream after this age, so that clients rebalance over the current processes. */
  readonly maxAge?: number
}

/** Prevents caching, and buffering by nginx. */
export const EVENT_STREAM_HEADERS: readonly string[] = Object.freeze([
  'Cache-Control',
  'no-store',
  'X-Accel-Buffering',
  'no'
])

const RETRY = 3000
const HEARTBEAT = 15_000
const MAX_AGE = 600_000

const HEARTBEAT_COMMENT = Buffer.from(':\n\n')

/** Throws when `value` would end its line, since the rest would be injected fields. Clients drop an id with NUL. */
function line(name: 'id' | 'event', value: string): string {
  // oxlint-disable-next-line no-control-regex -- NUL is what must not be there
  if (/[\r\n\0]/.test(value)) throw new TypeError(`the ${name} of an event is one line`)
  return `${name}: ${value}\n`
}

export function encodeEvent({ data, id, event }: ServerSentEvent): string {
  let text = ''
  if (event !== undefined) text += line('event', event)
  if (id !== undefined) text += line('id', id)
  // All three line ends of the format, so that data cannot inject fields or events.
  for (const piece of data.split(/\r\n|\r|\n/)) text += `data: ${piece}\n`
  return `${text}\n`
}

/**
 * A body of server-sent events, for `text/event-stream` with `EVENT_STREAM_HEADERS`. Ends with its source, at its
 * maximum age, and on shutdown; clients reconnect.
 */
export function eventStream({
  clock,
  begin,
  retry = RETRY,
  heartbeat = HEARTBEAT,
  maxAge = MAX_AGE
}: EventStreamOptions): StreamBody {
  return {
    open(sink) {
      // Sent with the first event, so that a source that fails to start is still answered as an error.
      let opening = `retry: ${retry}\n`
      let takes = true
      const write = (text: string): void => {
        takes = sink.write(opening + text)
        opening = ''
      }
      const end = (): void => {
        sink.end()
      }
      sink.onDrain = () => {
        takes = true
      }
      sink.onStopping = end
      const stop = begin({
        send(event) {
          const text = encodeEvent(event)
          if (takes) write(text)
          else end()
        },
        end
      })
      if (opening !== '') write('\n')
      // An unread comment is useless and would look like progress.
      const beat = clock.every(heartbeat, () => {
        if (takes) takes = sink.write(HEARTBEAT_COMMENT)
      })
      const age = clock.after(maxAge, end)
      return () => {
        beat.cancel()
        age.cancel()
        stop()
      }
    }
  }
}
