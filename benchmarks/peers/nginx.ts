import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { answers, freePort, start, until, type Child, type Core } from '../rig/child.ts'
import { onPath, versionOf } from '../rig/machine.ts'
import type { Peer } from './target.ts'

const binary = onPath('nginx')

/** The version of nginx on this machine, or null. */
export const nginxVersion: string | null =
  binary === null ? null : (/nginx\/(\S+)/.exec(versionOf(binary, '-v'))?.[1] ?? null)

/**
 * Runs nginx with one worker in the foreground, around the lines given for its `http` block. `keepalive_requests` is
 * raised, or every thousandth request would pay for a new connection; access logs are off.
 */
export async function startNginx(
  name: string,
  folder: string,
  core: Core,
  http: (port: number) => string
): Promise<{ child: Child; port: number }> {
  if (binary === null) throw new Error('nginx is not on PATH')
  const port = await freePort()
  const scratch = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map(kind => `  ${kind}_temp_path ${folder}/${name}-${kind};`)
    .join('\n')
  const file = join(folder, `${name}.conf`)
  // Its workers must reach their folders in the run's, which no other user may enter.
  writeFileSync(
    file,
    `${process.getuid?.() === 0 ? 'user root;\n' : ''}daemon off;
worker_processes 1;
pid ${folder}/${name}.pid;
error_log ${folder}/${name}.log warn;
worker_rlimit_nofile 60000;
events { worker_connections 30000; }
http {
${scratch}
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 300s;
${http(port)}
}
`
  )
  const child = start(name, folder, core, [binary, '-c', file, '-e', `${folder}/${name}.log`])
  await until(name, child, 10, () => answers(`http://127.0.0.1:${port}/`))
  return { child, port }
}

/** nginx as a plain proxy, with a kept pool of upstream connections, which is off in its defaults. */
export const nginx: Peer = {
  id: 'nginx',
  label: 'nginx proxy_pass',
  version: nginxVersion,
  install: 'apt-get install nginx',
  async start({ folder, core, upstream }) {
    const { child, port } = await startNginx(
      'nginx',
      folder,
      core,
      port => `  upstream service { server ${new URL(upstream).host}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} reuseport;
    client_body_buffer_size 128k;
    location / { proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection ""; }
    location /passed/socket { proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }
    location /passed/events { proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
    location /passed/endless { proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
    location /passed/count { proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off; client_max_body_size 0; }
  }`
    )
    return { port, pid: child.pid, compiles: false, fault: () => child.fault(), stop: () => child.stop() }
  }
}
