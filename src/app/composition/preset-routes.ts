import { parse } from 'yaml'
import { PRESET_NAMES, type PresetName, type Presets } from '../../engine/config/presets.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'

/** Parts the head of a preset, which is written by hand, from the routes that follow from operations. */
const MARK = '  # From what operations declare (`mount`), by `npm run docs`.\n'

interface Route {
  readonly methods: string[]
  readonly path: string
  readonly operation: AnyOperation
}

/**
 * The presets as they are to be: each with the head that it has, and one route for each path and chain that its
 * operations declare. Throws TypeError for a chain that the preset does not have.
 */
export function presetTexts(presets: Presets, operations: readonly AnyOperation[]): ReadonlyMap<PresetName, string> {
  const shared = chainsOf(presets.read('chains').text)
  return new Map(
    PRESET_NAMES.map(name => {
      const [head = ''] = presets.read(name).text.split(MARK)
      const chains = new Set([...shared, ...chainsOf(head)])
      return [
        name,
        head +
          MARK +
          routesOf(
            operations.filter(({ mount }) => mount?.use === name),
            chains
          )
            .map(line => `${line}\n`)
            .join('')
      ]
    })
  )
}

/** Names of chains. */
function chainsOf(text: string): readonly string[] {
  // The loader holds a preset to its schema.
  const { chains } = parse(text) as { chains?: Record<string, unknown> }
  return Object.keys(chains ?? {})
}

function routesOf(operations: readonly AnyOperation[], chains: ReadonlySet<string>): string[] {
  const routes = new Map<string, Route>()
  for (const operation of operations) {
    const { mount, path, method } = operation
    if (mount === undefined) continue
    const place = mount.below ?? path
    const key = `${place} ${mount.chain}`
    const route = routes.get(key) ?? { methods: [], path: place, operation }
    routes.set(key, route)
    if (mount.below === undefined) route.methods.push(method)
  }
  return [...routes.values()].map(({ methods, path, operation: { id, mount, summary } }) => {
    if (!chains.has(mount?.chain ?? ''))
      throw new TypeError(`${id} stands behind the chain ${mount?.chain}, which ${mount?.use} does not have`)
    const method =
      methods.length === 0 ? '' : `method: ${methods.length === 1 ? methods[0] : `[ ${methods.join(', ')} ]`}, `
    const sold = mount?.price === undefined ? '' : `price: ${mount.price}, description: ${JSON.stringify(summary)}, `
    return `  - { match: { ${method}path: ${path} }, ${sold}chain: ${mount?.chain}, upstream: { internal: api } }`
  })
}
