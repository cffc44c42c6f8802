import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { ConnectionPool } from '../../../src/engine/upstream/connection-pool.ts'
import type { CallHandler } from '../../../src/engine/upstream/connection.ts'
import { Dialer } from '../../../src/engine/upstream/connector.ts'
import { upstreamFailure } from '../../../src/engine/upstream/failure.ts'
import { Forwarder } from '../../../src/engine/upstream/forwarder.ts'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { CERTIFICATE, KEY } from './certificate.ts'
import { contextOf, RecordingResponder, sent, targetOf, upstreamConfig } from './harness.ts'
import { serve } from '../../support/serve.ts'

const ignore = () => undefined
const silent: CallHandler = {
  over: false,
  client: '',
  stalledTicks: 0,
  giveUp: ignore,
  onRequestStart: ignore,
  onBodySent: ignore,
  onRequestSent: ignore,
  onResponseStart: ignore,
  onResponseData: ignore,
  onResponseEnd: ignore,
  onResponseError: ignore
}

/** A TLS server that answers every request, and notes the names it was asked for. */
async function secureServer(t: Test) {
  const names: Array<string | false> = []
  const protocols: Array<string | false | null> = []
  const server = tls.createServer({ cert: CERTIFICATE, key: KEY, ALPNProtocols: ['h2', 'http/1.1'] }, socket => {
    // Without a name Node has null or false here, whatever its types say.
    names.push(socket.servername || false)
    protocols.push(socket.alpnProtocol)
    socket.on('error', () => {
      /* the gateway may hang up */
    })
    socket.on('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na')
    })
  })
  server.on('tlsClientError', () => {
    /* refused certificates are the point */
  })
  return { origin: `https://127.0.0.1:${await serve(t, server)}`, names, protocols }
}

t.test("the upstream's own name is the one that is requested and verified, whatever Host clients send", async t => {
  const folder = await mkdtemp(join(tmpdir(), 'upstream-'))
  const ca = join(folder, 'ca.pem')
  await writeFile(ca, CERTIFICATE)
  const { origin, names, protocols } = await secureServer(t)
  const forwarder = new Forwarder({ clock: systemClock, production: true })
  t.teardown(async () => {
    await forwarder.close()
    await rm(folder, { recursive: true })
  })
  const route = await forwarder.open(upstreamConfig(origin, { tls: { ca, servername: 'upstream.test' } }))
  for (const host of ['a.test', 'b.test', 'a.test', '10.0.0.1']) {
    const responder = sent(forwarder, route, { host })
    await responder.done
    t.equal(responder.status, 200, host)
    await new Promise<void>(resolve => {
      setImmediate(() => {
        setImmediate(resolve)
      })
    })
  }
  t.same(names, ['upstream.test'], 'one connection served all of them')
  t.same(protocols, ['http/1.1'], 'HTTP/2 is not offered')
})

t.test('a certificate that is not trusted, or for another name, is 502', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'upstream-'))
  const ca = join(folder, 'ca.pem')
  await writeFile(ca, CERTIFICATE)
  const { origin, names } = await secureServer(t)
  const forwarder = new Forwarder({ clock: systemClock, production: false })
  t.teardown(async () => {
    await forwarder.close()
    await rm(folder, { recursive: true })
  })
  for (const [tlsOptions, details] of [
    [{ servername: 'upstream.test' }, 'its certificate is not trusted'],
    [{ ca, servername: 'other.test' }, 'its certificate is for another name'],
    [{ ca }, 'its certificate is for another name']
  ] as const) {
    const route = await forwarder.open(upstreamConfig(origin, { tls: tlsOptions }))
    const responder = sent(forwarder, route)
    await responder.done
    t.equal(responder.failure?.status, 502)
    t.equal(responder.failure?.members?.['details'], details)
    route.release()
  }
  const merchant = sent(forwarder, targetOf(origin))
  await merchant.done
  t.equal(merchant.failure?.members?.['details'], 'its certificate is not trusted', 'for merchants too')
  t.same(
    names.filter(name => name !== 'upstream.test' && name !== 'other.test' && name !== false),
    [],
    'an address is never sent as a name'
  )
})

t.test(
  'a large answer over TLS waits for its client and comes whole, and the next connection resumes the session',
  async t => {
    const size = 3 * 1024 * 1024
    const resumed: boolean[] = []
    const server = tls.createServer({ cert: CERTIFICATE, key: KEY }, socket => {
      resumed.push(socket.isSessionReused())
      socket.on('error', () => {
        /* the gateway may hang up */
      })
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ${size}\r\n\r\n`)
        socket.end(Buffer.alloc(size, 0x61))
      })
    })
    const port = await serve(t, server)
    const folder = await mkdtemp(join(tmpdir(), 'upstream-'))
    const ca = join(folder, 'ca.pem')
    await writeFile(ca, CERTIFICATE)
    const forwarder = new Forwarder({ clock: systemClock, production: true })
    t.teardown(async () => {
      await forwarder.close()
      await rm(folder, { recursive: true })
    })
    const route = await forwarder.open(
      upstreamConfig(`https://127.0.0.1:${port}`, {
        tls: { ca, servername: 'upstream.test' }
      })
    )
    for (const flowing of [false, true]) {
      const responder = new RecordingResponder()
      responder.flowing = flowing
      void forwarder.forwardTo(contextOf(), responder, route)
      await responder.wrote
      for (let turn = 0; turn < 50; turn++)
        await new Promise<void>(resolve => {
          setImmediate(resolve)
        })
      if (!flowing) t.ok(responder.bytes <= 64 * 1024, `only ${responder.bytes} bytes were taken`)
      responder.flowing = true
      responder.onDrain?.()
      await responder.done
      t.equal(responder.bytes, size)
      t.ok(responder.ended)
      t.equal(responder.body, 'a'.repeat(size))
    }
    t.same(resumed, [false, true])
  }
)

t.test('a missing certificate file is reported when the route is opened', async t => {
  const forwarder = new Forwarder({ clock: systemClock, production: false })
  t.teardown(async () => {
    await forwarder.close()
  })
  await t.rejects(forwarder.open(upstreamConfig('https://127.0.0.1', { tls: { ca: '/nowhere/ca.pem' } })), /ca\.pem/)
})

t.test('a certificate that cannot be used is 502 for each request, and ends nothing', async t => {
  const { origin } = await secureServer(t)
  for (const guarded of [false, true]) {
    const guard = guarded ? new AddressGuard({ production: false }) : null
    const pool = new ConnectionPool(
      new Dialer(new URL(origin), guard, { tls: { cert: 'no certificate', key: 'no key' }, timeout: 5000 }),
      'a',
      2
    )
    for (let count = 0; count < 5; count++) {
      const error = await new Promise<Error>(resolve => {
        pool.dispatch(
          { method: 'GET', path: '/', headers: [], body: null },
          {
            ...silent,
            onResponseError: (_, fault) => {
              resolve(fault)
            }
          }
        )
      })
      const failure = upstreamFailure(error, targetOf(origin))
      t.equal(failure.status, 502)
      t.equal(
        failure.members({ correlationId: 'c', now: 0, mode: 'production' })?.['details'],
        'no secure connection could be made'
      )
    }
    pool.destroy()
  }
})
