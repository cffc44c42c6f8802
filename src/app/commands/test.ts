import { parseArgs } from 'node:util'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import { CONFIG_FLAG, type Help } from '../cli/help.ts'
import { configurationFile, loadWithPlugins } from '../cli/configuration.ts'
import { testKey } from '../cli/outside.ts'
import { UsageError, type Output } from '../cli/output.ts'

export const testHelp: Help = {
  about: 'Tests the keys of your payment providers',
  takes: 'provider',
  words: ['provider'],
  details:
    'Tests each provider of the configuration, up to making an invoice. Exit code 1 if one cannot make invoices.',
  flags: CONFIG_FLAG,
  examples: ['boltgate test provider']
}

/** @throws UsageError, ConfigError */
export async function test(args: readonly string[], out: Output): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { config: { type: 'string', short: 'c' } }
  })
  if (positionals.join(' ') !== 'provider') throw new UsageError('Missing action: use provider.')
  const { config } = await loadWithPlugins(configurationFile(values.config), process.env)
  let failed = 0
  for (const slot of ['primary', 'alternate'] as const)
    for (const { kind, name = kind, key, url } of config.lightning[slot]) {
      const isSandbox = providerKinds.some(known => known.name === kind && known.isSandbox)
      const verdict =
        key !== undefined
          ? await testKey(kind, key, url ?? null)
          : isSandbox
            ? { isValid: true, message: 'Makes invoices without money.' }
            : { isValid: slot === 'alternate', message: 'No key: only for merchants with keys of their own.' }
      if (!verdict.isValid) failed++
      out.print(`${verdict.isValid ? 'ok    ' : 'FAILED'}  ${slot} ${name}: ${verdict.message}`)
    }
  return failed === 0 ? 0 : 1
}
