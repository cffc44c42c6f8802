import { execFile } from 'node:child_process'
import { chownSync, mkdirSync, readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort, start, until, type Child, type Core } from './child.ts'
import { onPath } from './machine.ts'

const run = promisify(execFile)

/** Where a gateway finds its database and its Redis. */
export interface Reachable {
  readonly databaseUrl: string
  readonly redisUrl: string
}

/** A private PostgreSQL and Redis of the run. Their CPU is not the gateway's; the pids are there to tell it apart. */
export interface Servers extends Reachable {
  readonly postgresPid: number
  /** Of the Redis at `redisUrl`. */
  readonly redisPid: number
  /** A database of this PostgreSQL and a Redis for a gateway that is to share neither with another. */
  another(name: string): Promise<Reachable>
  stop(): Promise<void>
}

/** Where PostgreSQL's programs are, which Debian keeps out of PATH; null where there are none. */
export function postgresFolder(): string | null {
  try {
    const root = '/usr/lib/postgresql'
    const versions = readdirSync(root).sort((a, b) => Number(a) - Number(b))
    const newest = versions.at(-1)
    return newest === undefined ? null : join(root, newest, 'bin')
  } catch {
    // No such folder: PostgreSQL is not installed by Debian's packages.
    return null
  }
}

/** What is missing for `startServers`; null when nothing is. */
export function serversMissing(): string | null {
  const missing = [
    ...(postgresFolder() === null ? ['postgresql'] : []),
    ...(onPath('redis-server') === null ? ['redis-server'] : [])
  ]
  return missing.length === 0 ? null : `not installed here: \`apt-get install ${missing.join(' ')}\``
}

/**
 * As a user of its own where we are root, as which PostgreSQL refuses to run. `runuser` would stay in between: its id
 * is not the server's.
 */
export function asPostgres(command: readonly string[]): readonly string[] {
  return process.getuid?.() === 0
    ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--init-groups', ...command]
    : command
}

async function listening(port: number): Promise<true | null> {
  const socket = connect(port, '127.0.0.1')
  try {
    await new Promise((resolve, reject) => {
      socket.once('connect', resolve).once('error', reject)
    })
    return true
  } catch {
    // Not yet: `until` asks again and knows when to give up.
    return null
  } finally {
    socket.destroy()
  }
}

/** Starts both in `folder`, with fsync as PostgreSQL has it by default. */
export async function startServers(folder: string, core: Core): Promise<Servers> {
  const bin = postgresFolder()
  const redis = onPath('redis-server')
  if (bin === null || redis === null) throw new Error(serversMissing() ?? '')
  const home = join(folder, 'servers')
  mkdirSync(home)
  if (process.getuid?.() === 0) {
    const { stdout } = await run('id', ['-u', 'postgres'])
    const { stdout: group } = await run('id', ['-g', 'postgres'])
    for (const path of [folder, home]) chownSync(path, Number(stdout), Number(group))
  }
  const data = join(home, 'pg')
  // Not waiting for the disk holds for its making alone.
  const [initdb = '', ...rest] = asPostgres([join(bin, 'initdb'), '-D', data, '-U', 'postgres', '-A', 'trust', '-N'])
  await run(initdb, rest, { cwd: home })
  const port = await freePort()
  const children: Child[] = []
  const stop = async (): Promise<void> => {
    await Promise.all(children.map(child => child.stop()))
  }
  const startRedis = async (name: string): Promise<{ readonly url: string; readonly pid: number }> => {
    const redisPort = await freePort()
    const child = start(name, folder, core, [
      redis,
      '--port',
      String(redisPort),
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
      '--dir',
      home
    ])
    children.push(child)
    await until(name, child, 30, () => listening(redisPort))
    return { url: `redis://127.0.0.1:${redisPort}`, pid: child.pid }
  }
  const at = (database: string): string => `postgres://postgres@127.0.0.1:${port}/${database}`
  try {
    const postgres = start(
      'postgres',
      folder,
      core,
      asPostgres([
        join(bin, 'postgres'),
        '-D',
        data,
        '-p',
        String(port),
        '-k',
        home,
        '-c',
        'listen_addresses=127.0.0.1',
        '-c',
        'max_connections=200'
      ])
    )
    children.push(postgres)
    const shared = await startRedis('redis')
    // PostgreSQL takes connections before it takes statements.
    await until('postgres', postgres, 30, () =>
      run(join(bin, 'pg_isready'), ['-q', '-h', '127.0.0.1', '-p', String(port)]).then(
        (): true => true,
        () => null
      )
    )
    return {
      databaseUrl: at('postgres'),
      redisUrl: shared.url,
      postgresPid: postgres.pid,
      redisPid: shared.pid,
      async another(name) {
        await run(join(bin, 'createdb'), ['-h', '127.0.0.1', '-p', String(port), '-U', 'postgres', name])
        return { databaseUrl: at(name), redisUrl: (await startRedis(`redis-${name}`)).url }
      },
      stop
    }
  } catch (error) {
    await stop()
    throw error
  }
}
