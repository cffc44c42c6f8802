import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import type { CallController, CallHandler } from '../../../src/engine/upstream/connection.ts'
import { ConnectionPool } from '../../../src/engine/upstream/connection-pool.ts'
import { Dialer } from '../../../src/engine/upstream/connector.ts'
import { RawUpstream } from '../../support/raw-upstream.ts'
import { contextOf, forwarderTo, RecordingResponder, upstreamConfig } from './harness.ts'

setFlagsFromString('--expose-gc')
// A function of V8's own, which takes no argument that is needed here.
const collect = runInNewContext('gc') as () => void

/** Collects until nothing of `held` is left, or it is clear that something keeps it; answers how many are left. */
async function left(held: ReadonlyArray<WeakRef<object>>) {
  let count = held.length
  for (let round = 0; round < 20 && count > 0; round++) {
    // A reference that was looked at lives until the end of the turn.
    await setImmediate()
    collect()
    count = held.filter(one => one.deref() !== undefined).length
  }
  return count
}

function nothing() {
  return undefined
}

/** A handler made here, so that it keeps nothing alive of where it is used. */
function handlerOf(told: Partial<CallHandler>) {
  return {
    over: false,
    client: '',
    stalledTicks: 0,
    giveUp: nothing,
    onRequestStart: nothing,
    onBodySent: nothing,
    onRequestSent: nothing,
    onResponseStart: nothing,
    onResponseData: nothing,
    onResponseEnd: nothing,
    onResponseError: nothing,
    ...told
  }
}

t.test('a pool keeps no request that it has sent, while their answers stream', async t => {
  const upstream = await new RawUpstream(async connection => {
    if ((await connection.request()) !== null)
      connection.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n')
  }).listen()
  const url = new URL(upstream.origin)
  const pool = new ConnectionPool(new Dialer(url, null, { tls: null, timeout: 5000 }), url.host, 10)
  t.teardown(async () => {
    pool.destroy()
    await upstream.close()
  })
  const send = async () => {
    const { promise, resolve, reject } = Promise.withResolvers<CallController>()
    const body = Buffer.from('what was sent')
    pool.dispatch(
      { method: 'POST', path: '/', headers: [], body },
      handlerOf({
        onResponseData: resolve,
        onResponseError: (_, error) => {
          reject(error)
        }
      })
    )
    await promise
    return new WeakRef(body)
  }
  const bodies = await Promise.all(Array.from({ length: 10 }, send))
  t.equal(await left(bodies), 0)
})

t.test('an answer that streams for long keeps neither the head that was sent for it nor the one that came', async t => {
  const upstream = await new RawUpstream(async connection => {
    if ((await connection.request()) !== null)
      connection.send(
        'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n'
      )
  }).listen()
  const forwarder = forwarderTo(t, upstream)
  const route = await forwarder.open(upstreamConfig(upstream.origin))
  const responder = new RecordingResponder()
  const sent: Array<WeakRef<object>> = []
  responder.hook = ({ headers }) => {
    sent.push(new WeakRef(headers.pairs))
  }
  void forwarder.forwardTo(contextOf(), responder, route)
  await responder.wrote
  t.equal(sent.length, 1)
  t.equal(await left(sent), 0, 'the headers of the request')
  t.equal(responder.ended, false, 'it continues')
})

t.test("the list of an answer's headers is there while its head is handed over, and empty after it", async t => {
  const upstream = await new RawUpstream(async connection => {
    if ((await connection.request()) !== null) connection.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na')
  }).listen()
  const url = new URL(upstream.origin)
  const pool = new ConnectionPool(new Dialer(url, null, { tls: null, timeout: 5000 }), url.host, 1)
  t.teardown(async () => {
    pool.destroy()
    await upstream.close()
  })
  let seen: readonly string[] = []
  const controller = await new Promise<CallController>((resolve, reject) => {
    pool.dispatch(
      { method: 'GET', path: '/', headers: [], body: null },
      handlerOf({
        onResponseStart: ({ rawHeaders }) => {
          seen = rawHeaders.slice()
        },
        onResponseData: resolve,
        onResponseError: (_, error) => {
          reject(error)
        }
      })
    )
  })
  t.same(seen, ['Content-Length', '2'])
  t.same(controller.rawHeaders, [])
  controller.abort()
})
