import { parse } from 'yaml'
import { PRESET_NAMES, type PresetName, type Presets } from '../config/presets.ts'
import type { AnyOperation } from '../gateway/operation.ts'

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
      const chains = new Map([...shared, ...chainsOf(head)])
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

/** Names of plugins by the name of their chain. */
function chainsOf(text: string): ReadonlyMap<string, readonly string[]> {
  // A preset's chains are lists of names, and of mappings with one name; the loader holds them to their schema.
  const { chains } = parse(text) as { chains?: Record<string, (string | Record<string, unknown>)[]> }
  return new Map(
    Object.entries(chains ?? {}).map(([name, entries]) => [
      name,
      entries.flatMap(entry => (typeof entry === 'string' ? entry : Object.keys(entry)))
    ])
  )
}

function routesOf(operations: readonly AnyOperation[], chains: ReadonlyMap<string, readonly string[]>): string[] {
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
    const plugins = chains.get(mount?.chain ?? '')
    if (plugins === undefined)
      throw new TypeError(`${id} stands behind the chain ${mount?.chain}, which ${mount?.use} does not have`)
    // A page of another origin asks before it calls; what is sold is described by the very methods that cost something.
    const all =
      methods.length > 0 && mount?.price === undefined && plugins.includes('cors') ? [...methods, 'OPTIONS'] : methods
    const method = all.length === 0 ? '' : `method: ${all.length === 1 ? all[0] : `[ ${all.join(', ')} ]`}, `
    const sold = mount?.price === undefined ? '' : `price: ${mount.price}, description: ${JSON.stringify(summary)}, `
    return `  - { match: { ${method}path: ${path} }, ${sold}chain: ${mount?.chain}, upstream: { internal: api } }`
  })
}
