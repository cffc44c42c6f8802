import { isMap, isSeq, parseDocument, Scalar, type Document, type YAMLMap, type YAMLSeq } from 'yaml'
import type { ChainsFile } from './load.ts'
import { routeName } from './presets.ts'
import type { GatewayConfig, RouteConfig } from './schema.ts'

const WIDTH = 200

/**
 * Adds the chains and routes of `use` to a configuration file, with `use: []`: it loads to the same routes. Comments,
 * variables and the order of what the file says itself stay.
 * @param text the file that `config` was loaded from
 */
export function spelledOut(text: string, config: GatewayConfig, builtIn: ChainsFile): string {
  const document = parseDocument(text)
  if (!isMap(document.contents)) throw new TypeError('the file that was loaded is a mapping')
  document.set('use', document.createNode([], { flow: true }))
  const chains = partOf(document, 'chains', isMap, {})
  const routes = partOf(document, 'routes', isSeq, [])
  const named = new Set(config.routes.map(({ chain }) => chain))
  const own = parseDocument(builtIn.text).get('chains')
  for (const pair of isMap(own) ? own.items : [])
    if (pair.key instanceof Scalar && named.has(String(pair.key.value)) && !chains.has(pair.key.value))
      chains.items.push(pair)
  for (const use of config.use) {
    for (const [index, route] of config.routes.filter(({ at }) => at.file === use).entries()) {
      const node = document.createNode(written(route), { flow: true })
      if (index === 0) node.commentBefore = ` From use: ${use}.`
      routes.items.push(node)
    }
  }
  if (chains.items.length === 0) document.delete('chains')
  return document.toString({ lineWidth: WIDTH })
}

function partOf<T extends YAMLMap | YAMLSeq>(
  document: Document,
  name: string,
  is: (node: unknown) => node is T,
  empty: object
): T {
  const there = document.get(name, true)
  if (is(there) && there.items.length > 0) {
    there.flow = false
    return there
  }
  const made = document.createNode(empty, { flow: false })
  document.set(name, made)
  if (!is(made)) throw new TypeError(`${name} is of another kind`)
  return made
}

function written({ name, match, price, description, chain, upstream }: RouteConfig): object {
  const one = (list: readonly string[]): string | readonly string[] => (list.length === 1 ? (list[0] ?? '') : list)
  return {
    ...(name === routeName(match) ? {} : { name }),
    match: { ...(match.method === undefined ? {} : { method: one(match.method) }), path: one(match.path) },
    ...(price === undefined ? {} : { price }),
    ...(description === undefined ? {} : { description }),
    chain,
    upstream:
      upstream.kind === 'proxy'
        ? { proxy: `:${upstream.param}` }
        : { internal: upstream.kind === 'internal' ? upstream.name : '' }
  }
}
