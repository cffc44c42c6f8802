import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { connect as connectPlainly } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type ConnectionOptions } from 'node:tls'
import t, { type Test } from 'tap'
import { Tls } from '../../../src/engine/listener/tls.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { selfSigned, type CertificateOptions } from '../../fakes/certificate.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { certificateFiles, openDoor, reply, tlsOptions, type DoorOptions } from './support.ts'

const authority = (commonName: string) => selfSigned({ names: [], commonName })
const ca = authority('ca')
const other = authority('other')
const leaf = (options: Partial<CertificateOptions> = {}) => {
  const { certificate, key } = selfSigned({ names: ['client.example'], commonName: 'acme', issuer: ca, ...options })
  return { cert: certificate, key }
}
const server = certificateFiles(['a.example'])

function authorities(...pems: readonly string[]): string {
  const file = join(mkdtempSync(join(tmpdir(), 'boltgate-ca-')), 'ca.pem')
  writeFileSync(file, pems.join(''))
  return file
}

/** Answers with the certificate that it sees. */
async function open(t: Test, clientCa: string | undefined, options: Partial<DoorOptions> = {}) {
  const door = await openDoor(t, {
    handle: (ctx, wire) => {
      reply(wire, 200, JSON.stringify(ctx.clientCertificate))
    },
    ...options,
    tls: { ...tlsOptions(server), ...options.tls, clientCa }
  })
  const ask = async (dialed: ConnectionOptions = {}, head = '') => {
    const socket = connect({
      port: door.port,
      host: '127.0.0.1',
      servername: 'a.example',
      rejectUnauthorized: false,
      ...dialed
    })
    let session: Buffer | undefined
    socket.on('session', ticket => (session = ticket))
    await once(socket, 'secureConnect')
    const isReused = socket.isSessionReused()
    let text = ''
    socket.on('data', piece => (text += String(piece)))
    for (let turn = 0; turn < 2; turn++) {
      text = ''
      socket.write(`GET / HTTP/1.1\r\nHost: a\r\n${head}\r\n`)
      while (!/\r\n\r\n./.test(text)) await once(socket, 'data')
    }
    socket.destroy()
    return { isReused, session, seen: JSON.parse(text.slice(text.indexOf('\r\n\r\n'))) as unknown }
  }
  return { ...door, ask }
}

t.test('client certificates: HTTP/1.1 on both paths and HTTP/2 see the certificate and its verdict', async t => {
  const file = authorities('# two\n', authority('first').certificate, ca.certificate)
  const fast = await open(t, file, { http2: true })
  const slow = await open(t, file, { fastLane: false })
  const now = Date.now()
  const expired = leaf({ from: now - 7_200_000, until: now - 3_600_000 })
  for (const [name, presented, expected] of [
    ['valid', leaf(), { name: 'acme', fault: null }],
    ['none', {}, null],
    ['of another authority', leaf({ issuer: other }), { name: 'acme', fault: 'unable to verify leaf signature' }],
    ['self-signed', leaf({ issuer: undefined }), { name: 'acme', fault: 'depth zero self signed cert' }],
    ['expired', expired, { name: 'acme', fault: 'cert has expired' }],
    ['without a name', leaf({ commonName: null }), { name: /^sha256:[0-9a-f]{64}$/, fault: null }],
    ['named as a fingerprint', leaf({ commonName: 'sha256:00' }), { name: /^sha256:[0-9a-f]{64}$/, fault: null }],
    ['with a line break', leaf({ commonName: 'a\nb' }), { name: /^sha256:[0-9a-f]{64}$/, fault: null }]
  ] as const) {
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      t.match((await fast.ask({ ...presented, maxVersion })).seen, expected, `${name} ${maxVersion}`)
      t.match((await slow.ask({ ...presented, maxVersion })).seen, expected, `${name} ${maxVersion} node:http`)
    }
    const session = connectHttp2(`https://127.0.0.1:${fast.port}`, { rejectUnauthorized: false, ...presented })
    const stream = session.request({ ':path': '/' }).setEncoding('utf8')
    let text = ''
    for await (const piece of stream) text += String(piece)
    t.match(JSON.parse(text), expected, `${name} HTTP/2`)
    session.destroy()
  }
})

t.test('client certificates: a resumed session keeps the certificate and its verdict', async t => {
  const file = authorities(ca.certificate)
  const first = await open(t, file)
  const second = await open(t, file)
  const bare = await open(t, undefined)
  const swapped = await open(t, authorities(other.certificate))
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const)
    for (const servername of ['a.example', ''])
      for (const [presented, expected] of [
        [leaf(), { name: 'acme', fault: null }],
        [leaf({ issuer: other }), { fault: 'unable to verify leaf signature' }],
        [{}, null]
      ] as const) {
        const options = { maxVersion, servername }
        const { session } = await first.ask({ ...options, ...presented })
        t.match(await second.ask({ ...options, session }), { isReused: true, seen: expected })
        t.match(await bare.ask({ ...options, session }), { isReused: false, seen: null })
        t.match(await swapped.ask({ ...options, session }), { isReused: false, seen: null })
        const without = await bare.ask({ ...options, ...presented })
        t.match(await first.ask({ ...options, ...presented, session: without.session }), {
          isReused: false,
          seen: expected
        })
      }
})

t.test('client certificates: changed authorities are in use within 30 seconds, for resumed sessions too', async t => {
  const clock = new ManualClock(Date.now())
  const file = authorities(ca.certificate)
  const failures: string[] = []
  const door = await open(t, file, {
    clock,
    tls: { ...tlsOptions(server), failed: error => failures.push(error.message) }
  })
  const presented = leaf()
  const { session } = await door.ask(presented)
  writeFileSync(file, `${ca.certificate}${other.certificate.replace('M', '?')}`)
  clock.advance(30_000)
  t.match(failures, [/^server\.clientCa: .*ca\.pem cannot be used: /])
  t.match(await door.ask({ ...presented, session }), { isReused: true, seen: { fault: null } })
  writeFileSync(file, other.certificate)
  clock.advance(30_000)
  t.match(await door.ask({ ...presented, session }), { isReused: false, seen: { fault: /unable to verify/ } })
})

t.test('client certificates: there is none on connections of trusted proxies, and none in headers', async t => {
  const file = authorities(ca.certificate)
  const forged = 'X-Forwarded-Client-Cert: Subject="CN=acme"\r\nX-SSL-Client-S-DN: CN=acme\r\n'
  const proxied = await open(t, file, { trustedProxies: ['127.0.0.1'] })
  t.equal((await proxied.ask(leaf(), forged)).seen, null)
  const socket = connectPlainly(proxied.port, '127.0.0.1')
  socket.write('PROXY TCP4 203.0.113.9 127.0.0.1 40000 443\r\n')
  t.match((await proxied.ask({ ...leaf(), socket })).seen, { name: 'acme' }, 'passed through by the PROXY protocol')
  const door = await open(t, file)
  t.equal((await door.ask({}, forged)).seen, null)
})

t.test('client certificates: files without one are named at startup', async t => {
  for (const clientCa of ['/nowhere/ca.pem', authorities(''), authorities('text'), server.key])
    t.throws(
      () => new Tls({ ...tlsOptions(server), clientCa, clock: systemClock, http2: false }, () => undefined),
      { code: 'BG_TLS_CERTIFICATE', message: /^server\.clientCa: / },
      clientCa
    )
})
