import http from 'node:http'
import net from 'node:net'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import { requestHead, RequestRefused, type UpstreamCall } from '../../../src/engine/upstream/request-head.ts'
import { serve } from '../../support/serve.ts'

const GET: UpstreamCall = { method: 'GET', path: '/', headers: [], body: null }

function refusalOf(call: UpstreamCall) {
  try {
    requestHead(call, 'upstream.test')
    return null
  } catch (error) {
    if (!(error instanceof RequestRefused)) throw error
    return error.message
  }
}

t.test('how each body is framed', async t => {
  const stream = Readable.from([])
  for (const [method, body, headers, framing, last] of [
    ['GET', null, [], '', false],
    ['GET', null, ['Content-Length', '0'], '', false],
    ['POST', null, [], 'content-length: 0', false],
    ['PUT', new Uint8Array(0), ['content-length', '0'], 'content-length: 0', false],
    ['DELETE', new Uint8Array(0), [], '', false],
    ['POST', new Uint8Array(5), [], 'content-length: 5', false],
    ['POST', new Uint8Array(5), ['CONTENT-LENGTH', '5'], 'content-length: 5', false],
    ['DELETE', new Uint8Array(5), [], 'content-length: 5', true],
    ['POST', stream, ['Content-Length', '7'], 'content-length: 7', false],
    ['POST', stream, [], 'transfer-encoding: chunked', false],
    ['GET', stream, [], 'transfer-encoding: chunked', true],
    ['HEAD', null, [], '', true]
  ] as const) {
    const head = requestHead({ method, path: '/', headers, body }, 'upstream.test')
    const found = head.text
      .split('\r\n')
      .filter(line => /^(?:content-length|transfer-encoding)/i.test(line))
      .join()
    t.equal(found, framing, `${method} ${headers.join(' ')}`)
    t.equal(head.last, last)
    t.match(head.text, last ? /\r\nconnection: close\r\n/ : /\r\nconnection: keep-alive\r\n/)
    t.match(head.text, /^\S+ \/ HTTP\/1\.1\r\nhost: upstream\.test\r\n/)
    t.ok(head.text.endsWith('\r\n\r\n'))
  }
})

t.test('TE is in the Connection list of its sender (RFC 9110 10.1.4)', async t => {
  t.match(
    requestHead({ ...GET, headers: ['TE', 'trailers'] }, 'u').text,
    /\r\nconnection: keep-alive, TE\r\nTE: trailers\r\n/
  )
  t.match(
    requestHead({ ...GET, method: 'HEAD', headers: ['te', 'trailers'] }, 'u').text,
    /\r\nconnection: close, TE\r\n/
  )
})

t.test('a request that could be split or smuggled is refused', async t => {
  for (const call of [
    { method: 'CONNECT' },
    { method: '' },
    { method: 'GE T' },
    { method: 'GET\r\n' },
    { method: 'G\xe9T' },
    { path: '' },
    { path: '*' },
    { path: 'http://x/' },
    { path: '/a b' },
    { path: '/a\r\nX: y' },
    { path: '/a\n' },
    { path: '/\0' },
    { path: '/\u010a' },
    { path: '/\ud83d\ude00' },
    { headers: ['', 'x'] },
    { headers: ['a b', 'x'] },
    { headers: ['a:', 'x'] },
    { headers: ['a\r\n', 'x'] },
    { headers: ['\xe9', 'x'] },
    { headers: ['a\u010a', 'x'] },
    { headers: ['a', 'x\r\ny: z'] },
    { headers: ['a', 'x\n'] },
    { headers: ['a', 'x\r'] },
    { headers: ['a', '\0'] },
    { headers: ['a', '\x7f'] },
    { headers: ['a', 'x\u010d\u010a'] },
    { headers: ['Host', 'a', 'host', 'b'] },
    { headers: ['Content-Length', '0', 'content-length', '0'] },
    { headers: ['Content-Length', ''] },
    { headers: ['Content-Length', '+1'] },
    { headers: ['Content-Length', '1,1'] },
    { headers: ['Content-Length', '0x1'] },
    { headers: ['Content-Length', ' 1'] },
    { headers: ['Content-Length', '1'.repeat(16)] },
    { method: 'POST', headers: ['Content-Length', '4'], body: new Uint8Array(5) },
    { headers: ['Transfer-Encoding', 'chunked'] },
    { headers: ['transfer-encoding', 'x'] },
    { headers: ['Connection', 'close'] },
    { headers: ['Keep-Alive', 'x'] },
    { headers: ['UPGRADE', 'x'] },
    { headers: ['expect', '100-continue'] }
  ])
    t.match(refusalOf({ ...GET, ...call }), /^the request cannot be sent: /, JSON.stringify(call))
})

t.test('whatever is let through reaches a server of Node as one request with the same parts', async t => {
  const seen: Array<{ method: string; url: string; headers: string[] }> = []
  let answered: () => void = () => {
    /* set below */
  }
  const server = http.createServer({ requireHostHeader: false }, (request, response) => {
    seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.rawHeaders })
    response.end()
    answered()
  })
  const faults: string[] = []
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    socket.destroy()
    // A reset is the end of a connection that has had its answer.
    if (error.code === 'ECONNRESET') return
    faults.push(error.code ?? '')
    answered()
  })
  const port = await serve(t, server)
  const odd = fc.constantFrom(
    '\r',
    '\n',
    '\r\n',
    '\0',
    ' ',
    '\t',
    ':',
    '\x7f',
    '\u010a',
    '\u010d',
    '\xff',
    'GET / HTTP/1.1\r\n\r\n'
  )
  const piece = fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom('a', 'Z', '0', '-', '_', '~', '!') },
    { weight: 1, arbitrary: odd }
  )
  const text = fc.string({ unit: piece, maxLength: 10 })
  // Node's server takes neither of the two in a target; upstreams may.
  const call = fc.record({
    path: text.map(rest => `/${rest.replaceAll(/[\x7f\xff]/g, '')}`),
    headers: fc.array(fc.tuple(fc.oneof(text, fc.constantFrom('Accept', 'X-A')), text), { maxLength: 5 })
  })
  let sent = 0
  for (const { path, headers } of fc.sample(call, { numRuns: 400, seed: 11 })) {
    const made: UpstreamCall = { ...GET, path, headers: headers.flat() }
    if (refusalOf(made) !== null) continue
    sent++
    seen.length = 0
    const socket = net.connect(port, '127.0.0.1')
    const done = new Promise<void>(resolve => {
      answered = resolve
    })
    socket.write(requestHead(made, 'upstream.test').text, 'latin1')
    await done
    socket.destroy()
    t.same(faults, [], JSON.stringify(made))
    t.same(
      seen,
      [
        {
          method: 'GET',
          url: path,
          headers: [
            'host',
            'upstream.test',
            'connection',
            'keep-alive',
            ...headers.flatMap(([name, value]) => [name, value.replaceAll(/^[ \t]+|[ \t]+$/g, '')])
          ]
        }
      ],
      JSON.stringify(made)
    )
  }
  t.ok(sent > 50, `${sent} were sent`)
})
