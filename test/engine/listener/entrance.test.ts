import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { connect as connectSecurely } from 'node:tls'
import { request, Agent } from 'undici'
import t, { type Test as T } from 'tap'
import { portOf, type ListenAddress } from '../../../src/engine/config/listen-address.ts'
import type { Context } from '../../../src/engine/message/context.ts'
import { Acceptors } from '../../../src/engine/listener/acceptors.ts'
import { readProxyHeader } from '../../../src/engine/listener/proxy-header.ts'
import { defaultLimits } from '../../../src/engine/listener/deadlines.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { programPath } from '../../support/program-path.ts'
import { RawClient } from '../../support/raw-client.ts'
import { temporaryFolder } from '../../support/database.ts'
import { freePort } from '../../support/free-port.ts'
import { certificateFiles, openDoor, reply, tlsOptions, type DoorOptions } from './support.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const who = ({ clientAddress, peerAddress, secure }: Context) => `${clientAddress} ${peerAddress} ${secure}`

function openWho(t: T, options: Partial<DoorOptions> = {}) {
  return openDoor(t, {
    trustedProxies: ['127.0.0.1'],
    handle: (ctx, wire) => {
      reply(wire, 200, who(ctx))
    },
    ...options
  })
}

const version2 = (head: number, family: number, body: Buffer) =>
  Buffer.concat([
    Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1'),
    Buffer.from([head, family, body.length >> 8, body.length & 255]),
    body
  ])
const ipv4 = Buffer.from([203, 0, 113, 9, 10, 0, 0, 1, 0x1f, 0x90, 0, 80])
const ipv6 = Buffer.from('20010db8000000000000000000000007'.repeat(2) + '1f900050', 'hex')
const tlv = Buffer.from([4, 0, 3, 1, 2, 3])

const HEADERS = [
  ['PROXY TCP4 203.0.113.9 10.0.0.1 8080 80\r\n', '203.0.113.9'],
  ['PROXY TCP6 2001:db8::7 ::1 8080 80\r\n', '2001:db8::7'],
  ['PROXY UNKNOWN\r\n', null],
  ['PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n', null],
  [version2(0x21, 0x11, ipv4), '203.0.113.9'],
  [version2(0x21, 0x11, Buffer.concat([ipv4, tlv])), '203.0.113.9'],
  [version2(0x21, 0x21, ipv6), '2001:db8::7'],
  [version2(0x20, 0x00, Buffer.alloc(0)), null],
  [version2(0x20, 0x11, ipv4), null],
  [version2(0x21, 0x31, Buffer.alloc(216)), null]
] as const

t.test('a PROXY header: names the client in both versions, and is read in any pieces', async t => {
  for (const [header, address] of HEADERS) {
    const bytes = Buffer.concat([Buffer.from(header), Buffer.from(GET)])
    const { length } = Buffer.from(header)
    for (let size = 1; size < length; size++)
      t.same(readProxyHeader(bytes.subarray(0, size)), { kind: 'part' }, `${size} of ${length} bytes`)
    t.same(readProxyHeader(bytes), { kind: 'header', address, length })
  }
})

t.test('a PROXY header: what is malformed is no client', async t => {
  for (const text of [
    'PROXY \r\n',
    'PROXY TCP4 203.0.113.9 10.0.0.1 8080\r\n',
    'PROXY TCP4 2001:db8::7 ::1 8080 80\r\n',
    'PROXY TCP6 203.0.113.9 10.0.0.1 8080 80\r\n',
    'PROXY TCP4 203.0.113.900 10.0.0.1 8080 80\r\n',
    'PROXY TCP5 203.0.113.9 10.0.0.1 8080 80\r\n',
    `PROXY TCP4 ${'1'.repeat(120)}`,
    version2(0x11, 0x11, ipv4),
    version2(0x22, 0x11, ipv4),
    version2(0x21, 0x11, ipv4.subarray(1)),
    version2(0x21, 0x21, ipv4),
    version2(0x21, 0x11, Buffer.alloc(5000))
  ])
    t.same(readProxyHeader(Buffer.from(text)), { kind: 'malformed' }, JSON.stringify(String(text).slice(0, 60)))
  for (const text of [GET, 'PROXIED / HTTP/1.1\r\n', '\r\n\r\nGET', '\x16\x03\x01'])
    t.same(readProxyHeader(Buffer.from(text)), { kind: 'none' }, JSON.stringify(text))
})

for (const isSecure of [false, true])
  t.test(`a trusted proxy: its PROXY header is the client, ${isSecure ? 'over TLS' : 'in the clear'}`, async t => {
    const door = await openWho(t, isSecure ? { tls: tlsOptions(certificateFiles(['localhost'])) } : {})
    const ask = async (headers: string) => {
      const socket = connect(door.port, '127.0.0.1')
      t.teardown(() => {
        socket.destroy()
      })
      if (headers !== '') socket.write(headers)
      const client = new RawClient(
        isSecure ? connectSecurely({ socket, servername: 'localhost', rejectUnauthorized: false }) : socket
      )
      client.send(GET)
      return (await client.response()).body
    }
    t.equal(await ask(''), `127.0.0.1 127.0.0.1 ${isSecure}`, 'none is needed')
    t.equal(await ask('PROXY TCP4 203.0.113.9 10.0.0.1 8080 80\r\n'), `203.0.113.9 203.0.113.9 ${isSecure}`)
    t.equal(await ask('PROXY UNKNOWN\r\n'), `127.0.0.1 127.0.0.1 ${isSecure}`)
  })

t.test('a PROXY header: is of its own connection, when a proxy uses one port for two addresses', async t => {
  const address: ListenAddress = { kind: 'tcp', host: '127.0.0.1', port: 0, isPlain: false }
  const door = await openWho(t, { tls: tlsOptions(certificateFiles(['localhost'])), addresses: [address, address] })
  const localPort = await freePort()
  const sockets = door.listener.addresses.map((at, index) => {
    const socket = connect({ port: portOf([at]), host: '127.0.0.1', localPort })
    t.teardown(() => {
      socket.destroy()
    })
    socket.write(`PROXY TCP4 203.0.113.${index} 10.0.0.1 8080 443\r\n`)
    return socket
  })
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  const clients = sockets.map(socket => new RawClient(connectSecurely({ socket, rejectUnauthorized: false })))
  for (const client of clients) client.send(GET)
  const bodies = await Promise.all(clients.map(async client => (await client.response()).body))
  t.same(bodies, ['203.0.113.0 203.0.113.0 true', '203.0.113.1 203.0.113.1 true'])
})

t.test('a PROXY header: its client is not trusted because its proxy is', async t => {
  const door = await openWho(t, { limits: { ...defaultLimits, connectionsPerAddress: 1 } })
  const forged = 'GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n'
  const client = await door.connect()
  client.send(`PROXY TCP4 203.0.113.9 10.0.0.1 8080 80\r\n${forged}`)
  t.match((await client.response()).body, /^203\.0\.113\.9 /)
  const another = await door.connect()
  another.send(`PROXY TCP4 203.0.113.9 10.0.0.1 8081 80\r\n${GET}`)
  await another.ending()
  t.equal(another.received, '', 'its connections are counted')
  const chained = await door.connect()
  chained.send(`PROXY TCP4 127.0.0.1 10.0.0.1 8080 80\r\n${forged}`)
  t.match((await chained.response()).body, /^198\.51\.100\.1 127\.0\.0\.1 /, 'another trusted proxy')
})

t.test('a PROXY header: of an address that is not trusted it is a malformed request', async t => {
  const door = await openWho(t, { trustedProxies: [] })
  const client = await door.connect()
  client.send(`PROXY TCP4 203.0.113.9 10.0.0.1 8080 80\r\n${GET}`)
  t.equal((await client.response()).status, 400)
})

t.test('a trusted proxy: a malformed header, or none within ten seconds, ends the connection', async t => {
  const clock = new ManualClock()
  const door = await openWho(t, { clock })
  const client = await door.connect()
  client.send(`PROXY TCP4 nonsense\r\n${GET}`)
  await client.ending()
  t.equal(client.received, '')
  const silent = await door.connect()
  silent.send('PROXY')
  const over = new AbortController()
  silent.socket.on('close', () => {
    over.abort()
  })
  while (!over.signal.aborted) {
    await turn()
    clock.advance(10_000)
  }
  t.equal(silent.received, '')
})

t.test('a Unix socket: its client is a trusted proxy of this machine', async t => {
  const path = join(temporaryFolder(t), 'http.sock')
  const door = await openWho(t, {
    trustedProxies: [],
    addresses: [
      { kind: 'unix', path },
      { kind: 'tcp', host: '127.0.0.1', port: 0, isPlain: false }
    ]
  })
  const agent = new Agent({ connect: { socketPath: path } })
  t.teardown(() => agent.close())
  const ask = async (headers: Record<string, string>) =>
    (await request('http://a/', { dispatcher: agent, headers })).body.text()
  t.equal(await ask({}), '127.0.0.1 127.0.0.1 false')
  t.equal(await ask({ 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https' }), '203.0.113.9 127.0.0.1 true')
  const client = await door.connect()
  client.send(GET)
  t.equal((await client.response()).body, '127.0.0.1 127.0.0.1 false', 'beside an address')
  await door.listener.drain(1000)
  t.notOk(existsSync(path))
})

t.test(
  'a Unix socket: the file of a gateway that was killed is replaced; that of one that runs, or another, is not',
  async t => {
    const folder = temporaryFolder(t)
    const path = join(folder, 'http.sock')
    const acceptors = (at: string) => {
      const made = new Acceptors({ kind: 'unix', path: at }, socket => socket.destroy(), t.error)
      t.teardown(() => made.close())
      return made
    }
    const killed = spawn(process.execPath, [
      '-e',
      `require('net').createServer().listen(${JSON.stringify(path)}, () => console.log(''))`
    ])
    await once(killed.stdout, 'data')
    await t.rejects(acceptors(path).listen(), { code: 'BG_LISTEN_FAILED', message: /another program listens at unix:/ })
    killed.kill('SIGKILL')
    await once(killed, 'exit')
    t.ok(existsSync(path))
    await acceptors(path).listen()
    const file = join(folder, 'file')
    writeFileSync(file, 'kept')
    await t.rejects(acceptors(file).listen(), { code: 'BG_LISTEN_FAILED' })
    t.ok(existsSync(file))
    await t.rejects(acceptors(join(folder, 'missing', 'http.sock')).listen(), { code: 'BG_LISTEN_FAILED' })
  }
)

t.test('in the clear beside TLS: requests of other machines are redirected with their method', async t => {
  const tls = tlsOptions(certificateFiles(['localhost']))
  const plain: ListenAddress = { kind: 'tcp', host: '127.0.0.1', port: 0, isPlain: true }
  const door = await openWho(t, {
    tls,
    addresses: [plain],
    toHttps: ['https://api.example', 'https://apis.example:8443']
  })
  const ask = async (headers: Record<string, string>, method = 'GET', proxied = '') => {
    const client = await RawClient.connect(door.port)
    t.teardown(() => {
      client.close()
    })
    const fields = Object.entries({ Host: 'api.example', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
    client.send(`${proxied}${method} /v1/a?b=%20 HTTP/1.1\r\n${fields.join('')}\r\n`)
    const { status, header, body } = await client.response()
    return status === 200 ? body : `${status} ${header('location')}`
  }
  const other = 'PROXY TCP4 203.0.113.9 10.0.0.1 8080 80\r\n'
  t.equal(await ask({}, 'GET', other), '308 https://api.example/v1/a?b=%20')
  t.equal(await ask({ 'Content-Length': '0' }, 'POST', other), '308 https://api.example/v1/a?b=%20')
  t.equal(await ask({ Host: 'APIS.example:80' }, 'GET', other), '308 https://apis.example:8443/v1/a?b=%20')
  t.equal(await ask({ Host: 'attacker.example' }, 'GET', other), '308 https://api.example/v1/a?b=%20')
  t.equal(await ask({}), '127.0.0.1 127.0.0.1 false', 'this machine is served')
  const relayed = { 'X-Forwarded-For': '203.0.113.9' }
  t.equal(await ask(relayed), '203.0.113.9 127.0.0.1 false', 'the proxy itself says nothing of its scheme')
  t.equal(await ask({ ...relayed, 'X-Forwarded-Proto': 'https' }), '203.0.113.9 127.0.0.1 true')
  t.equal(await ask({ ...relayed, 'X-Forwarded-Proto': 'http' }), '308 https://api.example/v1/a?b=%20')
})

const skip = programPath('haproxy') === null ? 'HAProxy is not installed' : false

t.test('HAProxy: its PROXY headers name the client', { skip }, async t => {
  const door = await openWho(t)
  const folder = temporaryFolder(t)
  const ports = [await freePort(), await freePort()]
  const config = join(folder, 'haproxy.cfg')
  writeFileSync(
    config,
    `defaults\n mode tcp\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n${['send-proxy', 'send-proxy-v2']
      .map(
        (how, index) => `listen l${index}\n bind 127.0.0.1:${ports[index]}\n server s 127.0.0.1:${door.port} ${how}\n`
      )
      .join('')}`
  )
  const child = spawn('haproxy', ['-db', '-f', config], { stdio: 'ignore' })
  t.teardown(async () => {
    child.kill('SIGTERM')
    await once(child, 'exit')
  })
  for (const port of ports) {
    // Another address of loopback, which is not trusted.
    const ask = () =>
      new Promise(resolve => {
        httpRequest({ port, host: '127.0.0.1', localAddress: '127.0.0.5', agent: false }, response => {
          response.setEncoding('utf8').on('data', resolve)
        })
          .on('error', () => {
            resolve(null)
          })
          .end()
      })
    let body = await ask()
    while (body === null && child.exitCode === null) body = await ask()
    t.equal(body, '127.0.0.5 127.0.0.5 false')
  }
})
