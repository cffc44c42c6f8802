import { get, passed, refused, type Vector } from './vector.ts'

const version = 'RFC 9112, section 2.3'
const method = 'RFC 9110, section 9'
const form = 'RFC 9112, section 3.2'
const syntax = 'RFC 9112, section 3'
const dots = 'RFC 3986, section 5.2.4'
const characters = 'RFC 3986, section 3.3'
const host = 'Host: a.example\r\n\r\n'

/** Versions, methods and forms of the request line. */
export const requestLines: readonly Vector[] = [
  passed('plain GET', syntax, get('/'), {
    line: 'GET /',
    host: 'a.example',
    version: '1.1',
    headers: ['Host', 'a.example']
  }),
  refused('HTTP/0.9 without a version', version, 'GET /\r\n\r\n', 'HTTP/1.1'),
  refused('HTTP/0.9 by name', version, `GET / HTTP/0.9\r\n${host}`, 'HTTP/1.1'),
  refused('HTTP/1.2', version, `GET / HTTP/1.2\r\n${host}`),
  refused('HTTP/2.0 on the request line', version, `GET / HTTP/2.0\r\n${host}`, 'HTTP/1.1'),
  refused('HTTP/2 preface', 'RFC 9113, section 3.4', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'HTTP/1.1'),
  refused('HTTP/1.10', version, `GET / HTTP/1.10\r\n${host}`),
  refused('lower-case protocol name', version, `GET / http/1.1\r\n${host}`),
  refused('no protocol name', version, `GET / 1.1\r\n${host}`),
  refused('a method of RTSP', version, `DESCRIBE / RTSP/1.0\r\n${host}`),
  refused('a source of ICE', version, `SOURCE / ICE/1.1\r\n${host}`),
  refused('TRACE', method, `TRACE / HTTP/1.1\r\n${host}`, 'TRACE', 405),
  refused('CONNECT', method, 'CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n', 'CONNECT'),
  refused('lower-case method', method, `get / HTTP/1.1\r\n${host}`),
  refused('unknown method', method, `FROB / HTTP/1.1\r\n${host}`, 'method is not known'),
  refused('no method', method, `/ HTTP/1.1\r\n${host}`),
  refused('method with a separator', method, `GE(T / HTTP/1.1\r\n${host}`),
  {
    id: 'HEAD',
    clause: method,
    bytes: `HEAD /x HTTP/1.1\r\n${host}`,
    answers: [200],
    seen: [{ line: 'HEAD /x' }],
    closes: false
  },
  passed('PATCH without a body', method, `PATCH /x HTTP/1.1\r\n${host}`, { line: 'PATCH /x', body: '' }),
  passed('OPTIONS of a path', method, `OPTIONS /x HTTP/1.1\r\n${host}`, { line: 'OPTIONS /x' }),
  passed('QUERY', method, `QUERY /x HTTP/1.1\r\n${host}`, { line: 'QUERY /x' }),
  passed('empty lines before the request line', 'RFC 9112, section 2.2', `\r\n\r\nGET /x HTTP/1.1\r\n${host}`, {
    line: 'GET /x'
  }),
  refused('bare LF after the request line', 'RFC 9112, section 2.2', 'GET / HTTP/1.1\nHost: a.example\r\n\r\n'),
  refused('bare CR in the request line', 'RFC 9112, section 2.2', `GET /\r HTTP/1.1\r\n${host}`),
  refused('space before the method', syntax, ` GET / HTTP/1.1\r\n${host}`),
  refused('tab between method and target', syntax, `GET\t/ HTTP/1.1\r\n${host}`),
  refused('space inside the target', syntax, `GET /a b HTTP/1.1\r\n${host}`),
  refused('space before the first header', syntax, `GET / HTTP/1.1\r\n ${host}`),
  refused('TLS record instead of a request', syntax, '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', undefined),
  refused('GET *', form, `GET * HTTP/1.1\r\n${host}`, 'asterisk'),
  refused('OPTIONS *', form, `OPTIONS * HTTP/1.1\r\n${host}`, 'asterisk'),
  refused('authority-form', form, `GET a.example:80 HTTP/1.1\r\n${host}`),
  refused('target without a slash', form, `GET x HTTP/1.1\r\n${host}`),
  refused('target that is a query', form, `GET ?x HTTP/1.1\r\n${host}`),
  passed('absolute-form', form, `GET http://a.example/x?y HTTP/1.1\r\n${host}`, {
    line: 'GET /x?y',
    host: 'a.example'
  }),
  passed('absolute-form in upper case', form, `GET HTTP://A.EXAMPLE/X HTTP/1.1\r\n${host}`, { line: 'GET /X' }),
  passed('absolute-form with https', form, `GET https://a.example/x HTTP/1.1\r\n${host}`, { line: 'GET /x' }),
  passed('absolute-form without a path', form, `GET http://a.example HTTP/1.1\r\n${host}`, { line: 'GET /' }),
  passed('absolute-form with a query alone', form, `GET http://a.example?q=1 HTTP/1.1\r\n${host}`, {
    line: 'GET /?q=1'
  }),
  passed('absolute-form with the same port', form, 'GET http://a.example:81/ HTTP/1.1\r\nHost: a.example:81\r\n\r\n', {
    line: 'GET /',
    host: 'a.example:81'
  }),
  refused('absolute-form for another host', form, `GET http://b.example/ HTTP/1.1\r\n${host}`, 'differs'),
  refused('absolute-form for another port', form, `GET http://a.example:81/ HTTP/1.1\r\n${host}`, 'differs'),
  refused('absolute-form with userinfo', form, `GET http://u:p@a.example/ HTTP/1.1\r\n${host}`),
  refused('absolute-form without authority', form, `GET http:///x HTTP/1.1\r\n${host}`),
  refused('absolute-form of another scheme', form, `GET ftp://a.example/ HTTP/1.1\r\n${host}`),
  refused('absolute-form with a dot segment', dots, `GET http://a.example/../x HTTP/1.1\r\n${host}`, 'dot segment'),
  refused('absolute-form without Host', form, 'GET http://a.example/ HTTP/1.1\r\n\r\n', 'missing')
]

/** Targets that are refused, and those that pass byte for byte. */
export const targets: readonly Vector[] = [
  ...[
    '/../x',
    '/a/..',
    '/a/../b',
    '/.',
    '/a/./b',
    '/a/.',
    '/%2e%2e/x',
    '/%2E%2e',
    '/.%2e/x',
    '/%2e./x',
    '/a/%2e',
    '/a/%2E/b',
    '/a/..?q',
    '/..%2fetc',
    '/a%2f..%2fb',
    '/a%5c..%5cb'
  ].map(target => refused(`dot segment in ${target}`, dots, get(target), 'dot segment')),
  refused('fragment', characters, get('/a#b'), 'fragment'),
  refused('fragment in the query', characters, get('/a?b#c'), 'fragment'),
  refused('backslash', characters, get('/a\\b'), 'backslash'),
  refused('backslash in the query', characters, get('/a?b\\c'), 'backslash'),
  refused('backslash dot segment', characters, get('/a\\..\\b')),
  refused('NUL in the target', characters, get('/a\x00b')),
  refused('control character in the target', characters, get('/a\x01b')),
  refused('tab in the target', characters, get('/a\tb')),
  refused('DEL in the target', characters, get('/a\x7fb')),
  refused('raw byte above 127 in the target', characters, get('/caf\xe9')),
  ...[
    '/a%2Fb',
    '/a%2fb',
    '//a//b',
    '/a;v=1/b',
    '/?a?b',
    '/a?',
    '/?',
    '/%',
    '/%zz',
    '/%ff%fe',
    '/%00',
    '/a%5Cb',
    '/a%20b',
    '/...',
    '/a/...',
    '/.well-known/x',
    '/a..b',
    '/a.',
    '/..a',
    '/a/.b',
    '/%2e%2ea',
    '/?../..',
    '/?x=/../',
    '/?http://b.example/',
    '/http://b.example/',
    "/~!$&'()*+,;=:@-._",
    '/|^`{}"<>',
    '/A/b/C',
    '/[::1]',
    '/a%25%32%65'
  ].map(target => passed(`target ${target} byte for byte`, characters, get(target), { line: `GET ${target}` })),
  passed('a long target', characters, get(`/${'x'.repeat(8000)}`), { line: `GET /${'x'.repeat(8000)}` })
]
