import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { generate, type Job } from '../load/generator.ts'
import { plainGet, type LoadResult } from '../load/request.ts'
import { tailVoidReason, voidReason } from '../measure/round.ts'

async function loaded(listener: RequestListener, job: Partial<Job>): Promise<LoadResult> {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A server that listens on a port has an address of this form.
  const { port } = server.address() as AddressInfo
  try {
    return await generate({
      host: '127.0.0.1',
      port,
      request: plainGet('/'),
      from: 0,
      count: null,
      connections: 2,
      seconds: 0.2,
      lead: 0,
      rate: 100,
      ...job
    })
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

test('the open loop sends as many requests as were intended', async () => {
  let seen = 0
  const result = await loaded((_request, response) => {
    seen++
    response.end('hello')
  }, {})
  assert.equal(result.requests, 20)
  assert.equal(seen, 20)
  assert.equal(result.refused + result.broken + (result.unsent ?? 0), 0)
})

test('an answer that takes long delays those behind it, and their wait counts from the intended time', async () => {
  let first = true
  const result = await loaded(
    (_request, response) => {
      if (first)
        setTimeout(() => {
          response.end('late')
        }, 150)
      else response.end('soon')
      first = false
    },
    { connections: 1 }
  )
  assert.equal(result.requests, 20)
  // Fifteen requests were due while the only connection waited; a closed loop would have shown one slow answer.
  assert.ok(result.latency.p50 > 20_000, `p50 was ${result.latency.p50}`)
})

test('responses with an unexpected status make a window void', async () => {
  const result = await loaded(
    (_request, response) => {
      response.writeHead(429, { 'Content-Length': 0 }).end()
    },
    { rate: null }
  )
  assert.ok(result.requests > 0)
  assert.equal(result.refused, result.requests)
  assert.match(voidReason(result, null) ?? '', /had another status/)
})

test('a connection that breaks makes a window void', async () => {
  const result = await loaded((_request, response) => {
    response.destroy()
  }, {})
  assert.notEqual(voidReason(result, 100), null)
})

test('a generator that falls behind makes a window void, or its tail alone', () => {
  const result: LoadResult = {
    requests: 100,
    seconds: 1,
    refused: 0,
    broken: 0,
    sent: 100,
    latency: { p50: 1, p99: 1, p999: 1 },
    lateMedian: 60,
    late: 5000,
    unsent: 0
  }
  assert.match(voidReason(result, 100) ?? '', /fell behind: 60 µs late at the median/)
  const punctual = { ...result, lateMedian: 4 }
  assert.equal(voidReason(punctual, 100), null)
  assert.match(tailVoidReason(punctual) ?? '', /fell behind: 5000 µs late at p99/)
  assert.equal(tailVoidReason({ ...punctual, late: 20 }), null)
})

test('a window that is counted ends with its last answer, and each request differs from the others', async () => {
  const seen: string[] = []
  const result = await loaded(
    (request, response) => {
      seen.push(request.url ?? '')
      response.end('x')
    },
    { request: { ...plainGet('/orders/{n}'), varied: 'number' }, from: 40, count: 30, rate: null, seconds: 60 }
  )
  assert.deepEqual(
    seen.toSorted(),
    Array.from({ length: 30 }, (_, at) => `/orders/${String(40 + at).padStart(10, '0')}`)
  )
  assert.equal(result.requests, 30)
  assert.equal(result.sent, 30)
})

test('values of a header are read from a file, one a line, starting at the given line', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'boltgate-test-'))
  try {
    const file = join(folder, 'tokens.txt')
    writeFileSync(file, 'one\ntwo\nthree\nfour\n')
    const seen: string[] = []
    const result = await loaded(
      (request, response) => {
        seen.push(request.headers.authorization ?? '')
        response.end('x')
      },
      { request: { ...plainGet('/'), varied: { header: 'Authorization', file } }, from: 1, rate: null, seconds: 60 }
    )
    assert.deepEqual(seen.toSorted(), ['four', 'three', 'two'])
    assert.equal(result.sent, 3, 'no line twice, and an end when there are no more')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a body goes with its length', async () => {
  const bodies: string[] = []
  await loaded(
    (request, response) => {
      let body = ''
      request.on('data', (piece: Buffer) => {
        body += piece.toString()
      })
      request.on('end', () => {
        bodies.push(`${request.headers['content-length'] ?? ''} ${body}`)
        response.end('x')
      })
    },
    {
      request: { ...plainGet('/'), method: 'POST', body: '{"order":"{n}"}', varied: 'number' },
      count: 2,
      rate: null,
      seconds: 60
    }
  )
  assert.deepEqual(bodies.toSorted(), ['22 {"order":"0000000000"}', '22 {"order":"0000000001"}'])
})
