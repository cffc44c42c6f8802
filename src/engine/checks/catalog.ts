import { isObject, jsonOrUndefined } from '../../platform/system/json.ts'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { didYouMean, nearest, quote, type Findings, type Path } from '../config/diagnose.ts'
import type { MeterConfig, PartPrices, UnitAmount, UnitPrices } from './meter.ts'

/** Settings of `prices: { catalog }`. */
export interface CatalogConfig {
  readonly catalog: string
  readonly markup: string
  readonly provider?: string
  readonly models?: readonly string[]
  readonly else: UnitPrices | 'refuse'
}

/** Fields of LiteLLM's price list, in dollars for a token, by our names. */
const FIELDS = {
  input: 'input_cost_per_token',
  output: 'output_cost_per_token',
  cached: 'cache_read_input_token_cost',
  cacheWrite: 'cache_creation_input_token_cost',
  cacheWrite1h: 'cache_creation_input_token_cost_above_1hr',
  reasoning: 'output_cost_per_reasoning_token',
  audio: 'input_cost_per_audio_token',
  audioOutput: 'output_cost_per_audio_token'
} as const
/** Models that search for each request, for a fee beside their tokens. */
const SEARCHING = /(?:^|[-/])(?:perplexity|sonar|search)(?:[-/]|$)/
const MODES: readonly unknown[] = [undefined, 'chat', 'completion', 'responses', 'embedding']

type Entry = Readonly<Record<string, unknown>>

/** Prices of the models that a catalog sells, by their names in requests; null for text that is no price list. */
export function catalogPrices(
  text: string,
  { provider, models }: Pick<CatalogConfig, 'provider' | 'models'>
): Map<string, PartPrices> | null {
  const list = jsonOrUndefined(text)
  if (!isObject(list)) return null
  const prices = new Map<string, PartPrices>()
  for (const [key, entry] of Object.entries(list)) {
    // Explains the fields, with prices of 0.
    if (key === 'sample_spec' || !isObject(entry)) continue
    if (provider !== undefined && entry['litellm_provider'] !== provider) continue
    const name = provider !== undefined && key.startsWith(`${provider}/`) ? key.slice(provider.length + 1) : key
    if (name === '' || (models !== undefined && !models.includes(name))) continue
    const read = MODES.includes(entry['mode']) && !SEARCHING.test(key) ? pricesOf(key, entry) : null
    if (read !== null) prices.set(name, read)
  }
  return prices
}

/** The prices of a meter with its catalog read. Undefined, with a problem reported, if it cannot be used. */
export function readCatalog(
  prices: CatalogConfig,
  { usage, per }: Pick<MeterConfig, 'usage' | 'per'>,
  folder: string,
  path: Path,
  findings: Findings
): Pick<MeterConfig, 'prices' | 'catalog'> | undefined {
  const report = (code: 'BG_CONFIG_FILE' | 'BG_CONFIG_VALUE' | 'BG_CONFIG_CONFLICT', at: Path, message: string) => {
    findings.report(code, [...path, ...at], message)
    return undefined
  }
  if (per !== 1)
    return report(
      'BG_CONFIG_CONFLICT',
      ['per'],
      'found per beside a catalog, whose prices are those of a token; delete per'
    )
  const file = resolve(folder, prices.catalog)
  const at = ['prices', 'catalog']
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    return report(
      'BG_CONFIG_FILE',
      at,
      `the file ${quote(prices.catalog)} cannot be read (${code}); \`boltgate prices update ${prices.catalog}\` downloads one`
    )
  }
  const { models, ...any } = prices
  const all = catalogPrices(text, any)
  if (all === null || all.size === 0)
    return report(
      'BG_CONFIG_VALUE',
      at,
      `found no model with prices${prices.provider === undefined ? '' : ` of the provider ${quote(prices.provider)}`} in ${quote(prices.catalog)}; allowed: a JSON object in LiteLLM's format`
    )
  const missing = models?.find(name => !all.has(name))
  if (missing !== undefined)
    return report(
      'BG_CONFIG_VALUE',
      ['prices', 'models'],
      `found the model ${quote(missing)}, for which ${quote(prices.catalog)} has no prices${didYouMean(nearest(missing, [...all.keys()]))}`
    )
  return {
    catalog: { ...prices, catalog: file },
    prices: {
      by: usage === 'gemini' ? { path: 'model' } : { json: 'model' },
      of: Object.fromEntries(models === undefined ? all : [...all].filter(([name]) => models.includes(name))),
      else: prices.else
    }
  }
}

/** A fee by the size of what is read; that of Claude, which alone reports its searches, has one size. */
function searchPrice(key: string, { search_context_cost_per_query: sizes }: Entry): Pick<PartPrices, 'search'> {
  const fee = key.includes('claude') && isObject(sizes) ? amountOf(sizes['search_context_size_medium']) : undefined
  return fee === undefined ? {} : { search: fee }
}

/** Null without prices of input and output. A price of 0 for both was never entered. */
function pricesOf(key: string, entry: Entry): PartPrices | null {
  const fees = searchPrice(key, entry)
  const base = tierOf(entry, '', fees)
  if (base === null || (base.input === 0 && base.output === 0)) return null
  const tiers = [...new Set(Object.keys(entry).flatMap(name => /_above_([0-9]{1,5})k_tokens$/.exec(name)?.[1] ?? []))]
  let above: PartPrices['above']
  for (const thousands of tiers.map(Number).toSorted((a, b) => b - a)) {
    const prices = tierOf(entry, `_above_${thousands}k_tokens`, fees)
    if (prices !== null)
      above = { units: thousands * 1000, prices: above === undefined ? prices : { ...prices, above } }
  }
  return above === undefined ? base : { ...base, above }
}

function tierOf(entry: Entry, suffix: string, fees: Pick<PartPrices, 'search'>): PartPrices | null {
  const amount = (name: string): UnitAmount | undefined => amountOf(entry[name + suffix] ?? entry[name])
  const { input: inputField, output: outputField, ...parts } = FIELDS
  const input = amount(inputField)
  const output = amount(outputField) ?? (entry['mode'] === 'embedding' ? 0 : undefined)
  if (input === undefined || output === undefined) return null
  const given = Object.entries(parts).flatMap(([name, field]) => {
    const value = amount(field)
    return value === undefined ? [] : [[name, value] as const]
  })
  // Audio that comes out has the price of output unless the list has another.
  return { input, output, audioOutput: output, ...Object.fromEntries(given), ...fees }
}

function amountOf(value: unknown): UnitAmount | undefined {
  if (typeof value !== 'number' || !(value >= 0 && value <= 1)) return undefined
  return value === 0 ? 0 : `USD ${value}`
}
