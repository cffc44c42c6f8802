import { providerKinds } from '../../lightning/kinds/kinds.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { CONFIG_FLAG } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { loadNamed } from '../cli/configuration.ts'
import { testKey } from '../cli/outside.ts'

export const test = defineCommand(
  {
    about: 'Tests the keys of your payment providers',
    takes: 'provider',
    words: ['provider'],
    details:
      'Tests each provider of the configuration, up to making an invoice. Exit code 1 if one cannot make invoices.',
    flags: CONFIG_FLAG,
    examples: ['boltgate test provider']
  },
  async (values, _words, out) => {
    const { config } = await loadNamed(values.config)
    const tested = await testProviders(config)
    for (const { isValid, says } of tested) out.print(`${isValid ? 'ok    ' : 'FAILED'}  ${says}`)
    return tested.every(({ isValid }) => isValid) ? 0 : 1
  }
)

/** Tests each configured key up to making an invoice. */
export async function testProviders({
  lightning
}: GatewayConfig): Promise<Array<{ readonly isValid: boolean; readonly says: string }>> {
  const tested = []
  for (const slot of ['primary', 'alternate'] as const)
    for (const { kind, name = kind, key, url } of lightning[slot]) {
      const isSandbox = providerKinds.some(known => known.name === kind && known.isSandbox)
      const { isValid, message } =
        key !== undefined
          ? await testKey(kind, key, url ?? null)
          : isSandbox
            ? { isValid: true, message: 'Makes invoices without money.' }
            : { isValid: slot === 'alternate', message: 'No key: only for merchants with keys of their own.' }
      tested.push({ isValid, says: `${slot} ${name}: ${message}` })
    }
  return tested
}
