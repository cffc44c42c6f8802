import { parseArgs } from 'node:util'
import { keysPath, rotateMaster, writeKeys, readKeys } from '../keys/keyfile.ts'
import { randomToken } from '../system/ids.ts'
import { Secret } from '../keys/secrets.ts'
import { configurationFile, loadWithPlugins } from './configuration.ts'
import { UsageError, type Output } from './output.ts'

export const keysUsage = `boltgate keys rotate [--admin] [--config FILE]

Makes a new master secret; the old one stays as a previous one, so that what it signed and sealed is still good. Where the
secret comes from the configuration, prints the new one and what to write. --admin makes a new admin key instead.
A running gateway takes either at its next start.`

/** Rotates the master secret or the admin key. Throws `UsageError`, `ConfigError`, `KeyFileError`. */
export async function keys(args: readonly string[], out: Output): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { config: { type: 'string', short: 'c' }, admin: { type: 'boolean', default: false } }
  })
  if (positionals.length !== 1 || positionals[0] !== 'rotate') {
    const given = positionals.length === 0 ? 'and there is nothing' : `not "${positionals.join(' ')}"`
    throw new UsageError(`keys needs what to do, which is rotate, ${given}.\n\n${keysUsage}`)
  }
  const { config } = await loadWithPlugins(configurationFile(values.config), process.env)
  if (values.admin) {
    const adminKey = new Secret(`bgadmin_${randomToken(32)}`)
    if (config.secrets.adminKey !== '') {
      out.print(
        'The admin key comes from the configuration. Set secrets.adminKey to this new one and start the gateway again:'
      )
      out.print(adminKey.reveal())
      return 0
    }
    writeKeys(config.data, { adminKey, merchant: readKeys(config.data)?.merchant ?? null })
    out.print(`Wrote a new admin key to ${keysPath(config.data)}. Start the gateway again to use it.`)
    return 0
  }
  if (config.secrets.master !== '') {
    out.print(
      'The master secret comes from the configuration. Set secrets.master to this new one, put the old one first under'
    )
    out.print('secrets.previous, and start the gateway again:')
    out.print(randomToken(48))
    return 0
  }
  const file = rotateMaster(config.data)
  out.print(`Wrote a new master secret to ${file}; the old one stays below it. Start the gateway again to use it.`)
  return 0
}
