import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { catalogPrices, type CatalogConfig } from '../../engine/checks/catalog.ts'
import type { PartPrices, UnitAmount } from '../../engine/checks/meter.ts'
import { CodedError } from '../../platform/system/errors.ts'
import { loadNamed } from '../cli/configuration.ts'
import { CONFIG_FLAG } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { NOT_REACHED, OTHER_RESPONSE } from '../cli/output.ts'

const LIST = 'https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json'
const TIMEOUT = 60_000
/** Larger changes have to be confirmed. */
const FACTOR = 2
const SHOWN = 40

export const prices = defineCommand(
  {
    about: 'Downloads a price list of models',
    takes: 'update FILE',
    words: ['update'],
    details: `Writes LiteLLM's public list to FILE, for \`prices: { catalog: FILE }\`, and shows what changes for the models that
routes sell. Refuses a list in which one of them is missing, or has a price that changed more than twofold. A running
gateway reads the file when it changes.`,
    flags: {
      '--from <url>': 'Address of another list in the same format',
      '--confirm': 'Accept missing models and large changes',
      ...CONFIG_FLAG
    },
    examples: ['boltgate prices update models.json']
  },
  async (values, words, out) => {
    const [, name = ''] = words
    const { from = LIST } = values
    const file = resolve(name)
    const before = existsSync(file) ? readFileSync(file, 'utf8') : null
    const text = await download(from)
    const all = catalogPrices(text, {})
    if (all === null || all.size === 0)
      throw new CodedError(OTHER_RESPONSE, `${from} has no prices of models in LiteLLM's format; ${name} is unchanged.`)
    const changes = before === null ? [] : await changesOf(before, text, file, values.config)
    for (const { line } of changes.slice(0, SHOWN)) out.print(line)
    if (changes.length > SHOWN) out.print(`… and ${changes.length - SHOWN} more changes`)
    const doubtful = changes.filter(({ isDoubtful }) => isDoubtful)
    if (doubtful.length > 0 && !values.confirm) {
      out.complain(`${name} is unchanged: confirm with --confirm what is missing or changed more than twofold:`)
      for (const { line } of doubtful.slice(0, SHOWN)) out.complain(`  ${line}`)
      return 1
    }
    const unfinished = `${file}.${process.pid}.tmp`
    writeFileSync(unfinished, text, { flush: true })
    renameSync(unfinished, file)
    out.print(`Wrote ${name}: prices of ${all.size} models, ${changes.length} of them changed for what you sell.`)
    return 0
  }
)

async function download(url: string): Promise<string> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT) })
    if (!response.ok) throw new Error(`status ${response.status}`)
    return await response.text()
  } catch (error) {
    throw new CodedError(
      NOT_REACHED,
      `${url} cannot be downloaded (${error instanceof Error ? error.message : String(error)}).`
    )
  }
}

interface Change {
  readonly line: string
  readonly isDoubtful: boolean
}

/** Changes of what routes of the configuration sell by this file; without such routes, of all models. */
async function changesOf(before: string, after: string, file: string, config: string | undefined): Promise<Change[]> {
  const uses = config === undefined && !existsSync('gateway.yaml') ? [] : await usesOf(file, config)
  const found = new Map<string, Change>()
  for (const use of uses.length === 0 ? [{}] : uses) {
    const now = catalogPrices(after, use)
    for (const [model, old] of catalogPrices(before, use) ?? [])
      for (const change of changesOfModel(model, old, now?.get(model))) found.set(change.line, change)
  }
  return [...found.values()]
}

async function usesOf(file: string, config: string | undefined): Promise<CatalogConfig[]> {
  const { config: loaded } = await loadNamed(config)
  return loaded.routes.flatMap(({ meter }) => (meter?.catalog?.catalog === file ? [meter.catalog] : []))
}

function changesOfModel(model: string, old: PartPrices, now: PartPrices | undefined): Change[] {
  if (now === undefined) return [{ line: `${model}: no longer listed`, isDoubtful: true }]
  const [was, is] = [amountsOf(old), amountsOf(now)]
  return [...new Set([...was.keys(), ...is.keys()])].flatMap(name => {
    const [from, to] = [was.get(name) ?? null, is.get(name) ?? null]
    if (from === to) return []
    const isLarge = from === null || to === null ? false : Math.max(from, to) > FACTOR * Math.min(from, to)
    const shown = name.endsWith('search') ? perThousand : perMillion
    return [{ line: `${model}: ${name} ${shown(from)} → ${shown(to)}`, isDoubtful: isLarge }]
  })
}

function amountsOf({ above, ...amounts }: PartPrices, prefix = ''): Map<string, number> {
  const own = Object.entries(amounts).map(([name, amount]) => [prefix + name, dollarsOf(amount)] as const)
  return new Map([...own, ...(above === undefined ? [] : amountsOf(above.prices, `${prefix}above ${above.units} `))])
}

function dollarsOf(amount: UnitAmount): number {
  return typeof amount === 'number' ? amount : Number(amount.slice(4))
}

function perMillion(dollars: number | null, units = 1e6): string {
  return dollars === null ? 'none' : `$${Number((dollars * units).toPrecision(12))}`
}

/** As providers list the fees of searches. */
function perThousand(dollars: number | null): string {
  return perMillion(dollars, 1000)
}
