/**
 * What every client of this folder meets: a running gateway, something to buy behind it, ways to reach it, and a
 * wallet.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import net from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Test as T } from 'tap'
import type { SelfSigned } from '../fakes/certificate.ts'
import { defaultYaml, rootFolder, startGateway, type TestGateway } from '../support/gateway.ts'
import { temporaryFolder } from '../support/database.ts'
import { programPath } from '../support/program-path.ts'
import { freePort } from '../support/free-port.ts'

/** A request as the upstream received it. */
export interface Received {
  readonly method: string
  readonly url: string
  readonly authorization: string | null
  readonly body: string
}

/** The upstream behind the operator's route and the merchant's proxy: it answers with what it received. */
export interface Upstream {
  readonly url: string
  readonly received: Received[]
  /** Makes it close the connection, without a byte, on this many of the next requests. */
  dieNext(times: number): void
}

/** A gateway with three things to buy. All paths answer to GET and POST but the quote, which is for GET. */
export interface Shop {
  readonly gateway: TestGateway
  readonly upstream: Upstream
  /** 10 satoshis, answered by the gateway itself. */
  readonly quote: '/demo/quote'
  /** 7 satoshis, an operator's route to the upstream. */
  readonly operated: '/op/things?x=1'
  /** 5 satoshis, a merchant's proxy to the same upstream. */
  readonly proxied: string
}

/** Master secret of the shop's gateway, so that a test can make root keys on its own. */
export const MASTER = 'a master secret for interop tests, 32 bytes or more'

async function textOf(request: IncomingMessage) {
  request.setEncoding('utf8')
  let text = ''
  for await (const piece of request) text += String(piece)
  return text
}

function portOf(server: net.Server) {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server listens on no port')
  return address.port
}

async function listen(t: T, server: net.Server) {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(
    () =>
      new Promise<void>(resolve => {
        server.close(() => resolve())
      })
  )
  return portOf(server)
}

async function startUpstream(t: T): Promise<Upstream> {
  const received: Received[] = []
  let deaths = 0
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await textOf(request)
    received.push({
      method: request.method ?? '',
      url: request.url ?? '',
      authorization: request.headers.authorization ?? null,
      body
    })
    if (deaths > 0) {
      deaths--
      request.socket.destroy()
      return
    }
    response.setHeader('content-type', 'application/json')
    // On a kept connection the gateway would retry an idempotent request that dies (RFC 9112, 9.3.1).
    response.shouldKeepAlive = false
    // Without a length, in pieces.
    if (request.url?.includes('pieces') === true) response.write(' ')
    response.end(JSON.stringify({ method: request.method, body }))
  }
  const server = createServer((request, response) => {
    void answer(request, response)
  })
  const port = await listen(t, server)
  t.teardown(() => {
    server.closeAllConnections()
  })
  return {
    url: `http://127.0.0.1:${port}`,
    received,
    dieNext: times => {
      deaths = times
    }
  }
}

/** Starts the shop; it closes with the test. `payment` is a line of YAML for the settings of that name. */
export async function openShop(t: T, payment = ''): Promise<Shop> {
  const upstream = await startUpstream(t)
  const routes = 'routes:\n'
  const yaml = defaultYaml({
    replace: [
      // With a body limit, as merchants' proxies have one: only then is a challenge bound to the body (decision 121).
      [
        'chains:\n',
        `${payment}chains:\n  bounded: [ correlation, access-log, metrics, cors, { throttle: { policy: global } }, body-limit, credential, challenge ]\n`
      ],
      [
        routes,
        `${routes}  - match: { path: "/op/*" }\n    price: 7 sats\n    description: Things\n    chain: bounded\n    upstream: { url: "${upstream.url}" }\n`
      ]
    ]
  })
  const gateway = await startGateway(t, { yaml, env: { BOLTGATE_SECRET: MASTER } })
  const created = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'Things',
    targetBaseUrl: upstream.url,
    defaultPriceSats: 5
  })
  if (created.status !== 201) throw new Error(`no proxy: ${created.status} ${created.text}`)
  const { proxyId } = created.json() as { proxyId: string } // the contract's answer to a 201
  return {
    gateway,
    upstream,
    quote: '/demo/quote',
    operated: '/op/things?x=1',
    proxied: `/l402/proxy/${proxyId}/things`
  }
}

/** A wallet as @getalby/lightning-tools wants one, that pays at the sandbox and remembers what it paid. */
export interface SandboxWallet {
  readonly paid: string[]
  payInvoice(args: { invoice: string }): Promise<{ preimage: string }>
}

export function sandboxWallet(gateway: TestGateway): SandboxWallet {
  const paid: string[] = []
  return {
    paid,
    async payInvoice({ invoice }) {
      paid.push(invoice)
      return { preimage: await gateway.pay(invoice) }
    }
  }
}

/** A way to reach the gateway. */
export interface Door {
  readonly name: 'direct' | 'nginx' | 'caddy'
  readonly url: string
  /** Connections that clients have opened so far, and those that the gateway has ended. Only a direct door counts. */
  connections(): { readonly opened: number; readonly ended: number }
}

/** The gateway's own port, through a relay of bytes that counts connections. */
export async function directDoor(t: T, gateway: TestGateway): Promise<Door> {
  const target = Number(new URL(gateway.url).port)
  let opened = 0
  let ended = 0
  const open = new Set<net.Socket>()
  const server = net.createServer(socket => {
    opened++
    const onward = net.connect(target, '127.0.0.1')
    onward.on('end', () => {
      ended++
    })
    for (const end of [socket, onward]) {
      open.add(end)
      end.setNoDelay()
      end.on('close', () => {
        open.delete(end)
      })
      // The other end goes with it; that is all there is to say about a reset.
      end.on('error', () => {
        socket.destroy()
        onward.destroy()
      })
    }
    socket.pipe(onward).pipe(socket)
  })
  const port = await listen(t, server)
  t.teardown(() => {
    for (const socket of open) socket.destroy()
  })
  return { name: 'direct', url: `http://127.0.0.1:${port}`, connections: () => ({ opened, ended }) }
}

/**
 * nginx with nothing but a `proxy_pass`, as an operator's first attempt would be, or with `more` beside it. Null where
 * nginx is not installed.
 */
export async function nginxDoor(t: T, gateway: TestGateway, more = ''): Promise<Door | null> {
  const port = await freePort()
  return await startDoor(t, 'nginx', port, `http://127.0.0.1:${port}`, () =>
    nginxFile(`server { listen 127.0.0.1:${port}; location / { proxy_pass ${gateway.url}; ${more} } }`)
  )
}

const nginxFile = (http: string) => {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map(name => `${name}_temp_path temp/${name};`)
    .join(' ')
  return `daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http { access_log off; ${temporary} ${http} }
`
}

/** A proxy with its file of `deploy/`, changed in ports and certificate alone; null where it is not installed. */
export async function deployedDoor(
  t: T,
  gateway: TestGateway,
  name: 'nginx' | 'caddy',
  { certificate, key }: SelfSigned
): Promise<Door | null> {
  const port = await freePort()
  const { host } = new URL(gateway.url)
  return await startDoor(t, name, port, `https://localhost:${port}`, folder => {
    writeFileSync(join(folder, 'cert.pem'), certificate)
    writeFileSync(join(folder, 'key.pem'), key)
    if (name === 'nginx')
      return nginxFile(
        deployed('nginx.conf')
          .replace('443', `127.0.0.1:${port}`)
          .replace('127.0.0.1:8080', host)
          .replaceAll(/\/etc\S+fullchain.pem/g, 'cert.pem')
          .replaceAll(/\/etc\S+privkey.pem/g, 'key.pem')
      )
    const site = deployed('Caddyfile').replace('127.0.0.1:8080', host)
    return `{ \n admin off \n auto_https disable_redirects \n }\n${site.replace('api.example.com {', `https://localhost:${port} {\n tls ${folder}/cert.pem ${folder}/key.pem`)}`
  })
}

const deployed = (name: string) => readFileSync(join(rootFolder, 'deploy', name), 'utf8')

async function startDoor(
  t: T,
  name: 'nginx' | 'caddy',
  port: number,
  url: string,
  fileIn: (folder: string) => string
): Promise<Door | null> {
  const program = programPath(name)
  if (program === null) return null
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'temp'))
  const file = join(folder, name === 'nginx' ? 'nginx.conf' : 'Caddyfile')
  writeFileSync(file, fileIn(folder))
  const args = name === 'nginx' ? ['-p', folder, '-c', file, '-e', 'stderr'] : ['run', '--config', file]
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], env })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', piece => {
    said += String(piece)
  })
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
  })
  while (!(await answers(port))) {
    if (child.exitCode !== null) throw new Error(`${name} did not start: ${said}`)
  }
  return { name, url, connections: () => ({ opened: 0, ended: 0 }) }
}

async function answers(port: number) {
  const socket = net.connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    // Not yet: leave the processor to nginx for a moment.
    await setTimeout(10)
    return false
  } finally {
    socket.destroy()
  }
}

/** Runs a test at the gateway itself, and behind nginx where that is installed. */
export async function eachDoor(t: T, gateway: TestGateway, run: (t: T, door: Door) => Promise<void>): Promise<void> {
  await t.test('over a connection that is kept alive', async t => {
    await run(t, await directDoor(t, gateway))
  })
  const skip = programPath('nginx') === null ? 'nginx is not installed' : false
  await t.test('behind nginx', { skip }, async t => {
    const door = await nginxDoor(t, gateway)
    if (door !== null) await run(t, door)
  })
}
