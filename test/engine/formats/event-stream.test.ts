import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import fc from 'fast-check'
import { Chain } from '../../../src/engine/pipeline/chain.ts'
import {
  encodeEvent,
  EVENT_STREAM_HEADERS,
  type EventSink,
  eventStream,
  type EventStreamOptions
} from '../../../src/engine/formats/event-stream.ts'
import { Exchange } from '../../../src/engine/pipeline/exchange.ts'
import type { StreamSink } from '../../../src/engine/message/reply.ts'
import { openDoor } from '../listener/support.ts'
import { ManualClock } from '../../support/manual-clock.ts'

interface Received {
  readonly event: string
  readonly data: string
  readonly id: string
}

/** Reads a stream as the standard says ("Interpreting an event stream"), with its retry time. */
function interpret(stream: string) {
  const events: Received[] = []
  let [event, data, id] = ['', '', '']
  let retry: number | null = null
  const lines = stream.split(/\r\n|\r|\n/)
  // What follows the last line end is not a line yet.
  lines.pop()
  for (const line of lines) {
    if (line === '') {
      if (data !== '') events.push({ event: event === '' ? 'message' : event, data: data.slice(0, -1), id })
      event = data = ''
      continue
    }
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'event') event = value
    else if (field === 'data') data += `${value}\n`
    else if (field === 'id' && !value.includes('\0')) id = value
    else if (field === 'retry' && /^[0-9]+$/.test(value)) retry = Number(value)
  }
  return { events, retry }
}

interface Opened {
  readonly clock: ManualClock
  readonly events: EventSink
  readonly sink: StreamSink
  readonly seen: { text: string; writes: number; takes: boolean; ended: number; stops: number }
}

/** An event stream over a sink that remembers. */
function opened(
  options: Partial<Omit<EventStreamOptions, 'begin'>> = {},
  first: (events: EventSink) => void = () => {}
): Opened {
  const clock = new ManualClock()
  const seen = { text: '', writes: 0, takes: true, ended: 0, stops: 0 }
  let events: EventSink | null = null
  let close: (() => void) | null = null
  const sink: StreamSink = {
    onDrain: null,
    onStopping: null,
    write(piece) {
      if (seen.ended > 0) return false
      seen.text += typeof piece === 'string' ? piece : Buffer.from(piece).toString()
      seen.writes++
      return seen.takes
    },
    end() {
      if (seen.ended++ === 0) close?.()
    },
    fail(error) {
      throw error
    }
  }
  close = eventStream({
    clock,
    begin(given) {
      events = given
      first(given)
      return () => {
        seen.stops++
      }
    },
    ...options
  }).open(sink)
  if (events === null) throw new Error('the stream did not begin')
  return { clock, events, sink, seen }
}

t.test('an event has its name, its id and a line for each line of its data', async t => {
  t.equal(encodeEvent({ data: 'paid' }), 'data: paid\n\n')
  t.equal(encodeEvent({ event: 'status', id: '7', data: '{"a":1}' }), 'event: status\nid: 7\ndata: {"a":1}\n\n')
  t.equal(encodeEvent({ data: 'a\nb\r\nc\rd\n' }), 'data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n')
  t.equal(encodeEvent({ id: '', data: '' }), 'id: \ndata: \n\n')
})

t.test('whatever the data is, the client gets that one event', async t => {
  const piece = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('\r', '\n', '\r\n', '\n\n', ' ', ':', 'data: x', 'event: evil', 'id: 9', 'retry: 1')
  )
  const text = fc.array(piece, { maxLength: 8 }).map(pieces => pieces.join(''))
  const name = fc.stringMatching(/^[^\r\n\0]{1,20}$/)
  fc.assert(
    fc.property(text, name, name, (data, id, event) => {
      const { events, retry } = interpret(encodeEvent({ data, id, event }))
      // A client drops one space behind the colon, which is ours.
      t.strictSame(events, [{ event, data: data.replaceAll(/\r\n|\r/g, '\n'), id }])
      t.equal(retry, null)
    }),
    { numRuns: 300 }
  )
})

t.test('an id or a name cannot begin another field', async t => {
  for (const value of ['1\ndata: evil', '1\rdata: evil', '1\r\n', 'a\0b']) {
    t.throws(() => encodeEvent({ data: 'x', id: value }), {
      name: 'TypeError',
      message: 'the id of an event is one line'
    })
    t.throws(() => encodeEvent({ data: 'x', event: value }), {
      name: 'TypeError',
      message: 'the event of an event is one line'
    })
  }
})

t.test('a stream sends its retry time first, immediately even without an event', async t => {
  const quiet = opened({ retry: 2500 })
  t.equal(quiet.seen.text, 'retry: 2500\n\n')
  const talking = opened({ retry: 10 }, events => {
    events.send({ data: 'now' })
  })
  t.equal(talking.seen.text, 'retry: 10\ndata: now\n\n')
  t.same(interpret(talking.seen.text), { events: [{ event: 'message', data: 'now', id: '' }], retry: 10 })
})

t.test('a comment every 15 s keeps a quiet stream open and is no event', async t => {
  const { clock, seen, events } = opened()
  clock.advance(14_999)
  t.equal(seen.writes, 1)
  clock.advance(1)
  t.equal(seen.text, 'retry: 3000\n\n:\n\n')
  events.send({ data: 'x' })
  clock.advance(15_000)
  t.equal(seen.text, 'retry: 3000\n\n:\n\ndata: x\n\n:\n\n')
  t.equal(interpret(seen.text).events.length, 1)
})

t.test(
  'a stream ends at its greatest age, by its source, and when the process stops; its timers and its source end with it',
  async t => {
    const endings: ReadonlyArray<(stream: Opened) => void> = [
      ({ clock }) => {
        clock.advance(600_000)
      },
      ({ events }) => {
        events.end()
      },
      ({ sink }) => {
        sink.onStopping?.()
      }
    ]
    for (const end of endings) {
      const stream = opened()
      end(stream)
      const { seen, clock, events } = stream
      t.same([seen.ended, seen.stops], [1, 1])
      const { text } = seen
      clock.advance(1_200_000)
      events.send({ data: 'late' })
      t.same([seen.text, seen.ended, seen.stops], [text, 1, 1], 'nothing happens any more')
    }
  }
)

t.test('a client that does not read gets no comments, and the end instead of a further event', async t => {
  const { seen, clock, events, sink } = opened()
  seen.takes = false
  events.send({ data: '1' })
  const { text } = seen
  clock.advance(60_000)
  t.equal(seen.text, text)
  seen.takes = true
  sink.onDrain?.()
  events.send({ data: '2' })
  t.equal(interpret(seen.text).events.length, 2, 'a reader that resumes continues')
  seen.takes = false
  events.send({ data: '3' })
  events.send({ data: '4' })
  t.same(
    interpret(seen.text).events.map(event => event.data),
    ['1', '2', '3']
  )
  t.same([seen.ended, seen.stops], [1, 1])
})

/** A gateway whose one operation is an event stream. */
async function served(t: Test, clock: ManualClock, begin: EventStreamOptions['begin']) {
  const chain = new Chain(
    [
      {
        handle: () => ({
          status: 200,
          headers: ['Content-Type', 'text/event-stream', ...EVENT_STREAM_HEADERS],
          body: eventStream({ clock, begin })
        })
      }
    ],
    0
  )
  const events = {
    mode: 'production',
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    fault: () => {},
    finished: () => {}
  } as const
  return openDoor(t, {
    clock,
    handle: (ctx, wire) => {
      new Exchange(ctx, wire, chain, events).start()
    }
  })
}

t.test('over HTTP a stream is neither cached nor buffered, and a drain ends it immediately', async t => {
  const clock = new ManualClock()
  let stops = 0
  const sinks: EventSink[] = []
  const door = await served(t, clock, events => {
    sinks.push(events)
    return () => {
      stops++
    }
  })
  const client = await door.connect()
  client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await client.until('retry: 3000\n\n')
  sinks[0]?.send({ event: 'status', id: '1', data: 'paid' })
  await client.until('data: paid\n\n')
  // The deadlines of the listener count on the system to have sent what was written.
  for (let at = 0; at < 300_000; at += 15_000) {
    clock.advance(15_000)
    await setImmediate()
  }
  const drained = door.listener.drain(30_000)
  const response = await client.response()
  t.same(
    [
      response.header('content-type'),
      response.header('cache-control'),
      response.header('x-accel-buffering'),
      response.header('content-length')
    ],
    ['text/event-stream', 'no-store', 'no', undefined]
  )
  t.same(interpret(response.body).events, [{ event: 'status', data: 'paid', id: '1' }])
  client.socket.end()
  await drained
  t.equal(stops, 1)
  t.equal(clock.monotonic(), 300_000, 'the drain did not wait')
})

t.test('a source that cannot begin is answered as an error', async t => {
  const door = await served(t, new ManualClock(), () => {
    throw new Error('boom')
  })
  const client = await door.connect()
  client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal((await client.response()).status, 500)
})
