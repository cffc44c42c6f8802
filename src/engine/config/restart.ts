import type { GatewayConfig } from './schema.ts'

/** What is decided at start: a reload leaves it as it is. Whole parts, or the settings of one that are. */
const FIXED: ReadonlyArray<readonly [part: keyof GatewayConfig, settings?: readonly string[]]> = [
  ['mode'],
  ['server'],
  ['secrets'],
  ['data'],
  ['database'],
  ['state'],
  ['lightning'],
  ['prices'],
  ['mail'],
  ['billing', ['kind', 'key', 'webhookSecret', 'url', 'timeout', 'prices']],
  ['storefront', ['kind', 'url', 'apiVersion', 'timeout']],
  ['log'],
  ['metrics']
]

/** The parts of a configuration that differ from the one before and take effect only after a restart. */
export function needsRestart(before: GatewayConfig, after: GatewayConfig): string[] {
  return FIXED.filter(([part, settings]) => decided(before, part, settings) !== decided(after, part, settings)).map(
    ([part]) => part
  )
}

function decided(config: GatewayConfig, part: keyof GatewayConfig, settings: readonly string[] | undefined): string {
  const value = config[part]
  if (settings === undefined) return JSON.stringify(value)
  return JSON.stringify(
    Object.entries(value)
      .filter(([name]) => settings.includes(name))
      .sort(([a], [b]) => (a < b ? -1 : 1))
  )
}
