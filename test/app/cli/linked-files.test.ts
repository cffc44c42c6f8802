import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import tls from 'node:tls'
import t from 'tap'
import { CERTIFICATE, KEY } from '../../engine/upstream/certificate.ts'
import { temporaryFolder } from '../../support/database.ts'
import { eventually, spawnGateway } from '../../support/gateway-process.ts'
import { defaultYaml } from '../../support/gateway.ts'
import { serve } from '../../support/serve.ts'

function link(target: string, path: string) {
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(target, `${path}.new`)
  renameSync(`${path}.new`, path)
}

function write(path: string, text: string) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text, { mode: 0o600 })
  return path
}

/** A mounted secret as the kubelet writes it: a folder for each version, and one link that is swapped. */
function publish(mount: string, version: string, texts: Readonly<Record<string, string>>) {
  for (const [name, text] of Object.entries(texts)) write(join(mount, `..${version}`, name), text)
  link(`..${version}`, join(mount, '..data'))
}

t.test('reload: secrets and certificates behind links are read again when a link is swapped', async t => {
  const server = tls.createServer({ cert: CERTIFICATE, key: KEY }, socket => {
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'))
    socket.on('error', () => {
      /* the gateway may hang up */
    })
  })
  server.on('tlsClientError', () => {
    /* it is refused until its authority is known */
  })
  const port = await serve(t, server)
  const folder = temporaryFolder(t)
  const mount = join(folder, 'secrets')
  const [master, other] = ['m'.repeat(40), 'n'.repeat(40)]
  publish(mount, '1', { price: '11', master })
  for (const name of ['price', 'master']) link(`..data/${name}`, join(mount, name))
  // As certbot keeps it: numbered files, and a folder of links.
  const live = join(folder, 'live', 'upstream.test', 'chain.pem')
  write(join(folder, 'archive', 'upstream.test', 'chain1.pem'), tls.rootCertificates[0] ?? '')
  write(join(folder, 'archive', 'upstream.test', 'chain2.pem'), CERTIFICATE)
  link('../../archive/upstream.test/chain1.pem', live)
  const upstream = `{ url: "https://127.0.0.1:${port}", tls: { ca: ${live}, servername: upstream.test } }`
  const routes = `  - { match: { path: /sold/* }, price: "\${PRICE} sats", chain: paid, upstream: ${upstream} }
  - { match: { path: /free/* }, chain: public, upstream: ${upstream} }
`
  const gateway = await spawnGateway(t, {
    yaml: defaultYaml({ replace: [['routes:\n', `routes:\n${routes}`]] }),
    env: { PRICE_FILE: join(mount, 'price'), BOLTGATE_SECRET_FILE: join(mount, 'master') }
  })
  const price = async () => /costs (\d+) satoshis/.exec((await gateway.send('GET', '/sold/x')).text)?.[1]
  t.equal(await price(), '11')
  t.equal((await gateway.send('GET', '/free/x')).status, 502, 'the authority is not the one of the upstream')

  publish(mount, '2', { price: '12', master })
  await eventually('the second price', async () => ((await price()) === '12' ? true : null))
  link('../../archive/upstream.test/chain2.pem', live)
  await eventually('the second chain', async () =>
    (await gateway.send('GET', '/free/x')).status === 200 ? true : null
  )
  publish(mount, '3', { price: '13', master: other })
  await gateway.line(line => String(line['msg']).startsWith('secrets has changed; it takes effect after a restart'))
  await eventually('the third price', async () => ((await price()) === '13' ? true : null))
})
