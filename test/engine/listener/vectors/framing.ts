import { get, passed, post, refused, type Vector } from './vector.ts'

const length = 'RFC 9112, section 6.3'
const coding = 'RFC 9112, section 6.1'
const chunks = 'RFC 9112, section 7.1'
const trailers = 'RFC 9110, section 6.5'
const persistence = 'RFC 9112, section 9.3'
const upgrade = 'RFC 9110, section 7.8'

/** A request that must never be seen by the handler, because it hides in what another one carries. */
const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n'

/** A request that came in, and whose body then turned out malformed. */
const broken = (id: string, clause: string, bytes: string) => ({
  id,
  clause,
  bytes,
  answers: [400],
  seen: [{ line: 'POST /in' }],
  closes: true
})

/** Where a body ends. */
export const framing: readonly Vector[] = [
  passed('Content-Length', length, post('abc', 'Content-Length: 3'), { line: 'POST /in', body: 'abc' }),
  passed('Content-Length 0', length, post('', 'Content-Length: 0'), { line: 'POST /in', body: '' }),
  passed('Content-Length with leading zeros', length, post('abc', 'Content-Length: 003'), {
    line: 'POST /in',
    body: 'abc'
  }),
  passed('GET with a body', length, get('/', 'Content-Length: 3') + 'abc', { line: 'GET /', body: 'abc' }),
  passed('POST without length has no body', length, post(''), { line: 'POST /in', body: '' }),
  refused('two equal Content-Length lines', length, post('abc', 'Content-Length: 3', 'Content-Length: 3')),
  refused(
    'two different Content-Length lines',
    length,
    post(`abc${smuggled}`, 'Content-Length: 3', 'Content-Length: 60')
  ),
  ...[
    '3, 3',
    '3,4',
    '+3',
    '-3',
    '0x3',
    '3.0',
    '3 3',
    '3a',
    '1e1',
    '',
    '99999999999999999999',
    '9007199254740993',
    '3;',
    '"3"',
    '\xb3'
  ].map(value => refused(`Content-Length: ${value}`, length, post('abc', `Content-Length: ${value}`))),
  refused(
    'Content-Length, then chunked',
    length,
    post(`0\r\n\r\n${smuggled}`, 'Content-Length: 5', 'Transfer-Encoding: chunked')
  ),
  refused(
    'chunked, then Content-Length',
    length,
    post(`0\r\n\r\n${smuggled}`, 'Transfer-Encoding: chunked', 'Content-Length: 5')
  ),
  passed('chunked', coding, post('3\r\nabc\r\n0\r\n\r\n', 'Transfer-Encoding: chunked'), {
    line: 'POST /in',
    body: 'abc'
  }),
  passed('chunked in mixed case', coding, post('3\r\nabc\r\n0\r\n\r\n', 'Transfer-Encoding: CHUNKED'), {
    line: 'POST /in',
    body: 'abc'
  }),
  ...[
    'gzip, chunked',
    'chunked, gzip',
    'chunked, chunked',
    'gzip',
    'identity',
    'chunked;x=y',
    '"chunked"',
    'xchunked',
    'chunked,',
    ',chunked',
    'chunked identity',
    ''
  ].map(value =>
    refused(`Transfer-Encoding: ${value}`, coding, post(`0\r\n\r\n${smuggled}`, `Transfer-Encoding: ${value}`))
  ),
  refused('vertical tab before chunked', coding, post(`0\r\n\r\n${smuggled}`, 'Transfer-Encoding: \x0bchunked')),
  refused(
    'two Transfer-Encoding lines',
    coding,
    post(`0\r\n\r\n${smuggled}`, 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')
  ),
  refused(
    'identity, then chunked on its own line',
    coding,
    post(`0\r\n\r\n${smuggled}`, 'Transfer-Encoding: identity', 'Transfer-Encoding: chunked')
  ),
  refused(
    'Transfer-Encoding with a space before its colon',
    coding,
    post(`0\r\n\r\n${smuggled}`, 'Transfer-Encoding : chunked')
  ),
  refused(
    'chunked on HTTP/1.0',
    coding,
    `POST /in HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    'HTTP/1.0'
  ),
  refused(
    'chunked on HTTP/1.0 with keep-alive',
    coding,
    `POST /in HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    'HTTP/1.0'
  ),
  passed('chunk extension', chunks, post('3;a=b;c="d"\r\nabc\r\n0\r\n\r\n', 'Transfer-Encoding: chunked'), {
    line: 'POST /in',
    body: 'abc'
  }),
  passed(
    'upper-case chunk size with leading zeros',
    chunks,
    post('000A\r\n0123456789\r\n0\r\n\r\n', 'Transfer-Encoding: chunked'),
    { line: 'POST /in', body: '0123456789' }
  ),
  ...[
    '0x3\r\nabc',
    '-3\r\nabc',
    '+3\r\nabc',
    'g\r\nabc',
    ' 3\r\nabc',
    '3 \r\nabc',
    '3\nabc',
    '3\rabc',
    '\r\nabc',
    'fffffffffffffffff\r\nabc',
    '3_0\r\nabc'
  ].map(chunk =>
    broken(
      `chunk ${JSON.stringify(chunk)}`,
      chunks,
      post(`${chunk}\r\n0\r\n\r\n${smuggled}`, 'Transfer-Encoding: chunked')
    )
  ),
  broken('chunk longer than its size', chunks, post(`3\r\nabcd\r\n0\r\n\r\n${smuggled}`, 'Transfer-Encoding: chunked')),
  broken('chunk ended by a bare LF', chunks, post(`3\r\nabc\n0\r\n\r\n${smuggled}`, 'Transfer-Encoding: chunked')),
  broken(
    'bare LF in a chunk extension',
    chunks,
    post(`3;a\nabc\r\n0\r\n\r\n${smuggled}`, 'Transfer-Encoding: chunked')
  ),
  {
    id: 'chunk extensions of 32 KiB',
    clause: chunks,
    bytes: post(`3;${'a'.repeat(32 * 1024)}\r\nabc\r\n0\r\n\r\n`, 'Transfer-Encoding: chunked'),
    answers: [413],
    seen: [{ line: 'POST /in' }],
    closes: true
  },
  passed(
    'trailers are never merged',
    trailers,
    post(
      '3\r\nabc\r\n0\r\nX-Late: 1\r\nHost: evil\r\nAuthorization: L402 a:b\r\n\r\n',
      'Transfer-Encoding: chunked',
      'Trailer: X-Late'
    ),
    {
      line: 'POST /in',
      host: 'a.example',
      body: 'abc',
      headers: ['Host', 'a.example', 'Transfer-Encoding', 'chunked', 'Trailer', 'X-Late']
    }
  ),
  broken('malformed trailer', trailers, post(`0\r\nX Late: 1\r\n\r\n${smuggled}`, 'Transfer-Encoding: chunked'))
]

/** Several requests on one connection. */
export const pipelines: readonly Vector[] = [
  {
    id: 'two requests in one packet',
    clause: persistence,
    bytes: get('/1') + get('/2'),
    answers: [200, 200],
    seen: [{ line: 'GET /1' }, { line: 'GET /2' }],
    closes: false
  },
  {
    id: 'twenty requests in one packet',
    clause: persistence,
    bytes: Array.from({ length: 20 }, (_, n) => get(`/${n}`)).join(''),
    answers: Array.from({ length: 20 }, () => 200),
    seen: Array.from({ length: 20 }, (_, n) => ({ line: `GET /${n}` })),
    closes: false
  },
  {
    id: 'a body between two requests',
    clause: persistence,
    bytes: post('abc', 'Content-Length: 3') + get('/2'),
    answers: [200, 200],
    seen: [
      { line: 'POST /in', body: 'abc' },
      { line: 'GET /2', body: '' }
    ],
    closes: false
  },
  {
    id: 'a chunked body between two requests',
    clause: persistence,
    bytes: post('3\r\nabc\r\n0\r\n\r\n', 'Transfer-Encoding: chunked') + get('/2'),
    answers: [200, 200],
    seen: [{ line: 'POST /in', body: 'abc' }, { line: 'GET /2' }],
    closes: false
  },
  {
    id: 'a request inside a body stays a body',
    clause: length,
    bytes: post(smuggled, `Content-Length: ${smuggled.length}`),
    answers: [200],
    seen: [{ line: 'POST /in', body: smuggled }],
    closes: false
  },
  {
    id: 'nothing behind a refused request is looked at',
    clause: persistence,
    bytes: get('/1') + get('/../2') + smuggled,
    answers: [200, 400],
    seen: [{ line: 'GET /1' }],
    closes: true
  },
  {
    id: 'nothing behind a refused request with a body is looked at',
    clause: persistence,
    bytes: `POST /../x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc${smuggled}`,
    answers: [400],
    seen: [],
    closes: true
  },
  {
    id: 'a malformed request behind a good one',
    clause: persistence,
    bytes: `${get('/1')}GET / FTP/1.1\r\n\r\n${smuggled}`,
    answers: [200, 400],
    seen: [{ line: 'GET /1' }],
    closes: true
  },
  {
    id: 'a malformed request behind two good ones',
    clause: persistence,
    bytes: `${get('/1')}${get('/2')}\x00\r\n\r\n`,
    answers: [200, 200, 400],
    seen: [{ line: 'GET /1' }, { line: 'GET /2' }],
    closes: true
  },
  {
    id: 'nothing behind Connection: close is looked at',
    clause: persistence,
    bytes: get('/1', 'Connection: close') + smuggled,
    answers: [200],
    seen: [{ line: 'GET /1' }],
    closes: true
  },
  {
    id: 'TRACE behind a good request',
    clause: persistence,
    bytes: `${get('/1')}TRACE / HTTP/1.1\r\nHost: a\r\n\r\n`,
    answers: [200, 405],
    seen: [{ line: 'GET /1' }],
    closes: true
  },
  {
    id: 'CONNECT behind a good request',
    clause: persistence,
    bytes: `${get('/1')}CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n`,
    answers: [200, 400],
    seen: [{ line: 'GET /1' }],
    closes: true
  },
  {
    id: 'HTTP/1.0 closes',
    clause: persistence,
    bytes: 'GET /1 HTTP/1.0\r\nHost: a\r\n\r\n',
    answers: [200],
    seen: [{ line: 'GET /1', version: '1.0' }],
    closes: true
  },
  {
    id: 'HTTP/1.0 with keep-alive stays',
    clause: persistence,
    bytes:
      'GET /1 HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n',
    answers: [200, 200],
    seen: [
      { line: 'GET /1', version: '1.0' },
      { line: 'GET /2', version: '1.0' }
    ],
    closes: false
  },
  {
    id: 'two requests behind HTTP/1.0',
    clause: persistence,
    bytes: `GET /1 HTTP/1.0\r\nHost: a\r\n\r\n${smuggled}`,
    answers: [200],
    seen: [{ line: 'GET /1' }],
    closes: true
  }
]

const asks = ['Connection: Upgrade', 'Upgrade: websocket']

/** Upgrades that are answered without one, and those that are refused. The handler answers 200 before any 101. */
export const upgrades: readonly Vector[] = [
  {
    id: 'an upgrade is seen as such',
    clause: upgrade,
    bytes: get('/ws', ...asks),
    answers: [200],
    seen: [{ line: 'GET /ws', upgrade: 'websocket' }],
    closes: true
  },
  {
    id: 'an upgrade to a protocol in mixed case',
    clause: upgrade,
    bytes: get('/ws', 'Connection: keep-alive, upgrade', 'Upgrade: Foo/1'),
    answers: [200],
    seen: [{ line: 'GET /ws', upgrade: 'foo/1' }],
    closes: true
  },
  {
    id: 'bytes behind an upgrade are no request',
    clause: upgrade,
    bytes: get('/ws', ...asks) + smuggled,
    answers: [200],
    seen: [{ line: 'GET /ws', upgrade: 'websocket' }],
    closes: true
  },
  refused('upgrade with a length', upgrade, get('/ws', ...asks, 'Content-Length: 3') + 'abc', 'must not have a body'),
  refused(
    'upgrade with chunks',
    upgrade,
    get('/ws', ...asks, 'Transfer-Encoding: chunked') + `0\r\n\r\n${smuggled}`,
    'must not have a body'
  ),
  {
    id: 'upgrade with length 0',
    clause: upgrade,
    bytes: get('/ws', ...asks, 'Content-Length: 0'),
    answers: [200],
    seen: [{ line: 'GET /ws', upgrade: 'websocket' }],
    closes: true
  },
  refused('upgrade with a dot segment', upgrade, get('/../ws', ...asks), 'dot segment'),
  refused(
    'upgrade without Host',
    upgrade,
    'GET /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    'missing'
  ),
  refused(
    'upgrade with two payment credentials',
    upgrade,
    get('/ws', ...asks, 'Authorization: L402 a:b', 'Authorization: L402 c:d'),
    'payment credential'
  ),
  refused('upgrade with an unknown expectation', upgrade, get('/ws', ...asks, 'Expect: x'), '100-continue', 417),
  {
    id: 'upgrade behind an unanswered request',
    clause: upgrade,
    bytes: get('/1') + get('/ws', ...asks),
    answers: [200, 400],
    seen: [{ line: 'GET /1' }],
    closes: true
  },
  {
    id: 'h2c is ignored',
    clause: upgrade,
    bytes: get('/1', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk'),
    answers: [200],
    seen: [{ line: 'GET /1' }],
    closes: false,
    closesWithoutLane: true
  },
  {
    id: 'h2c behind another protocol is ignored with it',
    clause: upgrade,
    bytes: get('/1', 'Connection: Upgrade', 'Upgrade: websocket, h2c'),
    answers: [200],
    seen: [{ line: 'GET /1' }],
    closes: true
  },
  {
    id: 'h2c on a line of its own is ignored with the others',
    clause: upgrade,
    bytes: get('/1', 'Connection: Upgrade', 'Upgrade: foo', 'Upgrade: h2c'),
    answers: [200],
    seen: [{ line: 'GET /1' }],
    closes: true
  },
  {
    id: 'Upgrade without Connection is ignored',
    clause: upgrade,
    bytes: get('/1', 'Upgrade: websocket'),
    answers: [200],
    seen: [{ line: 'GET /1' }],
    closes: false
  },
  {
    id: 'Connection: upgrade without Upgrade is ignored',
    clause: upgrade,
    bytes: get('/1', 'Connection: upgrade'),
    answers: [200],
    seen: [{ line: 'GET /1' }],
    closes: false
  },
  {
    id: 'an upgrade on HTTP/1.0 is ignored',
    clause: upgrade,
    bytes: 'GET /1 HTTP/1.0\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
    answers: [200],
    seen: [{ line: 'GET /1', version: '1.0' }],
    closes: true
  }
]
