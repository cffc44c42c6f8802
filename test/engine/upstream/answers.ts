import type { UpstreamTarget } from '../../../src/engine/message/context.ts'

/** What an upstream sends, and what must reach the client of it. */
export interface AnswerVector {
  readonly id: string
  /** Where the rule is written. */
  readonly clause: string
  readonly method?: string
  readonly httpVersion?: '1.0' | '1.1'
  readonly target?: Partial<UpstreamTarget>
  /** Pieces of the answer, each sent as a piece of its own. Empty: nothing is sent. */
  readonly answer: readonly string[]
  /** What the upstream does then. Left open by default. */
  readonly after?: 'end' | 'reset'
  readonly expect?: {
    /** Status of the head (default 200); of the error when there is no head (default 502). */
    readonly status?: number
    /** Default `a` for a whole answer. */
    readonly body?: string
    /** How it ended: whole (default), as an error before the head, or broken off behind it. */
    readonly end?: 'error' | 'break'
    /** Headers that must be there, with all their values. */
    readonly has?: Readonly<Record<string, readonly string[]>>
    readonly lacks?: readonly string[]
    readonly trailers?: readonly string[] | null
    readonly interims?: readonly number[]
    readonly details?: RegExp
    /** The connection must not be used again. */
    readonly retired?: true
  }
}

const OK = 'HTTP/1.1 200 OK\r\n'

/** Answers of upstreams: well formed, odd, broken and hostile. */
export const ANSWERS: readonly AnswerVector[] = [
  // Framing that is in order.
  {
    id: 'length',
    clause: 'RFC 9112 6.2',
    answer: [`${OK}Content-Length: 5\r\n\r\nhello`],
    expect: { body: 'hello', has: { 'content-length': ['5'] } }
  },
  {
    id: 'length-in-pieces',
    clause: 'RFC 9112 6.2',
    answer: ['HTTP/1.', '1 200 OK\r\nCont', 'ent-Length: 5\r', '\n\r\nhe', 'llo'],
    expect: { body: 'hello', has: { 'content-length': ['5'] } }
  },
  {
    id: 'length-zero',
    clause: 'RFC 9112 6.2',
    answer: [`${OK}Content-Length: 0\r\n\r\n`],
    expect: { body: '' }
  },
  {
    id: 'chunked',
    clause: 'RFC 9112 7.1',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`],
    expect: { body: 'hello', lacks: ['transfer-encoding', 'content-length'] }
  },
  {
    id: 'chunked-bytewise',
    clause: 'RFC 9112 7.1',
    answer: [
      `${OK}Transfer-Encoding: chunked\r\n\r\n`,
      '3',
      '\r\n',
      'abc',
      '\r',
      '\n',
      '2;x=y\r\nde\r\n',
      '0\r\n',
      '\r\n'
    ],
    expect: { body: 'abcde' }
  },
  {
    id: 'chunked-upper-case',
    clause: 'RFC 9112 7',
    answer: [`${OK}Transfer-Encoding: CHUNKED\r\n\r\n1\r\na\r\n0\r\n\r\n`]
  },
  {
    id: 'until-close',
    clause: 'RFC 9112 6.3 rule 8',
    answer: [`${OK}\r\nhello`],
    after: 'end',
    expect: { body: 'hello', retired: true }
  },
  {
    id: 'http-1.0',
    clause: 'RFC 9112 C.1',
    answer: ['HTTP/1.0 200 OK\r\n\r\nold'],
    after: 'end',
    expect: { body: 'old', retired: true }
  },
  {
    id: 'http-1.0-length',
    clause: 'RFC 9112 C.1',
    answer: ['HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold'],
    expect: { body: 'old', retired: true }
  },
  {
    id: 'connection-close',
    clause: 'RFC 9112 9.6',
    answer: [`${OK}Connection: close\r\nContent-Length: 1\r\n\r\na`],
    after: 'end',
    expect: { retired: true, lacks: ['connection'] }
  },
  {
    id: 'bare-reason',
    clause: 'RFC 9112 4',
    answer: ['HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na']
  },
  {
    id: 'leading-crlf',
    clause: 'RFC 9112 2.2',
    answer: ['\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na']
  },

  // Statuses.
  {
    id: 'status-204',
    clause: 'RFC 9110 15.3.5',
    answer: ['HTTP/1.1 204 No Content\r\n\r\n'],
    expect: { status: 204, body: '' }
  },
  {
    id: 'status-204-length',
    clause: 'RFC 9110 8.6',
    answer: ['HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n'],
    expect: { status: 204, body: '', lacks: ['content-length'] }
  },
  {
    id: 'status-204-body',
    clause: 'RFC 9112 6.3 rule 1',
    answer: ['HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello'],
    expect: { status: 204, body: '', retired: true }
  },
  {
    id: 'status-304',
    clause: 'RFC 9110 15.4.5',
    answer: ['HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: "a"\r\n\r\n'],
    expect: { status: 304, body: '', has: { 'content-length': ['5'], etag: ['"a"'] } }
  },
  {
    id: 'status-304-over-limit',
    clause: 'decision 96',
    target: { responseLimit: 10 },
    answer: ['HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\n\r\n'],
    expect: { status: 304, body: '' }
  },
  {
    id: 'status-redirect',
    clause: 'decision 98',
    answer: ['HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n'],
    expect: { status: 302, body: '', has: { location: ['http://127.0.0.1:1/'] } }
  },
  {
    id: 'status-402',
    clause: 'contract, Reverse proxy',
    answer: ['HTTP/1.1 402 Payment Required\r\nContent-Length: 1\r\n\r\nx'],
    expect: { status: 402, body: 'x' }
  },
  {
    id: 'status-500',
    clause: 'contract, Reverse proxy',
    answer: ['HTTP/1.1 500 Oops\r\nContent-Length: 1\r\n\r\nx'],
    expect: { status: 500, body: 'x' }
  },
  {
    id: 'status-599',
    clause: 'RFC 9110 15',
    answer: ['HTTP/1.1 599 Odd\r\nContent-Length: 1\r\n\r\nx'],
    expect: { status: 599, body: 'x' }
  },
  {
    id: 'status-999',
    clause: 'RFC 9110 15',
    answer: ['HTTP/1.1 999 Denied\r\nContent-Length: 1\r\n\r\nx'],
    expect: { status: 999, body: 'x' }
  },
  {
    id: 'head',
    clause: 'RFC 9110 9.3.2',
    method: 'HEAD',
    answer: [`${OK}Content-Length: 5\r\n\r\n`],
    expect: { body: '', has: { 'content-length': ['5'] } }
  },
  {
    id: 'head-chunked',
    clause: 'RFC 9110 9.3.2',
    method: 'HEAD',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n`],
    expect: { body: '', lacks: ['transfer-encoding'] }
  },
  {
    id: 'head-over-limit',
    clause: 'decision 96',
    method: 'HEAD',
    target: { responseLimit: 10 },
    answer: [`${OK}Content-Length: 50\r\n\r\n`],
    expect: { body: '', has: { 'content-length': ['50'] } }
  },
  {
    id: 'head-with-body',
    clause: 'RFC 9112 6.3 rule 1',
    method: 'HEAD',
    answer: [`${OK}Content-Length: 5\r\n\r\nhello`],
    expect: { body: '', retired: true }
  },

  // Interim answers.
  {
    id: 'early-hints',
    clause: 'RFC 8297',
    answer: ['HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n', `${OK}Content-Length: 1\r\n\r\na`],
    expect: { interims: [103] }
  },
  {
    id: 'processing',
    clause: 'RFC 9110 15.2',
    answer: [
      'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n',
      `${OK}Content-Length: 1\r\n\r\na`
    ],
    expect: { interims: [102, 102, 103] }
  },
  {
    id: 'interim-unknown',
    clause: 'RFC 9110 15.2',
    answer: [`HTTP/1.1 199 Odd\r\n\r\n${OK}Content-Length: 1\r\n\r\na`],
    expect: { interims: [] }
  },
  {
    id: 'interim-old-client',
    clause: 'RFC 9110 15.2',
    httpVersion: '1.0',
    answer: [`HTTP/1.1 103 Early Hints\r\n\r\n${OK}Content-Length: 1\r\n\r\na`],
    expect: { interims: [] }
  },
  {
    id: 'interim-flood',
    clause: 'own limit',
    answer: ['HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100), `${OK}Content-Length: 1\r\n\r\na`],
    expect: { end: 'error', details: /interim/ }
  },
  {
    id: 'interim-then-nothing',
    clause: 'RFC 9112 6.3',
    answer: ['HTTP/1.1 103 Early Hints\r\n\r\n'],
    after: 'end',
    expect: { end: 'error', interims: [103] }
  },
  // Nothing of ours asks for it, since Expect ends here; it is passed over.
  {
    id: 'continue-unasked',
    clause: 'RFC 9110 15.2.1',
    answer: ['HTTP/1.1 100 Continue\r\n\r\n', `${OK}Content-Length: 1\r\n\r\na`],
    expect: { interims: [] }
  },
  {
    id: 'switching-unasked',
    clause: 'RFC 9110 7.8',
    answer: ['HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nsecret'],
    expect: { end: 'error' }
  },

  // Trailers.
  {
    id: 'trailers',
    clause: 'RFC 9110 6.5',
    answer: [
      `${OK}Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nGrpc-Status: 0\r\n\r\n`
    ],
    expect: { trailers: ['X-Sum', '1', 'Grpc-Status', '0'], lacks: ['trailer', 'x-sum'] }
  },
  {
    id: 'trailers-forbidden',
    clause: 'RFC 9110 6.5.1',
    answer: [
      `${OK}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nSet-Cookie: a=b\r\nAuthorization: x\r\nPayment-Receipt: forged\r\nX-L402-Proxy: forged\r\nCache-Control: public\r\n\r\n`
    ],
    expect: { trailers: null }
  },
  {
    id: 'trailers-framing',
    clause: 'RFC 9110 6.5.1',
    answer: [
      `${OK}Transfer-Encoding: chunked\r\n\r\n`,
      '1\r\na\r\n0\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n'
    ],
    expect: { body: 'a', end: 'break' }
  },
  {
    id: 'trailers-old-client',
    clause: 'RFC 9112 7.1.2',
    httpVersion: '1.0',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n`],
    expect: { trailers: null }
  },

  // Headers.
  {
    id: 'hop-by-hop',
    clause: 'RFC 9110 7.6.1',
    answer: [
      `${OK}Connection: keep-alive, X-Private\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authenticate: Basic\r\nProxy-Authorization: x\r\nTE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nX-Private: 1\r\nX-Public: 2\r\nContent-Length: 1\r\n\r\na`
    ],
    expect: {
      has: { 'x-public': ['2'] },
      lacks: [
        'connection',
        'keep-alive',
        'proxy-connection',
        'proxy-authenticate',
        'proxy-authorization',
        'te',
        'upgrade',
        'http2-settings',
        'x-private'
      ]
    }
  },
  {
    id: 'connection-cannot-strip',
    clause: 'header policy',
    target: { responseHeaders: ['X-L402-Proxy', 'true'] },
    answer: [`${OK}Connection: Via, X-L402-Proxy, Content-Length\r\nContent-Length: 1\r\n\r\na`],
    expect: { has: { via: ['1.1 boltgate'], 'x-l402-proxy': ['true'], 'content-length': ['1'] } }
  },
  {
    id: 'forged-own-headers',
    clause: 'header policy',
    target: { responseHeaders: ['X-L402-Proxy-Id', 'p-1', 'X-L402-Proxy', 'true'] },
    answer: [
      `${OK}Payment-Receipt: forged\r\nX-L402-Proxy-Id: other\r\nx-l402-proxy: no\r\nX-L402-Error: x\r\nX-Correlation-Id: x\r\nContent-Length: 1\r\n\r\na`
    ],
    expect: {
      has: { 'x-l402-proxy-id': ['p-1'], 'x-l402-proxy': ['true'] },
      lacks: ['payment-receipt', 'x-l402-error', 'x-correlation-id']
    }
  },
  {
    id: 'set-cookie-twice',
    clause: 'RFC 6265 3',
    answer: [`${OK}Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nset-cookie: a=1\r\nContent-Length: 1\r\n\r\na`],
    expect: {
      has: {
        'set-cookie': ['a=1', 'b=2', 'a=1'].map(cookie => `proxy-p-1.${cookie}; Path=/l402/proxy/p-1`)
      }
    }
  },
  {
    id: 'bytes-kept',
    clause: 'RFC 9110 5.5',
    answer: [`${OK}X-Name: caf\xe9 \xc3\xa9\r\nContent-Length: 1\r\n\r\na`],
    expect: { has: { 'x-name': ['caf\xe9 \xc3\xa9'] } }
  },
  {
    id: 'proto-name',
    clause: 'robustness',
    answer: [`${OK}__proto__: x\r\nconstructor: y\r\nContent-Length: 1\r\n\r\na`],
    expect: { has: { ['__proto__']: ['x'], constructor: ['y'] } }
  },
  {
    id: 'via-appended',
    clause: 'RFC 9110 7.6.3',
    answer: [`${OK}Via: 1.0 inner\r\nContent-Length: 1\r\n\r\na`],
    expect: { has: { via: ['1.0 inner', '1.1 boltgate'] } }
  },
  {
    id: 'empty-value',
    clause: 'RFC 9110 5.5',
    answer: [`${OK}X-Empty:\r\nContent-Length: 1\r\n\r\na`],
    expect: { has: { 'x-empty': [''] } }
  },
  {
    id: 'head-large',
    clause: 'own limit',
    answer: [`${OK}X-Large: ${'a'.repeat(40_000)}\r\nContent-Length: 1\r\n\r\na`]
  },
  {
    id: 'head-too-large',
    clause: 'own limit',
    answer: [`${OK}X-Large: ${'a'.repeat(80_000)}\r\nContent-Length: 1\r\n\r\na`],
    expect: { end: 'error', details: /head of its answer is too large/ }
  },

  // Answers that are not HTTP.
  {
    id: 'garbage',
    clause: 'RFC 9112 2.1',
    answer: ['hello there\r\n\r\n'],
    expect: { end: 'error', details: /not valid HTTP/ }
  },
  {
    id: 'http-0.9',
    clause: 'RFC 9112 2.3',
    answer: ['<html>old</html>'],
    after: 'end',
    expect: { end: 'error' }
  },
  {
    id: 'tls-alert',
    clause: 'RFC 9112 2.1',
    answer: ['\x15\x03\x01\x00\x02\x02\x28'],
    after: 'end',
    expect: { end: 'error' }
  },
  {
    id: 'version-2',
    clause: 'RFC 9112 2.3',
    answer: ['HTTP/3.0 200 OK\r\nContent-Length: 1\r\n\r\na'],
    expect: { end: 'error' }
  },
  {
    id: 'status-text',
    clause: 'RFC 9112 4',
    answer: ['HTTP/1.1 abc OK\r\n\r\n'],
    expect: { end: 'error' }
  },
  {
    id: 'header-without-colon',
    clause: 'RFC 9112 5',
    answer: [`${OK}nonsense\r\nContent-Length: 1\r\n\r\na`],
    expect: { end: 'error' }
  },
  {
    id: 'header-space-before-colon',
    clause: 'RFC 9112 5.1',
    answer: [`${OK}Content-Length : 1\r\n\r\na`],
    expect: { end: 'error' }
  },
  {
    id: 'header-folded',
    clause: 'RFC 9112 5.2',
    answer: [`${OK}X-A: a\r\n b\r\nContent-Length: 1\r\n\r\na`],
    expect: { end: 'error' }
  },
  {
    id: 'header-nul',
    clause: 'RFC 9110 5.5',
    answer: [`${OK}X-A: a\0b\r\nContent-Length: 1\r\n\r\na`],
    expect: { end: 'error' }
  },
  {
    id: 'header-bare-cr',
    clause: 'RFC 9112 2.2',
    answer: [`${OK}X-A: a\rX-B: b\r\nContent-Length: 1\r\n\r\na`],
    expect: { end: 'error' }
  },

  // Framing that two readers could take differently.
  {
    id: 'length-twice',
    clause: 'RFC 9112 6.3 rule 5',
    answer: [`${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`],
    expect: { end: 'error' }
  },
  {
    id: 'length-list',
    clause: 'RFC 9112 6.3 rule 5',
    answer: [`${OK}Content-Length: 1, 1\r\n\r\na`],
    expect: { end: 'error' }
  },
  {
    id: 'length-negative',
    clause: 'RFC 9110 8.6',
    answer: [`${OK}Content-Length: -1\r\n\r\na`],
    expect: { end: 'error' }
  },
  {
    id: 'length-plus',
    clause: 'RFC 9110 8.6',
    answer: [`${OK}Content-Length: +1\r\n\r\na`],
    expect: { end: 'error' }
  },
  {
    id: 'length-huge',
    clause: 'RFC 9110 8.6',
    answer: [`${OK}Content-Length: 99999999999999999999999\r\n\r\na`],
    expect: { end: 'error' }
  },
  {
    id: 'length-and-chunked',
    clause: 'RFC 9112 6.1',
    answer: [`${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`],
    expect: { end: 'error' }
  },
  {
    id: 'chunked-and-length',
    clause: 'RFC 9112 6.1',
    answer: [`${OK}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n1\r\na\r\n0\r\n\r\n`],
    expect: { end: 'error' }
  },
  {
    id: 'coding-gzip',
    clause: 'RFC 9112 6.1',
    answer: [`${OK}Transfer-Encoding: gzip\r\n\r\nxx`],
    after: 'end',
    expect: { end: 'error', details: /transfer coding/ }
  },
  {
    id: 'coding-gzip-chunked',
    clause: 'RFC 9112 6.1',
    answer: [`${OK}Transfer-Encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`],
    expect: { end: 'error', details: /transfer coding/ }
  },
  {
    id: 'coding-twice',
    clause: 'RFC 9112 6.1',
    answer: [`${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`],
    expect: { end: 'error' }
  },
  {
    id: 'coding-disguised',
    clause: 'RFC 9112 6.1',
    answer: [`${OK}Transfer-Encoding: xchunked\r\n\r\nab`],
    after: 'end',
    expect: { end: 'error' }
  },
  {
    id: 'length-body-longer',
    clause: 'RFC 9112 6.3',
    answer: [`${OK}Content-Length: 2\r\n\r\nabcdef`],
    expect: { body: 'ab', retired: true }
  },
  {
    id: 'length-zero-with-body',
    clause: 'RFC 9112 6.3',
    answer: [`${OK}Content-Length: 0\r\n\r\nabcdef`],
    expect: { body: '', retired: true }
  },
  {
    id: 'second-answer',
    clause: 'response queue poisoning',
    answer: [`${OK}Content-Length: 1\r\n\r\na${OK}Content-Length: 4\r\n\r\nevil`],
    expect: { retired: true }
  },
  {
    id: 'second-answer-later',
    clause: 'response queue poisoning',
    answer: [`${OK}Content-Length: 1\r\n\r\na`, `${OK}Content-Length: 4\r\n\r\nevil`],
    expect: { retired: true }
  },
  {
    id: 'bytes-after-chunked',
    clause: 'response queue poisoning',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nevil`],
    expect: { retired: true }
  },
  {
    id: 'chunk-size-wrong',
    clause: 'RFC 9112 7.1',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n`, '1\r\nabc\r\n0\r\n\r\n'],
    expect: { end: 'break' }
  },
  {
    id: 'chunk-size-text',
    clause: 'RFC 9112 7.1',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n`, 'zz\r\nabc\r\n0\r\n\r\n'],
    expect: { end: 'break' }
  },
  {
    id: 'chunk-size-overflow',
    clause: 'RFC 9112 7.1',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n`, 'ffffffffffffffffff\r\na'],
    expect: { end: 'break' }
  },
  {
    id: 'chunk-bare-lf',
    clause: 'RFC 9112 7.1',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n`, '1\na\n0\n\n'],
    expect: { end: 'break' }
  },

  // Ends at every stage.
  {
    id: 'end-at-once',
    clause: 'RFC 9112 9.5',
    answer: [],
    after: 'end',
    expect: { end: 'error', details: /closed the connection/ }
  },
  {
    id: 'reset-at-once',
    clause: 'RFC 9112 9.5',
    answer: [],
    after: 'reset',
    expect: { end: 'error', details: /closed the connection/ }
  },
  {
    id: 'end-in-status-line',
    clause: 'RFC 9112 8',
    answer: ['HTTP/1.1 2'],
    after: 'end',
    expect: { end: 'error' }
  },
  {
    id: 'end-in-headers',
    clause: 'RFC 9112 8',
    answer: [`${OK}Content-Le`],
    after: 'end',
    expect: { end: 'error' }
  },
  {
    id: 'end-in-length-body',
    clause: 'RFC 9112 8',
    answer: [`${OK}Content-Length: 10\r\n\r\nhello`],
    after: 'end',
    expect: { body: 'hello', end: 'break' }
  },
  {
    id: 'reset-in-length-body',
    clause: 'RFC 9112 8',
    answer: [`${OK}Content-Length: 10\r\n\r\nhello`],
    after: 'reset',
    expect: { body: 'hello', end: 'break' }
  },
  {
    id: 'end-in-chunked-body',
    clause: 'RFC 9112 8',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`],
    after: 'end',
    expect: { body: 'hello', end: 'break' }
  },
  {
    id: 'end-in-chunk',
    clause: 'RFC 9112 8',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n9\r\nhello`],
    after: 'end',
    expect: { body: 'hello', end: 'break' }
  },
  {
    id: 'reset-in-chunked-body',
    clause: 'RFC 9112 8',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`],
    after: 'reset',
    expect: { body: 'hello', end: 'break' }
  },
  {
    id: 'end-before-trailers',
    clause: 'RFC 9112 8',
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n`],
    after: 'end',
    expect: { body: 'hello', end: 'break' }
  },
  {
    id: 'reset-until-close',
    clause: 'RFC 9112 8',
    answer: [`${OK}\r\nhello`],
    after: 'reset',
    expect: { body: 'hello', end: 'break' }
  },
  {
    id: 'length-close-short',
    clause: 'RFC 9112 8',
    answer: [`${OK}Connection: close\r\nContent-Length: 10\r\n\r\nhello`],
    after: 'end',
    expect: { body: 'hello', end: 'break' }
  },

  // Limits.
  {
    id: 'limit-by-length',
    clause: 'decision 96',
    target: { responseLimit: 10 },
    answer: [`${OK}Content-Length: 11\r\n\r\nhello worl!`],
    expect: { end: 'error', details: /larger than 10 bytes/ }
  },
  {
    id: 'limit-exact',
    clause: 'decision 96',
    target: { responseLimit: 10 },
    answer: [`${OK}Content-Length: 10\r\n\r\nhello worl`],
    expect: { body: 'hello worl' }
  },
  {
    id: 'limit-chunked-exact',
    clause: 'decision 96',
    target: { responseLimit: 10 },
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n`, '5\r\nhello\r\n', '5\r\n worl\r\n', '0\r\n\r\n'],
    expect: { body: 'hello worl' }
  },
  {
    id: 'limit-chunked',
    clause: 'decision 96',
    target: { responseLimit: 10 },
    answer: [`${OK}Transfer-Encoding: chunked\r\n\r\n`, '5\r\nhello\r\n', '6\r\n world\r\n', '0\r\n\r\n'],
    expect: { body: 'hello', end: 'break' }
  },
  {
    id: 'limit-until-close',
    clause: 'decision 96',
    target: { responseLimit: 3 },
    answer: [`${OK}\r\n`, 'abc', 'd'],
    after: 'end',
    expect: { body: 'abc', end: 'break' }
  }
]
