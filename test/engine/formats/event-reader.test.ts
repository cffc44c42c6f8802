/** Event streams as WHATWG HTML, 9.2.6, has them, cut anywhere. */
import t from 'tap'
import { EventReader, type Boundary } from '../../../src/engine/formats/event-reader.ts'

type Event = Partial<Record<'data' | 'event' | 'id' | 'error', string>> & { readonly isDone?: true }

/** Each stream with its events. An id, unlike the standard's, counts for its own event only. */
const VECTORS: ReadonlyArray<readonly [name: string, stream: string, events: readonly Event[]]> = [
  ['nothing', '', []],
  ['LF', 'data: a\n\ndata: b\n\n', [{ data: 'a' }, { data: 'b' }]],
  ['CR', 'data: a\r\rdata: b\r\r', [{ data: 'a' }, { data: 'b' }]],
  ['CRLF', 'data: a\r\n\r\ndata: b\r\n\r\n', [{ data: 'a' }, { data: 'b' }]],
  ['mixed line ends', 'data: a\r\n\rdata: b\n\r\ndata: c\r\n\n', [{ data: 'a' }, { data: 'b' }, { data: 'c' }]],
  ['an LF after a CR ends the same line', 'data: a\r\ndata: b\r\n\r\n', [{ data: 'a\nb' }]],
  ['an LF and a CR are two line ends', 'data: a\n\rdata: b\n\n', [{ data: 'a' }, { data: 'b' }]],
  ['blank lines alone', '\n\r\n\r\n\n', []],
  ['blank lines between events', '\n\ndata: a\n\n\n\ndata: b\n\n', [{ data: 'a' }, { data: 'b' }]],
  ['other line ends of Unicode are data', 'data: a\u2028b\u0085c\vd\fe\n\n', [{ data: 'a\u2028b\u0085c\vd\fe' }]],
  ['a byte order mark', '\ufeffdata: a\n\n', [{ data: 'a' }]],
  ['a byte order mark before a blank line', '\ufeff\r\ndata: a\n\n', [{ data: 'a' }]],
  ['a second byte order mark is part of a name', '\ufeff\ufeffdata: a\n\ndata: b\n\n', [{ data: 'b' }]],
  ['a later byte order mark is part of a name', 'data: a\n\n\ufeffdata: b\n\n', [{ data: 'a' }]],
  ['a byte order mark in data', 'data: \ufeffa\n\n', [{ data: '\ufeffa' }]],
  ['a character that begins like the mark', '\ufeeadata: a\n\ndata: b\n\n', [{ data: 'b' }]],
  ['several lines of data', 'data: YHOO\ndata: +2\ndata: 10\n\n', [{ data: 'YHOO\n+2\n10' }]],
  ['empty lines of data', 'data\n\ndata\ndata\n\ndata:\n\n', [{ data: '' }, { data: '\n' }, { data: '' }]],
  ['data between empty lines of it', 'data\ndata: a\ndata:\n\n', [{ data: '\na\n' }]],
  ['a space after the colon', 'data:test\n\ndata: test\n\n', [{ data: 'test' }, { data: 'test' }]],
  [
    'only the first space is dropped',
    'data:  a \n\ndata: \n\ndata:\ta\n\n',
    [{ data: ' a ' }, { data: '' }, { data: '\ta' }]
  ],
  ['colons in data', 'data: a: b\n\ndata::\n\ndata: :\n\n', [{ data: 'a: b' }, { data: ':' }, { data: ':' }]],
  ['comments', ': test stream\n\ndata: a\n:\n: b\ndata: c\n\n:\n\n', [{ data: 'a\nc' }]],
  ['comments that look like fields', ':data: a\n:\ndata: b\n\n', [{ data: 'b' }]],
  ['names with spaces', 'data : a\n\n data: b\n\ndata: c\n\n', [{ data: 'c' }]],
  ['names in another case', 'Data: a\n\nDATA: b\n\n', []],
  ['names that begin or end with data', 'dat: a\ndatum: b\ndatadata: c\nmydata: d\n\n', []],
  ['unknown fields', 'foo\nfoo:\nfoo: data\nretry: 3000\nretry\ndata: a\n\n', [{ data: 'a' }]],
  ['long names', `${'data'.repeat(20)}: a\n${'x'.repeat(15)}: b\n${'x'.repeat(16)}: c\n${'x'.repeat(17)}: d\n\n`, []],
  ['an event without data', 'event: add\nid: 1\n\ndata: a\n\n', [{ data: 'a' }]],
  ['names and ids', 'event: add\ndata: 7\nid: x1\n\n', [{ event: 'add', data: '7', id: 'x1' }]],
  ['the last name and id count', 'id: 1\nid: 2\nevent: a\nevent: b\ndata\n\n', [{ data: '', event: 'b', id: '2' }]],
  ['empty names and ids', 'id\nevent:\ndata: a\n\n', [{ data: 'a', event: '', id: '' }]],
  ['ids with colons and spaces', 'id:  a:b \ndata: c\n\n', [{ data: 'c', id: ' a:b ' }]],
  [
    'the first bytes of a long id',
    `id: ${'0123456789abcdef'.repeat(3)}\ndata: a\n\n`,
    [{ data: 'a', id: '0123456789abcdef' }]
  ],
  ['errors (llama.cpp)', 'error: {"code":500}\ndata: a\n\n', [{ data: 'a', error: '{"code":500}' }]],
  ['UTF-8', 'data: é€😀\n\n', [{ data: 'é€😀' }]],
  ['NUL', 'data: a\0b\n\n', [{ data: 'a\0b' }]],
  [
    '[DONE]',
    'data: a\n\ndata: [DONE]\n\ndata:[DONE] \t\n\n',
    [{ data: 'a' }, { data: '[DONE]', isDone: true }, { data: '[DONE] \t', isDone: true }]
  ],
  [
    'no [DONE]',
    'data: [DONE\n\ndata: [DONE]]\n\ndata:  [DONE]\n\ndata: a[DONE]\n\n: [DONE]\n\n',
    [{ data: '[DONE' }, { data: '[DONE]]' }, { data: ' [DONE]' }, { data: 'a[DONE]' }]
  ],
  ['an event without its blank line is discarded', 'data: a\n\ndata: b\nid: 3\n', [{ data: 'a' }]],
  ['a line without its end is discarded', 'data: a\n\ndata: b', [{ data: 'a' }]]
]

/** Events of bytes that come in these pieces, from memory that is used again, and the offsets of all boundaries. */
function read(bytes: Buffer, cuts: readonly number[], isEnded = false) {
  const events: Event[] = []
  const ends: number[] = []
  let from = 0
  let data: Buffer[] = []
  let fields: Event = {}
  const reader = new EventReader({
    data(piece, start, to) {
      data.push(Buffer.from(piece.subarray(start, to)))
    },
    field(name, value) {
      fields = { ...fields, [name]: value }
    },
    boundary(end: number, kind: Boundary) {
      ends.push(from + end)
      if (kind !== 'none')
        events.push({ ...fields, data: Buffer.concat(data).toString(), ...(kind === 'done' ? { isDone: true } : {}) })
      data = []
      fields = {}
    }
  })
  const memory = Buffer.alloc(bytes.length)
  for (const to of [...cuts, bytes.length]) {
    const length = bytes.copy(memory, 0, from, to)
    reader.feed(memory.subarray(0, length))
    memory.fill('\n')
    from = to
  }
  if (isEnded) reader.end()
  return { events, ends }
}

t.test('events do not depend on where the stream is split', async t => {
  for (const [name, stream, events] of VECTORS) {
    const bytes = Buffer.from(stream)
    t.strictSame(read(bytes, []).events, events, name)
    for (let at = 0; at <= bytes.length; at++) t.strictSame(read(bytes, [at]).events, events, `${name}, cut at ${at}`)
    t.strictSame(read(bytes, [...bytes.keys()]).events, events, `${name}, by bytes`)
  }
})

t.test('a stream can be cut at its boundaries', async t => {
  for (const [name, stream, events] of VECTORS) {
    const bytes = Buffer.from(stream)
    for (const end of read(bytes, []).ends) {
      const first = new EventReader({ boundary() {} })
      first.feed(bytes.subarray(0, end))
      t.ok(first.isBetween, `${name}, ${end}`)
      // A mark at the start of the rest would be one of its own.
      const rest = Buffer.concat([Buffer.from('\n'), bytes.subarray(end)])
      t.strictSame([...read(bytes.subarray(0, end), []).events, ...read(rest, []).events], events, `${name}, ${end}`)
    }
  }
  t.same(read(Buffer.from(': a\ndata: b\n: c\n\r\n'), []).ends, [4, 18], 'comments between events are boundaries')
})

t.test('the end of a stream ends its last event', async t => {
  for (const stream of ['data: a\n\ndata: b', 'data: a\n\ndata: b\n', 'data: a\n\ndata: b\r', 'data: a\n\ndata: b\n\n'])
    t.strictSame(read(Buffer.from(stream), [], true).events, [{ data: 'a' }, { data: 'b' }], JSON.stringify(stream))
  t.strictSame(read(Buffer.from('event: x\ndata'), [], true).events, [{ data: '', event: 'x' }])
  t.strictSame(read(Buffer.from('data: a\n\n: note'), [], true).events, [{ data: 'a' }])
})

t.test('lines of fields are reported without their ends', async t => {
  const bytes = Buffer.from('\ufeffid: 1\r\n: note\ndata\rdata:a\ndata: b\nretry: 3\n\r\n\n')
  const lines: [string, boolean][] = []
  const reader = new EventReader({
    line(isData, from, to) {
      lines.push([bytes.toString('utf8', from, to), isData])
    },
    boundary() {}
  })
  reader.feed(bytes)
  t.strictSame(lines, [
    ['id: 1', false],
    ['data', true],
    ['data:a', true],
    ['data: b', true],
    ['retry: 3', false]
  ])
})

t.test('lines of any length take bounded memory', async t => {
  const piece = Buffer.alloc(65_536, 'x')
  for (const start of ['', ':', 'data: ', 'id: ', 'data: [DONE]', '\ufeffevent: ', 'unknown: ']) {
    let size = 0
    let longest = 0
    const events: Boundary[] = []
    const reader = new EventReader({
      data(bytes, from, to) {
        if (bytes.buffer === piece.buffer) size += to - from
      },
      field(_name, value) {
        longest = Math.max(longest, value.length)
      },
      boundary(_end, kind) {
        events.push(kind)
      }
    })
    reader.feed(Buffer.from(start))
    const before = process.memoryUsage().heapUsed
    for (let count = 0; count < 1024; count++) reader.feed(piece)
    t.ok(process.memoryUsage().heapUsed - before < 33_554_432, `${start}: 64 MiB`)
    t.ok(longest <= 16, start)
    t.equal(size, start.startsWith('data') ? 67_108_864 : 0, `${start}: data is passed on without a copy`)
    reader.feed(Buffer.from('\ndata: a\n\n'))
    t.same(events.at(-1), 'data', start)
  }
})
