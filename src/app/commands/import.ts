import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { jsonOrUndefined } from '../../platform/system/json.ts'
import { apertureRows } from '../../lightning/l402/aperture-tokens.ts'
import { openDatabase } from '../../platform/database/database.ts'
import { aperturePath, writeApertureKeys } from '../../platform/keys/keyfile.ts'
import { systemClock } from '../../platform/system/clock.ts'
import { silentLog } from '../../platform/telemetry/log.ts'
import { fromAperture, type ApertureFile } from '../cli/aperture-file.ts'
import { loadWithPlugins } from '../cli/configuration.ts'
import { defineCommand } from '../cli/command.ts'
import { UsageError } from '../cli/output.ts'

export const importFrom = defineCommand(
  {
    about: 'Moves here from another gateway',
    takes: 'aperture <file>',
    words: ['aperture'],
    word: 'gateway',
    details: `Reads a configuration of Aperture, writes a gateway.yaml with a comment at each thing that has no equal, and copies the
root keys of the tokens that Aperture sold from its database, so that they keep working. An existing gateway.yaml stays
as it is: run the command again for the keys of what was sold meanwhile.`,
    flags: {
      '--keys <file>': `Root keys from a file: lines of hash,key in hex, or what
\`etcdctl get --prefix lsat/proxy/secrets/ -w json\` prints`,
      '-c, --config <file>': 'File to write (default: ./gateway.yaml)'
    },
    examples: ['boltgate import aperture aperture.yaml', 'boltgate import aperture aperture.yaml --keys keys.json']
  },
  async (values, words, out) => {
    const { config: named = 'gateway.yaml' } = values
    const [, source = ''] = words
    const found = readAperture(source)
    const file = resolve(named)
    let data = join(dirname(file), 'data')
    if (existsSync(file)) {
      out.print(`${named} exists and stays as it is.`)
      data = (await loadWithPlugins(file, process.env)).config.data
    } else {
      writeFileSync(file, found.yaml, { flag: 'wx' })
      out.print(`Wrote ${named}. Read its comments, then run boltgate check.`)
    }
    const rows = values.keys === undefined ? await storedKeys(found.settings) : keysOfFile(values.keys)
    if (typeof rows === 'string') {
      out.complain(`No root keys were imported, so tokens that Aperture sold will not work: ${rows}`)
      return 1
    }
    writeApertureKeys(data, apertureRows(rows))
    out.print(`Wrote ${rows.length} root keys to ${aperturePath(data)}. Restart a gateway that runs.`)
    return 0
  }
)

function readAperture(source: string): ApertureFile {
  if (!existsSync(source)) throw new UsageError(`There is no file ${source}.`)
  try {
    return fromAperture(readFileSync(source, 'utf8'), source, homedir())
  } catch (error) {
    throw new UsageError(`${source} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  }
}

type Rows = ReadonlyArray<readonly [hash: string, key: string]>

interface Stored {
  readonly hash: Uint8Array
  readonly secret: Uint8Array
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const hexOf = ({ hash, secret }: Stored): Rows[number] => [hex(hash), hex(secret)]

/** What the database of the configuration has, or why it has nothing. */
async function storedKeys(settings: ApertureFile['settings']): Promise<Rows | string> {
  // The file was read as YAML, where a missing section is undefined.
  const section = (name: string) => (settings[name] ?? {}) as Readonly<Record<string, string | number | boolean>>
  const backend = settings['dbbackend'] ?? ('etcd' in settings && !('sqlite' in settings) ? 'etcd' : 'sqlite')
  if (backend === 'etcd') return 'they are in etcd. Name a file of them with --keys.'
  if (backend === 'postgres') {
    const { host, port, user, password, dbname, requireSSL } = section('postgres')
    const url = new URL(`postgres://${String(host ?? 'localhost')}:${String(port ?? 5432)}/${String(dbname ?? '')}`)
    url.username = String(user ?? '')
    url.password = String(password ?? '')
    if (requireSSL === true) url.searchParams.set('sslmode', 'require')
    const database = await openDatabase({ url: url.href, dataDir: '', log: silentLog, clock: systemClock })
    try {
      return (await database.sql<Stored[]>`select hash, secret from secrets`).map(hexOf)
    } finally {
      await database.close()
    }
  }
  const file = String(
    section('sqlite')['dbfile'] ?? join(String(settings['basedir'] ?? join(homedir(), '.aperture')), 'aperture.db')
  )
  if (!existsSync(file)) return `there is no ${file}. Run this beside Aperture, or name a file with --keys.`
  const { DatabaseSync } = await import('node:sqlite')
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    // Columns of the table, both of type BLOB.
    return (database.prepare('select hash, secret from secrets').all() as unknown as Stored[]).map(hexOf)
  } finally {
    database.close()
  }
}

/** @throws UsageError at a line that is no key */
function keysOfFile(file: string): Rows {
  if (!existsSync(file)) throw new UsageError(`There is no file ${file}.`)
  const text = readFileSync(file, 'utf8')
  const json = jsonOrUndefined(text) as { readonly kvs?: ReadonlyArray<{ key: string; value: string }> } | undefined
  const rows =
    json?.kvs?.map(({ key, value }) => [
      (Buffer.from(key, 'base64').toString().split('/').at(-1) ?? '').toLowerCase(),
      hex(Buffer.from(value, 'base64'))
    ]) ??
    text
      .split(/\r?\n/)
      .filter(line => line !== '')
      .map(line =>
        line
          .replaceAll(/["\s]|\\x/g, '')
          .toLowerCase()
          .split(',')
      )
  return rows.map(([hash = '', key = '', ...more], at) => {
    if (more.length > 0 || !/^[0-9a-f]{64}$/.test(hash) || !/^[0-9a-f]{64}$/.test(key))
      throw new UsageError(`${file}: key ${at + 1} must be a hash and a key of 64 hex characters each.`)
    return [hash, key]
  })
}
