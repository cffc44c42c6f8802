import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { request } from 'undici'
import { localAddress, portOf } from '../../engine/config/listen-address.ts'
import { ownImage } from '../image.ts'
import { systemClock } from '../../platform/system/clock.ts'
import { openDatabase } from '../../platform/database/database.ts'
import { silentLog } from '../../platform/telemetry/log.ts'
import { loadSecrets } from '../secrets.ts'
import { CONFIG_FLAG, type Help } from '../cli/help.ts'
import { configurationFile, loadWithPlugins } from '../cli/configuration.ts'
import type { Output } from '../cli/output.ts'

export const openapiHelp: Help = {
  about: 'Prints the OpenAPI document of the configured gateway',
  details: 'Starts that gateway for a moment on a free port, with an empty database.',
  flags: CONFIG_FLAG,
  examples: ['boltgate openapi > openapi.json']
}

export async function openapi(args: readonly string[], out: Output): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { config: { type: 'string', short: 'c' } } })
  const { config: file, plugins } = await loadWithPlugins(configurationFile(values.config), process.env)
  const data = mkdtempSync(join(tmpdir(), 'boltgate-openapi-'))
  const config = {
    ...file,
    data,
    mode: 'development',
    state: { url: 'memory:' },
    server: { ...file.server, addresses: [localAddress()], tls: [] }
  } as const
  const [{ compose }, { prepare }] = await Promise.all([import('../compose.ts'), import('../first-start.ts')])
  const database = await openDatabase({
    url: 'pglite:memory',
    dataDir: data,
    log: silentLog,
    clock: systemClock,
    image: ownImage()
  })
  try {
    const secrets = loadSecrets(config)
    await prepare({ config, database, secrets, clock: systemClock, log: silentLog, firstMerchant: true })
    const app = await compose(config, {
      clock: systemClock,
      log: silentLog,
      database,
      secrets,
      plugins,
      publicUrl: () => (config.server.publicUrl === '' ? 'http://127.0.0.1:8080' : config.server.publicUrl)
    })
    const port = portOf(await app.listen())
    await app.follow()
    const answer = await request(`http://127.0.0.1:${port}/api/openapi.json`)
    out.print(JSON.stringify(await answer.body.json(), null, 2))
    await app.close()
  } finally {
    await database.close()
    rmSync(data, { recursive: true, force: true })
  }
  return 0
}
