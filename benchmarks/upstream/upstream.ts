import { fileURLToPath } from 'node:url'
import { nginxVersion, startNginx } from '../peers/nginx.ts'
import { favor } from '../rig/affinity.ts'
import { announcedPort, start, type Child, type Core } from '../rig/child.ts'

/** The one upstream behind every target. */
export interface Upstream {
  /** Such as http://127.0.0.1:41234. */
  readonly origin: string
  readonly pid: number
  /** Whether it comes before all others on its core, so that a generator there need not give way to it. */
  readonly favored: boolean
  /** What it is, for the report. */
  readonly label: string
  stop(): Promise<void>
}

/** Starts an upstream that gives `bytes` bytes to any GET: nginx, which costs its core least, else node:http. */
export async function startUpstream(folder: string, core: Core, bytes: number): Promise<Upstream> {
  let child: Child
  let port: number
  let label: string
  if (nginxVersion !== null) {
    label = `nginx ${nginxVersion}, fixed answer of ${bytes} bytes`
    ;({ child, port } = await startNginx(
      'upstream',
      folder,
      core,
      port => `  server {
    listen 127.0.0.1:${port};
    default_type text/plain;
    location / { return 200 "${'x'.repeat(bytes)}"; }
  }`
    ))
  } else {
    label = `node:http, fixed answer of ${bytes} bytes`
    child = start('upstream', folder, core, [
      process.execPath,
      fileURLToPath(new URL('server.mjs', import.meta.url)),
      String(bytes)
    ])
    port = await announcedPort('upstream', child)
  }
  return {
    origin: `http://127.0.0.1:${port}`,
    pid: child.pid,
    favored: favor(child.pid),
    label,
    stop: () => child.stop()
  }
}
