import { readFileSync } from 'node:fs'
import { routeOrigin, routePriceWords, routeUpstreamWords } from '../../engine/checks/route-words.ts'
import type { ChainsFile } from '../../engine/config/load.ts'
import { routeName, valueWords } from '../../engine/config/presets.ts'
import type { GatewayConfig, RouteConfig } from '../../engine/config/schema.ts'
import { CONFIG_FLAG } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { builtInChains, loadNamed } from '../cli/configuration.ts'
import { dryRun } from '../cli/dry-run.ts'
import { isMap, isSeq, parseDocument, Scalar, type Document, type YAMLMap, type YAMLSeq } from 'yaml'

export const routes = defineCommand(
  {
    about: 'Shows what is served, at which price, through which plugins',
    details: 'Lists each route with its source: a line of the file, or a part of the API that `use` names.',
    flags: { '--as-yaml': 'Print the file with the chains and routes of `use` written out', ...CONFIG_FLAG },
    examples: ['boltgate routes', 'boltgate routes --as-yaml > expanded.yaml']
  },
  async (values, _words, out) => {
    const loaded = await loadNamed(values.config)
    const { config } = await dryRun(loaded)
    if (values['as-yaml']) {
      out.print(spelledOut(readFileSync(loaded.file, 'utf8'), config, builtInChains).trimEnd())
      return 0
    }
    const rows = [
      ['METHOD', 'HOST', 'PATH', 'PRICE', 'UPSTREAM', 'FROM', 'CHAIN'],
      ...config.routes.flatMap(route => rowsOf(config, route))
    ]
    const widths = rows[0]?.map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0))) ?? []
    for (const row of rows)
      out.print(
        row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()
      )
    return 0
  }
)

function rowsOf(config: GatewayConfig, route: RouteConfig): string[][] {
  const chain = (config.chains[route.chain] ?? [])
    .filter(entry => !entry.disabled)
    .map(entry => entry.plugin)
    .join(' → ')
  return route.match.path.map(path => [
    route.match.method?.join(',') ?? 'any',
    route.match.host ?? 'any',
    `${path}${valueWords(route.match)}`,
    routePriceWords(config, route) ?? '-',
    routeUpstreamWords(route),
    routeOrigin(config, route),
    `${route.chain}: ${chain}`
  ])
}

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
  const created = document.createNode(empty, { flow: false })
  document.set(name, created)
  if (!is(created)) throw new TypeError(`${name} is of another kind`)
  return created
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
