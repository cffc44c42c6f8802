import type { GatewayConfig } from '../../engine/config/schema.ts'
import { openDatabase } from '../../platform/database/database.ts'
import { migrate } from '../../platform/database/migrations.ts'
import { migrations } from '../../platform/database/migrations/list.ts'
import { ownImage } from '../image.ts'
import { keysPath, makeMaster, rotateMaster, writeKeys, readKeys } from '../../platform/keys/keyfile.ts'
import { Sealer, Secret } from '../../platform/keys/secrets.ts'
import { adoptMaster } from '../master-check.ts'
import { loadSecrets } from '../secrets.ts'
import { systemClock } from '../../platform/system/clock.ts'
import { randomToken } from '../../platform/system/ids.ts'
import { silentLog } from '../../platform/telemetry/log.ts'
import { CONFIG_FLAG } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { loadNamed } from '../cli/configuration.ts'
import { UsageError, type Output } from '../cli/output.ts'

export const keys = defineCommand(
  {
    about: 'Rotates the master secret or the admin key',
    takes: 'rotate|adopt',
    words: ['rotate', 'adopt'],
    details: `rotate  Makes a new master secret and keeps the old one as a previous one, so that tokens and saved keys stay valid.
        If the secret comes from the configuration, prints the new one and what to write. Restart the gateway afterwards.
adopt   Accepts the present master secret for a database that was used with another, which is lost. Makes one if there is
        no master.key. Tokens and provider keys of the lost secret stay unusable. Stop the gateway first.`,
    flags: { '--admin': 'Rotate the admin key instead', ...CONFIG_FLAG },
    examples: ['boltgate keys rotate', 'boltgate keys rotate --admin']
  },
  async (values, words, out) => {
    const [action] = words
    if (action === 'adopt' && values.admin) throw new UsageError('--admin goes with rotate.')
    const { config } = await loadNamed(values.config)
    if (action === 'adopt') return await adopt(config, out)
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
)

async function adopt(config: GatewayConfig, out: Output): Promise<number> {
  if (config.secrets.master === '') makeMaster(config.data)
  const { ring } = loadSecrets(config)
  const database = await openDatabase({
    ...config.database,
    dataDir: config.data,
    image: ownImage(),
    log: silentLog,
    clock: systemClock
  })
  try {
    await database.verify()
    await migrate(database, migrations, { clock: systemClock, log: silentLog })
    await adoptMaster(database, new Sealer(ring))
  } finally {
    await database.close()
  }
  out.print('The database now belongs to the present master secret. Start the gateway again.')
  return 0
}
