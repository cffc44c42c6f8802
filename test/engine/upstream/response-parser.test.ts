import { once } from 'node:events'
import http from 'node:http'
import fc from 'fast-check'
import t from 'tap'
import { ResponseFault, MAX_FIELDS, MAX_HEAD } from '../../../src/engine/upstream/response-head.ts'
import { MAX_PIECE, ResponseParser, type ResponseReader } from '../../../src/engine/upstream/response-parser.ts'
import { RawUpstream } from '../../support/raw-upstream.ts'

interface Head {
  readonly status: number
  readonly pairs: readonly string[]
}

/** All that came of one answer. */
interface Result {
  readonly interims: readonly Head[]
  readonly head: Head | null
  readonly body: string
  /** Null unless the answer ended whole. */
  readonly trailers: readonly string[] | null
  readonly fault: string | null
  readonly reusable: boolean
}

/** Writes down what a parser hands over; `pauses` says, call by call, where it pauses. */
class Recorder implements ResponseReader {
  parser: ResponseParser | null = null
  readonly interims: Head[] = []
  head: Head | null = null
  body = ''
  trailers: readonly string[] | null = null
  readonly #pauses: readonly boolean[]
  #calls = 0

  constructor(pauses: readonly boolean[] = []) {
    this.#pauses = pauses
  }

  #called(): void {
    if (this.parser?.paused === true) throw new Error('something was handed over during a pause')
    if (this.#pauses[this.#calls++ % Math.max(1, this.#pauses.length)] === true) this.parser?.pause()
  }

  responseHead(status: number, pairs: string[]): void {
    if (status < 200) this.interims.push({ status, pairs })
    else this.head = { status, pairs }
    this.#called()
  }

  responseBody(bytes: Buffer, from: number, to: number): void {
    this.body += bytes.toString('latin1', from, to)
    this.#called()
  }

  responseEnd(trailers: readonly string[]): void {
    if (this.parser?.paused === true) throw new Error('it ended during a pause')
    this.trailers = trailers
  }
}

/**
 * Reads an answer that comes in these pieces, each in the same memory, and is followed by the close of the connection.
 */
function parse(pieces: readonly string[], silent = false, pauses: readonly boolean[] = []): Result {
  const reader = new Recorder(pauses)
  const parser = new ResponseParser(reader)
  reader.parser = parser
  parser.begin(silent)
  const memory = Buffer.alloc(Math.max(1, ...pieces.map(piece => piece.length)))
  let fault: string | null = null
  let reusable = false
  try {
    for (const piece of pieces) {
      memory.fill(0x2a)
      memory.write(piece, 'latin1')
      parser.push(memory, 0, piece.length)
      // Every other pause lasts beyond the next piece.
      if (piece.length % 2 === 0) while (parser.paused) parser.resume()
    }
    while (parser.paused) parser.resume()
    reusable = parser.idle && parser.reusable && !parser.surplus
    parser.finish()
  } catch (error) {
    if (!(error instanceof ResponseFault)) throw error
    fault = error.code
  }
  return { interims: reader.interims, head: reader.head, body: reader.body, trailers: reader.trailers, fault, reusable }
}

/**
 * The same, as far as the places at which it was split may not matter: what is refused may be refused sooner or later.
 */
function outcome({ fault, ...rest }: Result) {
  return { ...rest, refused: fault !== null }
}

function cut(text: string, places: readonly number[]) {
  const sorted = [0, ...places.map(place => place % (text.length + 1)), text.length].toSorted((a, b) => a - b)
  return sorted.slice(1).map((end, at) => text.slice(sorted[at], end))
}

const TOKEN = "!#$%&'*+-.^_`|~09AZaz"
const token = fc.string({ unit: fc.constantFrom(...TOKEN), minLength: 1, maxLength: 12 })
/** A value as it arrives: without blanks around it. */
const value = fc
  .string({ unit: fc.constantFrom('a', 'Z', '0', ' ', '\t', ',', ':', '"', '\xe9', '\xff', '~'), maxLength: 30 })
  .map(text => text.replaceAll(/^[ \t]+|[ \t]+$/g, ''))
const FRAMING = new Set([
  'connection',
  'keep-alive',
  'content-length',
  'transfer-encoding',
  'upgrade',
  'trailer',
  'date'
])
const fields = fc
  .array(fc.tuple(fc.oneof(token, fc.constantFrom('X-A', 'Set-Cookie', 'ETag', '__proto__', 'Content-Type')), value), {
    maxLength: 8
  })
  .map(pairs => pairs.filter(([name]) => !FRAMING.has(name.toLowerCase())))
const blanks = fc.constantFrom('', ' ', '  ', '\t', ' \t ')
const content = fc.string({ unit: 'binary-ascii', maxLength: 300 })
const extension = fc.constantFrom('', ';a', ';a=b', ';a="b;\\"c"', ';a=1;b')

/** A sound answer: its bytes, and what they say. */
const answer = fc
  .record({
    interims: fc.array(fc.tuple(fc.constantFrom(102, 103, 199), fields), { maxLength: 2 }),
    status: fc.constantFrom(200, 201, 204, 206, 301, 304, 400, 402, 404, 500, 599),
    reason: fc.constantFrom(' OK', ' ', '', ' Not \xe9 good'),
    fields,
    around: blanks,
    framing: fc.constantFrom('length', 'chunked', 'close'),
    silent: fc.boolean(),
    chunks: fc.array(content, { maxLength: 4 }),
    extension,
    upper: fc.boolean(),
    trailers: fields
  })
  .map(parts => {
    const lines = (pairs: ReadonlyArray<readonly [string, string]>) =>
      pairs.map(([name, text]) => `${name}:${parts.around}${text}${parts.around}\r\n`).join('')
    const silent = parts.silent || parts.status === 204 || parts.status === 304
    const chunks = parts.chunks.filter(chunk => chunk !== '')
    const body = chunks.join('')
    const own: Array<[string, string]> =
      parts.framing === 'length'
        ? [['Content-Length', String(body.length)]]
        : parts.framing === 'chunked'
          ? [['Transfer-Encoding', parts.upper ? 'CHUNKED' : 'chunked']]
          : []
    const size = (chunk: string) =>
      parts.upper ? `00${chunk.length.toString(16).toUpperCase()}` : chunk.length.toString(16)
    const framed =
      parts.framing === 'chunked'
        ? `${chunks.map(chunk => `${size(chunk)}${parts.extension}\r\n${chunk}\r\n`).join('')}0${parts.extension}\r\n${lines(parts.trailers)}\r\n`
        : body
    // A head alone must not be followed by the bytes of a body.
    const framing = silent && parts.status === 204 ? [] : own
    const all = [...parts.fields, ...framing]
    const framingLines = framing
      .map(
        ([name, text]) => `${name}:${parts.around.replaceAll('\t', ' ')}${text}${parts.around.replaceAll('\t', '')}\r\n`
      )
      .join('')
    return {
      silent: parts.silent,
      text: `${parts.interims.map(([status, pairs]) => `HTTP/1.1 ${status} Odd\r\n${lines(pairs)}\r\n`).join('')}HTTP/1.1 ${parts.status}${parts.reason}\r\n${lines(parts.fields)}${framingLines}\r\n${silent ? '' : framed}`,
      interims: parts.interims.map(([status, pairs]) => ({ status, pairs: pairs.flat() })),
      head: { status: parts.status, pairs: all.flat() },
      body: silent ? '' : body,
      trailers: !silent && parts.framing === 'chunked' ? parts.trailers.flat() : []
    }
  })

t.test('a valid response is read as written, with any split and any pause of its reader', async t => {
  fc.assert(
    fc.property(
      answer,
      fc.array(fc.nat(5000), { maxLength: 12 }),
      fc.array(fc.boolean(), { maxLength: 5 }),
      (made, places, pauses) => {
        const { reusable: _reusable, ...said } = parse(cut(made.text, places), made.silent, pauses)
        const { silent: _silent, text, ...expected } = made
        const [found, wanted] = [
          JSON.stringify(said),
          JSON.stringify({
            interims: expected.interims,
            head: expected.head,
            body: expected.body,
            trailers: expected.trailers,
            fault: null
          })
        ]
        if (found !== wanted) throw new Error(`${JSON.stringify(text)}: ${found}, not ${wanted}`)
      }
    ),
    { numRuns: 500 }
  )
  t.pass('no difference')
})

t.test('bytes that were changed at random are read alike however they are cut', async t => {
  const change = fc.tuple(
    fc.nat(5000),
    fc.constantFrom(
      '\r',
      '\n',
      '\r\n',
      ':',
      ' ',
      '\0',
      ';',
      '0',
      'f',
      'Content-Length: 3\r\n',
      'Transfer-Encoding: chunked\r\n',
      ''
    )
  )
  fc.assert(
    fc.property(
      answer,
      fc.array(change, { minLength: 1, maxLength: 3 }),
      fc.array(fc.nat(5000), { maxLength: 12 }),
      fc.array(fc.boolean(), { maxLength: 5 }),
      ({ text, silent }, changes, places, pauses) => {
        let bytes = text
        for (const [place, put] of changes)
          bytes = bytes.slice(0, place % (bytes.length + 1)) + put + bytes.slice((place % (bytes.length + 1)) + 1)
        const whole = JSON.stringify(outcome(parse([bytes], silent)))
        const bytewise = JSON.stringify(outcome(parse([...bytes], silent)))
        const pieces = JSON.stringify(outcome(parse(cut(bytes, places), silent, pauses)))
        if (whole !== pieces || whole !== bytewise)
          throw new Error(`${JSON.stringify(bytes)}: ${whole} ${pieces} ${bytewise}`)
      }
    ),
    { numRuns: 1000 }
  )
  t.pass('no difference')
})

/** Node's own client as the second reader. */
async function byNode(port: number, method: string): Promise<Pick<Result, 'interims' | 'head' | 'body' | 'trailers'>> {
  const request = http.request({ port, host: '127.0.0.1', method, agent: false })
  const interims: Head[] = []
  request.on('information', ({ statusCode, rawHeaders }) => {
    interims.push({ status: statusCode, pairs: rawHeaders })
  })
  request.end()
  const [response] = (await once(request, 'response')) as [http.IncomingMessage /* that of a client */]
  let body = ''
  response.setEncoding('latin1')
  response.on('data', (piece: string) => {
    body += piece
  })
  await once(response, 'end')
  return {
    interims,
    head: { status: response.statusCode ?? 0, pairs: response.rawHeaders },
    body,
    trailers: response.rawTrailers
  }
}

t.test('bytes that arrive during a pause are delivered in chunks of one read, and stop between them', async t => {
  const body = 'x'.repeat(3 * MAX_PIECE)
  for (const framing of [`Content-Length: ${body.length}`, 'Connection: close']) {
    const reader = new Recorder([true])
    const parser = new ResponseParser(reader)
    reader.parser = parser
    parser.begin(false)
    parser.push(Buffer.from(`${OK}${framing}\r\n\r\n`), 0, OK.length + framing.length + 4)
    for (let at = 0; at < body.length; at += MAX_PIECE / 2) parser.push(Buffer.from(body), at, at + MAX_PIECE / 2)
    for (const whole of [1, 2, 3]) {
      parser.resume()
      t.equal(reader.body.length, whole * MAX_PIECE, `${framing}: ${whole} of 3`)
    }
  }
})

t.test("Node's own client reads sound answers in the same way", async t => {
  let bytes = ''
  const upstream = await new RawUpstream(async connection => {
    await connection.head()
    connection.send(bytes)
    connection.end()
  }).listen()
  t.teardown(async () => {
    await upstream.close()
  })
  const samples = fc.sample(answer, { numRuns: 150, seed: 7 })
  for (const made of samples) {
    bytes = made.text
    const ours = parse([bytes], made.silent)
    const theirs = await byNode(upstream.port, made.silent ? 'HEAD' : 'GET')
    t.strictSame(
      { interims: ours.interims, head: ours.head, body: ours.body, trailers: ours.trailers },
      theirs,
      JSON.stringify(bytes)
    )
  }
})

const OK = 'HTTP/1.1 200 OK\r\n'
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`

/** What must be refused, and as what. */
const REFUSED: ReadonlyArray<readonly [name: string, bytes: string, fault: string]> = [
  ['nothing', '', 'UPSTREAM_CLOSED'],
  ['no HTTP', 'SSH-2.0-x\r\n', 'UPSTREAM_MALFORMED'],
  ['no HTTP, without a line', 'SSH', 'UPSTREAM_MALFORMED'],
  ['HTTP/0.9', '<html>', 'UPSTREAM_MALFORMED'],
  ['HTTP/2', 'HTTP/2.0 200 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['HTTP/1.2', 'HTTP/1.2 200 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a version of two digits', 'HTTP/1.10 200 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['lower case', 'http/1.1 200 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a status below 100', 'HTTP/1.1 099 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a status of letters', 'HTTP/1.1 abc OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['two spaces before the status', 'HTTP/1.1  200 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a tab before the status', 'HTTP/1.1\t200 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['no status', 'HTTP/1.1\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a bare LF behind the status line', 'HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a bare CR in the reason', 'HTTP/1.1 200 O\rK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a NUL in the reason', 'HTTP/1.1 200 O\0K\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a bare LF before the status line', '\nHTTP/1.1 200 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a space before the status line', ' HTTP/1.1 200 OK\r\n\r\n', 'UPSTREAM_MALFORMED'],
  ['a header without a colon', `${OK}nonsense\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a header without a name', `${OK}: x\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a space before the colon', `${OK}X-A : a\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a space in a name', `${OK}X A: a\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a name beyond ASCII', `${OK}X-\xe9: a\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a folded line', `${OK}X-A: a\r\n b\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a folded line with a tab', `${OK}X-A: a\r\n\tb\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a space before the first header', `${OK} X-A: a\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a NUL in a value', `${OK}X-A: a\0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a DEL in a value', `${OK}X-A: a\x7f\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a bare CR in a value', `${OK}X-A: a\rX-B: b\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a bare LF behind a value', `${OK}X-A: a\nX-B: b\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a bare LF for the empty line', `${OK}X-A: a\r\n\n`, 'UPSTREAM_MALFORMED'],
  ['a bare CR for the empty line', `${OK}X-A: a\r\n\rx`, 'UPSTREAM_MALFORMED'],
  ['two lengths', `${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['the same length twice', `${OK}Content-Length: 1\r\ncontent-length: 1\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['a list of lengths', `${OK}Content-Length: 1, 1\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['no length', `${OK}Content-Length:\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['a length with a sign', `${OK}Content-Length: +1\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['a negative length', `${OK}Content-Length: -1\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['a length in hex', `${OK}Content-Length: 0x1\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['a length with a fraction', `${OK}Content-Length: 1.0\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['a length with a space in it', `${OK}Content-Length: 1 1\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['a length beyond all numbers', `${OK}Content-Length: 9007199254740993\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['a tab behind a length', `${OK}Content-Length: 1\t\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  ['a tab behind a coding', `${OK}Transfer-Encoding: chunked \t\r\n\r\n1\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  [
    'length and chunks',
    `${OK}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`,
    'UPSTREAM_MALFORMED'
  ],
  [
    'chunks and length',
    `${OK}Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n1\r\na\r\n0\r\n\r\n`,
    'UPSTREAM_MALFORMED'
  ],
  ['length and another coding', `${OK}Transfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\na`, 'UPSTREAM_MALFORMED'],
  [
    'length and chunks without a body',
    'HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n',
    'UPSTREAM_MALFORMED'
  ],
  ['101', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n', 'UPSTREAM_CLOSED'],
  ['an interim answer alone', 'HTTP/1.1 103 Early Hints\r\n\r\n', 'UPSTREAM_CLOSED'],
  ['half a status line', 'HTTP/1.1 2', 'UPSTREAM_CLOSED'],
  ['half a head', `${OK}X-A: a`, 'UPSTREAM_CLOSED'],
  ['a head without its empty line', `${OK}X-A: a\r\n`, 'UPSTREAM_CLOSED'],
  ['half a body', `${OK}Content-Length: 5\r\n\r\nab`, 'UPSTREAM_CLOSED'],
  [
    'half a body of a connection that closes',
    `${OK}Connection: close\r\nContent-Length: 5\r\n\r\nab`,
    'UPSTREAM_LENGTH_MISMATCH'
  ],
  ['no last chunk', `${CHUNKED}1\r\na\r\n`, 'UPSTREAM_CLOSED'],
  [
    'no last chunk of a connection that closes',
    `${OK}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n`,
    'UPSTREAM_MALFORMED'
  ],
  ['half a chunk', `${CHUNKED}9\r\nabc`, 'UPSTREAM_CLOSED'],
  ['a last chunk without its end', `${CHUNKED}0\r\n`, 'UPSTREAM_CLOSED'],
  ['a chunk without a size', `${CHUNKED}\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a size of letters', `${CHUNKED}zz\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ["a size in C's hex", `${CHUNKED}0x1\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a negative size', `${CHUNKED}-1\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a size with a blank before it', `${CHUNKED} 1\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a size with a blank behind it', `${CHUNKED}1 \r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a size beyond all numbers', `${CHUNKED}ffffffffffffffff\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a size of too many digits', `${CHUNKED}00000000000000001\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a chunk shorter than its size', `${CHUNKED}3\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a chunk longer than its size', `${CHUNKED}1\r\nab\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a bare LF behind a size', `${CHUNKED}1\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a bare LF behind a chunk', `${CHUNKED}1\r\na\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a bare CR behind a size', `${CHUNKED}1\ra\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a bare LF in an extension', `${CHUNKED}1;a\nb\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a bare CR in an extension', `${CHUNKED}1;a\rb\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['an extension without a name', `${CHUNKED}1;\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['an extension with an open quote', `${CHUNKED}1;a="b\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['an extension without an end', `${CHUNKED}1;${'a'.repeat(5000)}\r\na\r\n0\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a length among the trailers', `${CHUNKED}0\r\nContent-Length: 3\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a coding among the trailers', `${CHUNKED}0\r\nTransfer-Encoding: chunked\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a folded trailer', `${CHUNKED}0\r\nX-A: a\r\n b\r\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['a bare LF among the trailers', `${CHUNKED}0\r\nX-A: a\n\r\n`, 'UPSTREAM_MALFORMED'],
  ['one line too large', `${OK}X-A: ${'a'.repeat(MAX_HEAD)}\r\n\r\n`, 'UPSTREAM_HEAD_TOO_LARGE'],
  ['one line too large that never ends', `${OK}X-A: ${'a'.repeat(MAX_HEAD)}`, 'UPSTREAM_HEAD_TOO_LARGE'],
  ['too many lines', `${OK}${'X-A: a\r\n'.repeat(MAX_HEAD / 8)}\r\n`, 'UPSTREAM_HEAD_TOO_LARGE'],
  ['too many short lines', `${OK}${'X-A: a\r\n'.repeat(MAX_FIELDS + 1)}\r\n`, 'UPSTREAM_HEAD_TOO_LARGE'],
  ['too many empty lines', '\r\n'.repeat(MAX_HEAD / 2 + 1), 'UPSTREAM_HEAD_TOO_LARGE'],
  ['trailers too large', `${CHUNKED}0\r\n${'X-A: a\r\n'.repeat(MAX_HEAD / 8 + 1)}\r\n`, 'UPSTREAM_HEAD_TOO_LARGE']
]

t.test('a malformed, ambiguous or cut response is refused, whole and in chunks', async t => {
  for (const [name, bytes, fault] of REFUSED) {
    const whole = parse([bytes])
    t.equal(whole.fault, fault, name)
    t.equal(whole.trailers, null, `${name}: it did not end`)
    const half = Math.floor(bytes.length / 2)
    for (const pieces of [
      [bytes.slice(0, half), bytes.slice(half)],
      bytes.length > 10_000
        ? cut(
            bytes,
            Array.from({ length: 50 }, (_, at) => at * 1301)
          )
        : [...bytes]
    ]) {
      const split = parse(pieces)
      t.not(split.fault, null, `${name}, in pieces`)
      t.strictSame(
        [split.head, split.body, split.trailers],
        [whole.head, whole.body, null],
        `${name}: as much was handed over`
      )
    }
  }
})

t.test('a head as large as is read is read', async t => {
  const head = `${OK}X-A: `
  const bytes = `${head}${'a'.repeat(MAX_HEAD - head.length - 4)}\r\n\r\n`
  t.equal(bytes.length, MAX_HEAD)
  t.equal(parse([bytes]).head?.status, 200)
  t.equal(
    parse(
      cut(
        bytes,
        Array.from({ length: 50 }, (_, at) => at * 1301)
      )
    ).head?.status,
    200
  )
})

t.test('whether another request may follow', async t => {
  for (const [bytes, reusable, silent] of [
    [`${OK}Content-Length: 0\r\n\r\n`, true],
    [`${OK}Connection: keep-alive\r\nContent-Length: 0\r\n\r\n`, true],
    [`${OK}Connection: close\r\nContent-Length: 0\r\n\r\n`, false],
    [`${OK}Connection: Keep-Alive, CLOSE\r\nContent-Length: 0\r\n\r\n`, false],
    [`${OK}Connection: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, false],
    ['HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n', false],
    ['HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n', true],
    ['HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', false],
    [`${OK}Content-Length: 0\r\n\r\nx`, false],
    [`${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, true],
    [`${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n\r\n`, false],
    [`${OK}Content-Length: 5\r\n\r\n`, true, true],
    [`${OK}Content-Length: 5\r\n\r\nhello`, false, true],
    ['HTTP/1.1 204 No Content\r\n\r\n', true],
    ['HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n', false],
    ['HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n', false],
    [`${OK}\r\n`, false]
  ] as const)
    t.equal(parse([bytes], silent === true).reusable, reusable, JSON.stringify(bytes))
})
