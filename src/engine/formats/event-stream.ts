import type { Clock } from '../../platform/system/clock.ts'
import type { StreamBody } from '../message/reply.ts'

/** One server-sent event (WHATWG HTML, 9.2 "Server-sent events"). */
export interface ServerSentEvent {
  /** May have several lines; the client gets each kind of line end as LF. */
  readonly data: string
  /** What the client sends as Last-Event-ID when it comes back; one line. */
  readonly id?: string
  /** Name of the event, `message` unless said; one line. */
  readonly event?: string
}

/** Where the source of an event stream sends its events. Both are ignored once the stream is over. */
export interface EventSink {
  /**
   * Throws `TypeError` when `id` or `event` is more than one line. A client that has stopped reading gets the end
   * instead, and comes back.
   */
  send(event: ServerSentEvent): void
  end(): void
}

/** What an event stream is made of. Times in milliseconds. */
export interface EventStreamOptions {
  readonly clock: Clock
  /** Called once, when the client is there; returns what is called once when the stream is over. */
  readonly begin: (events: EventSink) => () => void
  /** How long the client waits before it comes back. */
  readonly retry?: number
  /** How often a comment keeps the connection of a quiet stream open. */
  readonly heartbeat?: number
  /** After so long it ends, so that clients spread over the processes that there are now. */
  readonly maxAge?: number
}

/**
 * What every event stream's response carries beside its media type: no cache keeps it, and nginx does not hold its
 * pieces back.
 */
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

/**
 * Throws when `value` would end its line: what follows would be fields of the sender's choice. A NUL makes clients drop
 * an id.
 */
function line(name: 'id' | 'event', value: string): string {
  // oxlint-disable-next-line no-control-regex -- NUL is what must not be there
  if (/[\r\n\0]/.test(value)) throw new TypeError(`the ${name} of an event is one line`)
  return `${name}: ${value}\n`
}

/** The event in the stream's form. Throws `TypeError` when `id` or `event` is more than one line. */
export function encodeEvent({ data, id, event }: ServerSentEvent): string {
  let text = ''
  if (event !== undefined) text += line('event', event)
  if (id !== undefined) text += line('id', id)
  // All three line ends of the format, so that no data can begin a field or an event of its own.
  for (const piece of data.split(/\r\n|\r|\n/)) text += `data: ${piece}\n`
  return `${text}\n`
}

/**
 * A body of server-sent events for a response with the media type `text/event-stream` and `EVENT_STREAM_HEADERS`. It
 * ends when its source ends it, at its greatest age, and when the process is about to stop; clients come back by
 * themselves.
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
      // It goes out with the first event, so that a source that cannot begin is still answered as an error.
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
      // An unread comment is of no use to anybody, and would look like progress.
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
