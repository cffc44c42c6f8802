import { get, passed, post, refused, type Vector } from './vector.ts'

const host = 'RFC 9112, section 3.2'
const uri = 'RFC 9110, section 7.2'
const syntax = 'RFC 9112, section 5'
const names = 'RFC 9110, section 5.1'
const twice = 'RFC 9110, section 5.3'
const authorization = 'decision 125'
const expect = 'RFC 9110, section 10.1.1'
const large = 'RFC 6585, section 5'

const withHost = (...lines: string[]) => `GET / HTTP/1.1\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n`

/** Forms of the Host header. */
export const hosts: readonly Vector[] = [
  refused('no Host', host, withHost(), 'missing'),
  {
    ...passed('no Host on HTTP/1.0', host, 'GET / HTTP/1.0\r\n\r\n', { line: 'GET /', version: '1.0', host: '' }),
    closes: true
  },
  refused('two equal Host lines', host, withHost('Host: a', 'Host: a'), 'More than one Host'),
  refused('two different Host lines', host, withHost('Host: a', 'Host: b'), 'More than one Host'),
  refused('two Host lines in different case', host, withHost('Host: a', 'HOST: a'), 'More than one Host'),
  refused('empty Host', host, withHost('Host:'), 'empty'),
  ...[
    'a,b',
    'a, b',
    'u@a',
    'u:p@a',
    'a/x',
    'a b',
    'a?x',
    'a#x',
    'a\\b',
    'a%2fb',
    'http://a',
    'a:',
    'a:x',
    'a:80:80',
    ':80',
    '[::1',
    '::1',
    '[a]x',
    'a\tb',
    '.',
    'a"b',
    'a<b',
    'a\xe9',
    '*',
    'a:-1',
    'a:+80',
    'a:000080'
  ].map(value => refused(`Host: ${value}`, uri, withHost(`Host: ${value}`))),
  refused('port 0 in Host', uri, withHost('Host: a:0'), 'out of range'),
  refused('port 65536 in Host', uri, withHost('Host: a:65536'), 'out of range'),
  refused('port 99999 in Host', uri, withHost('Host: a:99999'), 'out of range'),
  ...(
    [
      ['a.example', 'a.example'],
      ['A.Example', 'a.example'],
      ['a.example:8080', 'a.example:8080'],
      ['127.0.0.1', '127.0.0.1'],
      ['[::1]:80', '[::1]:80'],
      ['[::ffff:1.2.3.4]', '[::ffff:1.2.3.4]'],
      ['localhost:65535', 'localhost:65535'],
      ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
      ['a_b.example', 'a_b.example'],
      ['  a.example\t', 'a.example']
    ] as const
  ).map(([value, seen]) => passed(`Host: ${value}`, uri, withHost(`Host: ${value}`), { line: 'GET /', host: seen }))
]

/** Syntax, names, sizes and repetition of header lines. */
export const headerLines: readonly Vector[] = [
  refused('obs-fold', syntax, get('/', 'X-A: b', ' c')),
  refused('obs-fold with a tab', syntax, get('/', 'X-A: b', '\tc')),
  refused('bare LF after a header', syntax, 'GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n'),
  refused('bare CR in a value', syntax, 'GET / HTTP/1.1\r\nHost: a\r\nX: y\rZ: w\r\n\r\n'),
  refused('bare LF at the end of the head', syntax, 'GET / HTTP/1.1\r\nHost: a\r\n\n'),
  refused('NUL in a value', syntax, get('/', 'X: a\x00b')),
  refused('control character in a value', syntax, get('/', 'X: a\x01b')),
  refused('DEL in a value', syntax, get('/', 'X: a\x7fb')),
  refused('space before the colon', syntax, get('/', 'X-A : b')),
  refused('tab before the colon', syntax, get('/', 'X-A\t: b')),
  refused('no colon', syntax, get('/', 'X-A')),
  refused('empty name', names, get('/', ': b')),
  ...['X A', 'X(', 'X"', 'X/', 'X@', 'X[', 'X{', 'X=', 'X,', 'X;', 'X\x00', 'X\x7f', 'X\xe9', 'X\\'].map(name =>
    refused(`header name ${JSON.stringify(name)}`, names, get('/', `${name}: b`))
  ),
  passed('every token character in a name', names, get('/', "!#$%&'*+-.^_`|~09azAZ: b"), {
    line: 'GET /',
    headers: ['Host', 'a.example', "!#$%&'*+-.^_`|~09azAZ", 'b']
  }),
  passed('__proto__ as a header name', names, get('/', '__proto__: x', '__proto__: y'), {
    line: 'GET /',
    headers: ['Host', 'a.example', '__proto__', 'x', '__proto__', 'y']
  }),
  passed('constructor and toString as header names', names, get('/', 'constructor: x', 'toString: y'), {
    line: 'GET /',
    headers: ['Host', 'a.example', 'constructor', 'x', 'toString', 'y']
  }),
  passed('value with bytes above 127', syntax, get('/', 'X: caf\xe9'), {
    line: 'GET /',
    headers: ['Host', 'a.example', 'X', 'caf\xe9']
  }),
  passed('spaces and tabs round a value', syntax, get('/', 'X: \t b c \t'), {
    line: 'GET /',
    headers: ['Host', 'a.example', 'X', 'b c']
  }),
  passed('no space after the colon', syntax, get('/', 'X:b'), {
    line: 'GET /',
    headers: ['Host', 'a.example', 'X', 'b']
  }),
  passed('empty value', syntax, get('/', 'X:'), { line: 'GET /', headers: ['Host', 'a.example', 'X', ''] }),
  passed('repeated ordinary headers stay apart', twice, get('/', 'X: 1', 'Accept: a', 'x: 2'), {
    line: 'GET /',
    headers: ['Host', 'a.example', 'X', '1', 'Accept', 'a', 'x', '2']
  }),
  passed('a list on two Accept-Payment lines', twice, get('/', 'Accept-Payment: a/b', 'accept-payment: c/d'), {
    line: 'GET /',
    headers: ['Host', 'a.example', 'Accept-Payment', 'a/b', 'accept-payment', 'c/d']
  }),
  refused('head of 100 KiB', large, get('/', `X: ${'y'.repeat(100 * 1024)}`), 'too large', 431),
  refused('target of 100 KiB', large, get(`/${'y'.repeat(100 * 1024)}`), 'too large', 431),
  refused(
    '201 header lines',
    large,
    get('/', ...Array.from({ length: 200 }, (_, n) => `X-${n}: y`)),
    'more than 200',
    431
  ),
  passed('credential of 64 KiB', large, get('/', `Authorization: L402 ${'y'.repeat(64 * 1024)}`), { line: 'GET /' }),
  ...['Content-Type', 'Payment-Signature', 'Macaroon', 'Grpc-Metadata-Macaroon', 'X-API-Key', 'Idempotency-Key'].map(
    name => refused(`two ${name} lines`, twice, get('/', `${name}: a`, `${name.toLowerCase()}: a`), 'More than one')
  )
]

/** Which Authorization lines may be combined. */
export const authorizations: readonly Vector[] = [
  passed(
    'LSAT and L402 with the same credential',
    authorization,
    get('/', 'Authorization: LSAT m:p', 'Authorization: L402 m:p'),
    { line: 'GET /' }
  ),
  passed(
    'LSAT and L402 with the same credential in two spellings of base64',
    authorization,
    get('/', 'Authorization: LSAT +/8=:p', 'Authorization: L402 -_8:p'),
    { line: 'GET /' }
  ),
  passed('LSAT alone', authorization, get('/', 'Authorization: LSAT m:p'), { line: 'GET /' }),
  passed('L402 beside a Bearer', authorization, get('/', 'Authorization: Bearer t', 'authorization: L402 m:p'), {
    line: 'GET /'
  }),
  passed('Payment beside a Basic', authorization, get('/', 'Authorization: Payment t', 'Authorization: Basic dTpw'), {
    line: 'GET /'
  }),
  passed(
    'LSAT, L402 and a Bearer',
    authorization,
    get('/', 'Authorization: LSAT m:p', 'Authorization: l402 m:p', 'Authorization: Bearer t'),
    { line: 'GET /' }
  ),
  refused(
    'LSAT and L402 that differ',
    authorization,
    get('/', 'Authorization: LSAT m:p', 'Authorization: L402 m:q'),
    'differ'
  ),
  refused(
    'two L402 that differ',
    authorization,
    get('/', 'Authorization: L402 m:p', 'Authorization: L402 n:q'),
    'payment credential'
  ),
  refused(
    'two equal L402',
    authorization,
    get('/', 'Authorization: L402 m:p', 'Authorization: L402 m:p'),
    'payment credential'
  ),
  refused(
    'two equal LSAT',
    authorization,
    get('/', 'Authorization: LSAT m:p', 'Authorization: LSAT m:p'),
    'payment credential'
  ),
  refused(
    'LSAT and Payment',
    authorization,
    get('/', 'Authorization: LSAT m:p', 'Authorization: Payment t'),
    'payment credential'
  ),
  refused(
    'L402 and Payment',
    authorization,
    get('/', 'Authorization: L402 m:p', 'Authorization: Payment t'),
    'payment credential'
  ),
  refused(
    'two Payment',
    authorization,
    get('/', 'Authorization: Payment t', 'Authorization: payment t'),
    'payment credential'
  ),
  refused(
    'two Bearer',
    authorization,
    get('/', 'Authorization: Bearer t', 'Authorization: Bearer t'),
    'More than one Authorization'
  ),
  refused(
    'Bearer and Basic',
    authorization,
    get('/', 'Authorization: Bearer t', 'Authorization: Basic dTpw'),
    'More than one Authorization'
  ),
  refused(
    'a line without a scheme beside a Bearer',
    authorization,
    get('/', 'Authorization: Bearer t', 'Authorization:'),
    'More than one Authorization'
  )
]

/** Expectations. */
export const expectations: readonly Vector[] = [
  refused('unknown expectation', expect, get('/', 'Expect: 200-ok'), '100-continue', 417),
  refused('two expectations in one line', expect, get('/', 'Expect: 100-continue, x'), '100-continue', 417),
  refused('empty expectation', expect, get('/', 'Expect:'), '100-continue', 417),
  {
    id: '100-continue with a body',
    clause: expect,
    bytes: post('abc', 'Content-Length: 3', 'Expect: 100-Continue'),
    answers: [100, 200],
    seen: [{ line: 'POST /in', body: 'abc' }],
    closes: false
  },
  {
    id: '100-continue without a body gets no 100',
    clause: expect,
    bytes: get('/', 'Expect: 100-continue') + get('/2'),
    answers: [200],
    seen: [{ line: 'GET /', body: '' }],
    closes: true
  },
  {
    id: '100-continue on HTTP/1.0 is ignored',
    clause: expect,
    bytes: 'POST /in HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc',
    answers: [200],
    seen: [{ line: 'POST /in', body: 'abc', version: '1.0' }],
    closes: true
  }
]
