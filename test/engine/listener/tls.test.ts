import { once } from 'node:events'
import { copyFileSync, writeFileSync } from 'node:fs'
import { connect as connectPlainly } from 'node:net'
import { connect as connectHttp2 } from 'node:http2'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import t from 'tap'
import { Tls } from '../../../src/engine/listener/tls.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { selfSigned } from '../../fakes/certificate.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { until } from '../../support/until.ts'
import { certificateFiles, openDoor, reply, tlsOptions } from './support.ts'

async function dial(port: number, options: ConnectionOptions = {}) {
  const socket = connect({ port, host: '127.0.0.1', servername: 'a.example', rejectUnauthorized: false, ...options })
  await once(socket, 'secureConnect')
  return socket
}

async function get(socket: TLSSocket) {
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  return String((await once(socket, 'data'))[0])
}

const nameOf = (socket: TLSSocket) => socket.getPeerCertificate().subjectaltname

t.test('tls: the certificate is chosen by SNI, and the first one is for all other names', async t => {
  const wildcard = certificateFiles(['*.b.example'])
  const door = await openDoor(t, {
    tls: tlsOptions(certificateFiles(['a.example']), wildcard),
    handle: (ctx, wire) => {
      reply(wire, 200, `${ctx.secure}`)
    }
  })
  for (const [servername, expected] of [
    ['a.example', 'DNS:a.example'],
    ['x.b.example', 'DNS:*.b.example'],
    ['unknown.example', 'DNS:a.example'],
    ['', 'DNS:a.example']
  ] as const) {
    const socket = await dial(door.port, { servername, ALPNProtocols: ['h2', 'http/1.1'] })
    t.equal(nameOf(socket), expected, servername)
    t.equal(socket.alpnProtocol, 'http/1.1')
    t.match(await get(socket), /^HTTP\/1\.1 200 OK[^]*true$/, 'the request is secure')
    socket.destroy()
  }
})

t.test('tls: versions below 1.2 and ciphers without forward secrecy are refused', async t => {
  const door = await openDoor(t, { tls: tlsOptions(certificateFiles(['a.example'])), handle: () => undefined })
  await t.rejects(dial(door.port, { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }))
  await t.rejects(dial(door.port, { maxVersion: 'TLSv1.2', ciphers: 'AES128-GCM-SHA256' }))
  const socket = await dial(door.port, { maxVersion: 'TLSv1.2' })
  t.equal(socket.getProtocol(), 'TLSv1.2')
  socket.destroy()
})

t.test('tls: plain HTTP gets no response, and the listener continues', async t => {
  const door = await openDoor(t, {
    tls: tlsOptions(certificateFiles(['a.example'])),
    handle: (_ctx, wire) => {
      reply(wire, 200, 'ok')
    }
  })
  const plain = connectPlainly(door.port, '127.0.0.1')
  plain.on('error', () => undefined)
  plain.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  plain.resume()
  await once(plain, 'close')
  const socket = await dial(door.port)
  t.match(await get(socket), /^HTTP\/1\.1 200/)
  socket.destroy()
})

t.test('tls: renewed files are used for new connections, and broken ones never', async t => {
  const clock = new ManualClock()
  const files = certificateFiles(['a.example'])
  const renewed: Date[] = []
  const failures: string[] = []
  const door = await openDoor(t, {
    clock,
    tls: {
      ...tlsOptions(files),
      failed: error => failures.push(error.message),
      renewed: notAfter => renewed.push(notAfter)
    },
    handle: (_ctx, wire) => {
      reply(wire, 200, 'ok')
    }
  })
  const before = await dial(door.port)
  clock.advance(30_000)
  t.same(renewed, [], 'unchanged files are not renewed')
  const next = certificateFiles(['a.example', 'next.example'])
  copyFileSync(next.cert, files.cert)
  clock.advance(30_000)
  t.match(failures, [/server\.tls: .*cert\.pem with .*key\.pem cannot be used: .*key values mismatch/])
  const meanwhile = await dial(door.port)
  t.equal(nameOf(meanwhile), 'DNS:a.example', 'a certificate whose key has not come yet is not used')
  await get(before)
  copyFileSync(next.key, files.key)
  clock.advance(30_000)
  t.equal(renewed.length, 1)
  const after = await dial(door.port)
  t.equal(nameOf(after), 'DNS:a.example, DNS:next.example')
  t.match(await get(before), /200/, 'older connections stay')
  for (const socket of [before, meanwhile, after]) socket.destroy()
})

t.test('tls: no request is lost while certificates are replaced under load', async t => {
  const clock = new ManualClock()
  const files = certificateFiles(['a.example'])
  const pairs = [certificateFiles(['a.example']), certificateFiles(['a.example'])]
  const events: string[] = []
  const door = await openDoor(t, {
    clock,
    http2: true,
    // The clock only moves for the certificates.
    limits: { headerDeadline: 1e9, keepAlive: 1e9, floorWindow: 1e9 },
    tls: { ...tlsOptions(files), failed: () => events.push('failed'), renewed: () => events.push('renewed') },
    handle: (_ctx, wire) => {
      setImmediate(() => {
        reply(wire, 200, 'ok')
      })
    }
  })
  const kept = await dial(door.port)
  const session = connectHttp2(`https://127.0.0.1:${door.port}`, { rejectUnauthorized: false })
  t.teardown(() => {
    kept.destroy()
    session.destroy()
  })
  const counts = { kept: 0, fresh: 0, streams: 0 }
  const over = new AbortController()
  const load = async (kind: keyof typeof counts, ask: () => Promise<string | number>): Promise<void> => {
    while (!over.signal.aborted) {
      t.match(String(await ask()), /200/)
      counts[kind]++
    }
  }
  const working = Promise.all([
    load('kept', () => get(kept)),
    load('fresh', async () => {
      const socket = await dial(door.port)
      const response = await get(socket)
      socket.destroy()
      return response
    }),
    ...Array.from({ length: 4 }, () =>
      load('streams', async () => {
        const stream = session.request({ ':path': '/' })
        const ended = new Promise(resolve => stream.resume().on('end', resolve))
        const [headers] = (await once(stream, 'response')) as [Record<string, unknown>]
        await ended
        return Number(headers[':status'])
      })
    )
  ])
  for (let swap = 0; swap < 6; swap++) {
    const before = counts.fresh
    if (swap % 3 === 2) writeFileSync(files.cert, 'broken')
    else for (const name of ['cert', 'key'] as const) copyFileSync(pairs[swap % 2]?.[name] ?? files[name], files[name])
    clock.advance(30_000)
    await until(() => counts.fresh > before + 2)
  }
  over.abort()
  await working
  // After broken files comes the pair in use, which is no change.
  t.same(events, ['renewed', 'renewed', 'failed', 'renewed', 'failed'])
  t.ok(counts.kept > 6 && counts.streams > 6)
})

t.test('tls: a session is resumed by another gateway with the same secret, and by none with another', async t => {
  const files = certificateFiles(['a.example'])
  const handle = (_ctx: unknown, wire: Parameters<typeof reply>[0]) => {
    reply(wire, 200, 'ok')
  }
  const first = await openDoor(t, { tls: tlsOptions(files), handle })
  const second = await openDoor(t, { tls: tlsOptions(files), handle })
  const other = await openDoor(t, { tls: { ...tlsOptions(files), ticketSecret: Buffer.alloc(32, 8) }, handle })
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const socket = await dial(first.port, { maxVersion })
    const ticket = maxVersion === 'TLSv1.3' ? once(socket, 'session').then(([session]) => session as Buffer) : null
    await get(socket)
    const session = (await ticket) ?? socket.getSession()
    socket.destroy()
    for (const [door, isResumed] of [
      [second, true],
      [other, false]
    ] as const) {
      const again = await dial(door.port, { maxVersion, ...(session === undefined ? {} : { session }) })
      t.equal(again.isSessionReused(), isResumed, maxVersion)
      again.destroy()
    }
  }
})

t.test('tls: draining cuts a handshake that has not finished', async t => {
  const door = await openDoor(t, { tls: tlsOptions(certificateFiles(['a.example'])), handle: () => undefined })
  const socket = connectPlainly(door.port, '127.0.0.1')
  await once(socket, 'connect')
  const idle = await dial(door.port)
  socket.on('error', () => undefined)
  socket.resume()
  idle.resume()
  await Promise.all([door.listener.drain(60_000), once(socket, 'close'), once(idle, 'close')])
  t.equal(door.listener.connections, 0)
})

t.test('tls: files that cannot be used are named at startup', async t => {
  const files = certificateFiles(['a.example'])
  const open = (cert: string, key: string) =>
    new Tls({ ...tlsOptions({ cert, key }), clock: systemClock, http2: false }, () => undefined)
  t.throws(() => open('/nowhere/cert.pem', files.key), {
    code: 'BG_TLS_CERTIFICATE',
    message: /nowhere\/cert\.pem.*ENOENT/
  })
  t.throws(() => open(files.cert, certificateFiles(['a.example']).key), { message: /key values mismatch/ })
  t.throws(() => open(files.key, files.key), { code: 'BG_TLS_CERTIFICATE' })
  const soon = certificateFiles(['b.example'])
  const until = Math.floor(Date.now() / 1000) * 1000 + 3_600_000
  const { certificate, key } = selfSigned({ names: ['b.example'], until })
  writeFileSync(soon.cert, certificate)
  writeFileSync(soon.key, key)
  const both = new Tls({ ...tlsOptions(files, soon), clock: systemClock, http2: false }, () => undefined)
  t.equal(both.notAfter.getTime(), until, 'the first end of all certificates')
})
