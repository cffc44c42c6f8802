import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { mintCredentials, startBoltgate } from '../peers/boltgate.ts'
import { startNginx } from '../peers/nginx.ts'
import { moveTrees } from '../rig/affinity.ts'
import { answers, freePort, pinned, start, until, type Child } from '../rig/child.ts'
import { cpuOfProcess, cpuOfTree } from '../rig/cpu.ts'
import { onPath } from '../rig/machine.ts'
import { startUpstream } from '../upstream/upstream.ts'
import { selfSigned } from '../../test/fakes/certificate.ts'
import type { Study, StudyRow } from './scenario.ts'
import { generatorCore } from './studies.ts'
import { PAID_PATH } from './tokens.ts'

const run = promisify(execFile)

/** The verified path behind TLS: boltgate's own, or that of a proxy in front of boltgate in the clear. */
export const overTls: Study = {
  id: 'over-tls',
  seconds: { quick: null, full: null },
  title: 'Verified L402 request over TLS',
  text: 'GET with one paid L402 token over 32 kept connections of h2load, one request at a time each. The same gateway is asked in the clear and over TLS; nginx and Caddy end TLS with the same certificate and call it in the clear. CPU is that of the proxy and the gateway together. Needs h2load, and is run when asked for by name.',
  charted: 'CPU for each request',
  async run(place, scale, say) {
    const { folder } = place
    const core = generatorCore(place)
    const { certificate, key } = selfSigned({ names: ['localhost'] })
    const tls = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
    writeFileSync(tls.cert, certificate)
    writeFileSync(tls.key, key)
    const upstream = await startUpstream(folder, core, 1024)
    const stops: Array<() => Promise<void>> = [() => upstream.stop()]
    try {
      const securePort = await freePort()
      const gateway = await startBoltgate(
        { ...place, core: null, upstream: upstream.origin },
        { name: 'over-tls', tls: { ...tls, port: securePort } }
      )
      stops.push(() => gateway.stop())
      const plain = `http://127.0.0.1:${gateway.port}`
      const [authorization = ''] = await mintCredentials(gateway.port, 1, { path: PAID_PATH })
      const proxyPort = { nginx: await freePort(), caddy: await freePort() }
      const proxies: Record<string, Child> = {}
      const begin = async (name: 'nginx' | 'caddy', started: Promise<Child>): Promise<void> => {
        if (onPath(name) === null) return
        const child = (proxies[name] = await started)
        stops.push(() => child.stop())
      }
      if (onPath('nginx') !== null)
        await begin(
          'nginx',
          startNginx(
            'tls-nginx',
            folder,
            null,
            port => `  upstream gate { server 127.0.0.1:${gateway.port}; keepalive 256; keepalive_requests 1000000000; }
  server { listen 127.0.0.1:${port}; return 204; }
  server {
    listen 127.0.0.1:${proxyPort.nginx} ssl http2;
    ssl_certificate ${tls.cert};
    ssl_certificate_key ${tls.key};
    location / { proxy_pass http://gate; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Forwarded-Proto https; }
  }`
          ).then(({ child }) => child)
        )
      const caddy = onPath('caddy')
      if (caddy !== null) {
        const file = join(folder, 'Caddyfile')
        const check = await freePort()
        writeFileSync(
          file,
          `{
  admin off
  auto_https off
}
http://127.0.0.1:${check} {
  respond 204
}
https://localhost:${proxyPort.caddy} {
  tls ${tls.cert} ${tls.key}
  reverse_proxy 127.0.0.1:${gateway.port}
}
`
        )
        const child = start('caddy', folder, null, [caddy, 'run', '--config', file], { env: { HOME: folder } })
        await begin(
          'caddy',
          until('caddy', child, 20, () => answers(`http://127.0.0.1:${check}/`)).then(() => child)
        )
      }
      const pids = [gateway.pid, ...Object.values(proxies).map(({ pid }) => pid)]
      if (place.core !== null) await moveTrees(pids, String(place.core))
      const cpu = (proxy: Child | undefined): number =>
        cpuOfProcess(gateway.pid) + (proxy === undefined ? 0 : cpuOfTree(proxy.pid))
      const load = async (origin: string, isHttp1: boolean, seconds: number): Promise<number> => {
        const args = [
          ...(isHttp1 ? ['--h1'] : []),
          '-c',
          '32',
          '-D',
          String(seconds),
          '-H',
          `authorization: ${authorization}`
        ]
        const [command = '', ...rest] = pinned(core, ['h2load', ...args, origin + PAID_PATH])
        const { stdout } = await run(command, rest)
        const [, done, ok] = /(\d+) done, (\d+) succeeded/.exec(stdout) ?? []
        if (ok === undefined || ok !== done || ok === '0')
          throw new Error(`${String(ok)} of ${String(done)} were answered with 200`)
        return Number(ok)
      }
      const window = scale === 'full' ? 5 : 2
      const rows: readonly [id: string, label: string, origin: string, isHttp1: boolean, proxy?: string][] = [
        ['clear', 'boltgate in the clear', plain, true],
        ['tls', 'boltgate, TLS, HTTP/1.1', `https://localhost:${securePort}`, true],
        ['tls-h2', 'boltgate, TLS, HTTP/2', `https://localhost:${securePort}`, false],
        ['nginx', 'nginx with TLS, HTTP/1.1', `https://localhost:${proxyPort.nginx}`, true, 'nginx'],
        ['nginx-h2', 'nginx with TLS, HTTP/2', `https://localhost:${proxyPort.nginx}`, false, 'nginx'],
        ['caddy', 'Caddy with TLS, HTTP/1.1', `https://localhost:${proxyPort.caddy}`, true, 'caddy'],
        ['caddy-h2', 'Caddy with TLS, HTTP/2', `https://localhost:${proxyPort.caddy}`, false, 'caddy']
      ]
      const values = new Map<string, { cpu: number[]; rate: number[] }>(rows.map(([id]) => [id, { cpu: [], rate: [] }]))
      const present = rows.filter(([, , , , proxy]) => proxy === undefined || proxies[proxy] !== undefined)
      for (let round = -1; round < 3; round++)
        for (const [id, label, origin, isHttp1, proxy] of present) {
          say(`${label}${round < 0 ? ', warm-up' : ''}`)
          const before = cpu(proxies[proxy ?? ''])
          const requests = await load(origin, isHttp1, window)
          if (round < 0) continue
          values.get(id)?.cpu.push((cpu(proxies[proxy ?? '']) - before) / requests)
          values.get(id)?.rate.push(requests / window)
        }
      const of = (id: string): readonly number[] => values.get(id)?.cpu ?? []
      return {
        rows: rows.map(([id, label, , , proxy]): StudyRow => ({
          id,
          label,
          absent: proxy === undefined || proxies[proxy] !== undefined ? null : 'not installed here',
          figures: {
            'CPU for each request': { unit: 'µs', values: of(id) },
            // Pairs of one round.
            'more than in the clear': { unit: 'µs', values: of(id).map((one, at) => one - (of('clear')[at] ?? 0)) },
            requests: { unit: '/s', values: values.get(id)?.rate ?? [] }
          }
        })),
        remarks: ['TLS on the fast lane may take 12 µs more than in the clear.']
      }
    } finally {
      for (const stop of stops.toReversed()) await stop()
    }
  }
}
