import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { answers, freePort, start, until } from '../rig/child.ts'
import { onPath, versionOf } from '../rig/machine.ts'
import type { Peer } from './target.ts'

const binary = onPath('haproxy')

/** HAProxy with one thread, kept upstream connections that requests share, and no log. */
export const haproxy: Peer = {
  id: 'haproxy',
  label: 'HAProxy',
  version: binary === null ? null : (/version (\d[\w.]*)/.exec(versionOf(binary, '-v'))?.[1] ?? ''),
  install: 'apt-get install haproxy',
  async start({ folder, core, upstream }) {
    if (binary === null) throw new Error('haproxy is not on PATH')
    const port = await freePort()
    const file = join(folder, 'haproxy.cfg')
    writeFileSync(
      file,
      `global
  nbthread 1
  maxconn 12000
  no strict-limits
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  timeout tunnel 300s
  option http-keep-alive
  http-reuse always
frontend here
  bind 127.0.0.1:${port}
  default_backend there
backend there
  server upstream ${new URL(upstream).host}
`
    )
    const child = start('haproxy', folder, core, [binary, '-db', '-f', file])
    await until('haproxy', child, 10, () => answers(`http://127.0.0.1:${port}/`))
    return { port, pid: child.pid, compiles: false, fault: () => child.fault(), stop: () => child.stop() }
  }
}
