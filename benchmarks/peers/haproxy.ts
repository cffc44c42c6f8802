import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { answers, freePort, start, until, type Child, type Core } from '../rig/child.ts'
import { onPath, versionOf } from '../rig/machine.ts'
import type { Peer } from './target.ts'

const binary = onPath('haproxy')

/**
 * HAProxy as an upstream that gives `bytes` bytes to whatever is asked; it takes requests that nginx refuses, such as
 * with two Authorization lines. Throws where it is not installed.
 */
export async function startReturning(
  folder: string,
  core: Core,
  bytes: number
): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const { child, port } = await startHaproxy(
    'returning',
    folder,
    core,
    port => `frontend here
  bind 127.0.0.1:${port}
  http-request return status 200 content-type text/plain string "${'x'.repeat(bytes)}"
`
  )
  return { port, stop: () => child.stop() }
}

/** HAProxy with one thread, kept upstream connections that requests share, and no log. */
export const haproxy: Peer = {
  id: 'haproxy',
  label: 'HAProxy',
  version: binary === null ? null : (/version (\d[\w.]*)/.exec(versionOf(binary, '-v'))?.[1] ?? ''),
  install: 'apt-get install haproxy',
  async start({ folder, core, upstream }) {
    const { child, port } = await startHaproxy(
      'haproxy',
      folder,
      core,
      port => `frontend here
  bind 127.0.0.1:${port}
  default_backend there
backend there
  server upstream ${new URL(upstream).host}
`
    )
    return { port, pid: child.pid, compiles: false, fault: () => child.fault(), stop: () => child.stop() }
  }
}

/** Starts HAProxy around the lines given for its proxies, in the foreground. */
async function startHaproxy(
  name: string,
  folder: string,
  core: Core,
  proxies: (port: number) => string
): Promise<{ readonly child: Child; readonly port: number }> {
  if (binary === null) throw new Error('haproxy is not on PATH')
  const port = await freePort()
  const file = join(folder, `${name}.cfg`)
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
${proxies(port)}`
  )
  const child = start(name, folder, core, [binary, '-db', '-f', file])
  await until(name, child, 10, () => answers(`http://127.0.0.1:${port}/`))
  return { child, port }
}
