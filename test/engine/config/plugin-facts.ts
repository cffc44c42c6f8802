import { Type } from 'typebox'
import { PolicyName } from '../../../src/engine/config/fields.ts'
import type { PluginFacts } from '../../../src/engine/config/schema.ts'
import { Duration, Size } from '../../../src/engine/config/units.ts'

const none = Type.Object({})
const list: readonly PluginFacts[] = [
  { name: 'correlation', config: none },
  { name: 'throttle', config: Type.Object({ policy: PolicyName({ default: 'global' }) }), before: ['challenge'] },
  {
    name: 'auth',
    config: Type.Object({ as: Type.Union([Type.Literal('merchant'), Type.Literal('admin')]) }),
    provides: ['principal'],
    before: ['idempotency']
  },
  {
    name: 'idempotency',
    config: Type.Object({ lifetime: Duration({ default: '1d', maximum: '2d' }) }),
    needs: ['principal']
  },
  { name: 'body-limit', config: Type.Object({ limit: Size({ default: '1MiB', description: 'Largest body.' }) }) },
  { name: 'proxy', config: none, provides: ['target'] },
  { name: 'challenge', config: none, provides: ['payment', 'challenge'] },
  { name: 'forward', config: none, terminal: true }
]

/** Facts of plugins in place of the gateway's own: the loader must know nothing but these. */
export const pluginFacts: ReadonlyMap<string, PluginFacts> = new Map(list.map(facts => [facts.name, facts]))
