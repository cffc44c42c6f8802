import { execFile } from 'node:child_process'
import { chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test as T } from 'tap'
import { freePort, start, type Child } from '../../benchmarks/rig/child.ts'
import { onPath } from '../../benchmarks/rig/machine.ts'
import { asPostgres, postgresFolder } from '../../benchmarks/rig/servers.ts'
import type { SelfSigned } from '../fakes/certificate.ts'
import { temporaryFolder } from './database.ts'
import { eventually } from './gateway-process.ts'

const run = promisify(execFile)

/** A server of a test's own, which it may kill and stop: those that the environment names are everybody's. */
export interface OwnServer {
  readonly url: string
  /** Ends it with SIGKILL. */
  kill(): Promise<void>
  /** Starts it again over what it has written, and waits until it takes connections. */
  start(): Promise<void>
  /** Pauses it, its connections open. */
  pause(): void
  /** Lets it go on. */
  resume(): void
}

interface Program {
  readonly name: string
  readonly folder: string
  readonly url: string
  readonly command: readonly string[]
  /** Whether it takes connections; null while it does not. */
  readonly listens: () => Promise<true | null>
}

async function own(t: T, { name, folder, url, command, listens }: Program): Promise<OwnServer> {
  let child: Child | null = null
  const signal = (how: NodeJS.Signals): void => {
    if (child !== null && child.fault() === null) process.kill(child.pid, how)
  }
  const begin = async (): Promise<void> => {
    await eventually(`${name} takes connections`, async () => {
      // What a killed PostgreSQL has started may still be ending, and refuses the next.
      if (child === null || child.fault() !== null) child = start(name, folder, null, command)
      const listening = await listens()
      return child.fault() === null ? listening : null
    })
  }
  const kill = async (): Promise<void> => {
    signal('SIGKILL')
    await eventually(`${name} ends`, async () => (child !== null && child.fault() === null ? null : true))
  }
  t.teardown(kill)
  await begin()
  return {
    url,
    kill,
    start: begin,
    pause() {
      signal('SIGSTOP')
    },
    resume() {
      signal('SIGCONT')
    }
  }
}

/** Writes both parts where a server reads them; their paths. */
function written(folder: string, { certificate, key }: SelfSigned): { readonly cert: string; readonly key: string } {
  const files = { cert: join(folder, 'server.crt'), key: join(folder, 'server.key') }
  writeFileSync(files.cert, certificate)
  writeFileSync(files.key, key, { mode: 0o600 })
  return files
}

/**
 * A PostgreSQL that waits for its disk, as it does unless configured otherwise; null where none is installed. With a
 * certificate it speaks TLS too.
 */
export async function ownPostgres(t: T, secured?: SelfSigned): Promise<OwnServer | null> {
  const bin = postgresFolder()
  if (bin === null) return null
  const folder = temporaryFolder(t)
  const data = join(folder, 'data')
  mkdirSync(data)
  const files = secured === undefined ? null : written(folder, secured)
  if (process.getuid?.() === 0) {
    const ids = await Promise.all(['-u', '-g'].map(which => run('id', [which, 'postgres'])))
    const [user = 0, group = 0] = ids.map(({ stdout }) => Number(stdout))
    for (const path of [folder, data, ...Object.values(files ?? {})]) chownSync(path, user, group)
  }
  const [initdb = '', ...rest] = asPostgres([join(bin, 'initdb'), '-D', data, '-U', 'postgres', '-A', 'trust', '-N'])
  await run(initdb, rest, { cwd: folder })
  const port = String(await freePort())
  return await own(t, {
    name: 'postgres',
    folder,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    command: asPostgres([
      join(bin, 'postgres'),
      '-D',
      data,
      '-p',
      port,
      '-k',
      folder,
      '-c',
      'listen_addresses=127.0.0.1',
      ...(files === null ? [] : ['ssl=on', `ssl_cert_file=${files.cert}`, `ssl_key_file=${files.key}`]).flatMap(
        setting => ['-c', setting]
      )
    ]),
    listens: () =>
      run(join(bin, 'pg_isready'), ['-q', '-h', '127.0.0.1', '-p', port]).then(
        (): true => true,
        () => null
      )
  })
}

/**
 * A Redis that keeps nothing, so that a kill takes all of it; null where none is installed. With a certificate it speaks
 * TLS only.
 */
export async function ownRedis(t: T, secured?: SelfSigned): Promise<OwnServer | null> {
  const redis = onPath('redis-server')
  if (redis === null) return null
  const folder = temporaryFolder(t)
  const files = secured === undefined ? null : written(folder, secured)
  const port = await freePort()
  const listens = (): Promise<true | null> =>
    new Promise(resolve => {
      const socket = connect(port, '127.0.0.1')
      socket
        .once('connect', () => {
          resolve(true)
        })
        .once('error', () => {
          resolve(null)
        })
      socket.once('connect', () => {
        socket.destroy()
      })
    })
  return await own(t, {
    name: 'redis',
    folder,
    url: `${files === null ? 'redis' : 'rediss'}://127.0.0.1:${port}`,
    command: [
      redis,
      ...(files === null ? [] : ['--tls-cert-file', files.cert, '--tls-key-file', files.key]),
      ...(files === null ? [] : ['--tls-auth-clients', 'no', '--port', '0']),
      files === null ? '--port' : '--tls-port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
      '--dir',
      folder
    ],
    listens
  })
}
