import {
  geminiMembers,
  isByField,
  outputLimits,
  pricesByModel,
  type MeterConfig,
  type UnitPart,
  type UnitPrices
} from '../../engine/checks/meter.ts'
import type { FieldTable } from '../../engine/checks/price.ts'
import type { Context } from '../../engine/message/context.ts'
import { queryParameter } from '../../engine/message/request-values.ts'
import type { FiatCurrency, Quotes } from '../../lightning/money/prices.ts'
import { readField, readItems, requireMissing, unreadable } from '../prices/request-field.ts'
import { FieldChoice, type Chosen } from '../prices/table.ts'
import type { Maybe } from '../../platform/state/state.ts'
import { apiForm, memberForm, type UsageForm } from '../usage/forms.ts'
import type { Usage } from '../usage/usage.ts'
import { Tariff, type Rates } from '../usage/tariff.ts'
import { providerTools, requireListedTier } from './surcharges.ts'

/** Amounts in millisatoshis. */
export interface Metering {
  /**
   * Value that selects the price; null if prices do not depend on one, or it is not listed. A fallback's model in any
   * case.
   */
  readonly model: string | null
  /** See `Use`. */
  readonly markup: number | null
  /** Highest cost of the estimate: of the most expensive allowed model, then of the model that served. */
  readonly reservedMsat: number
  readonly input: number
  /** Rounded up. */
  cost(usage: Usage): number
  /** Has the price of a fallback's model; undefined for the request's own. */
  serve?(model: string | undefined): void
}

const NO_RATES: Rates = new Map()
/** Bytes per estimated input unit: a token has three or more of text, a token id two. */
const BYTES_PER_UNIT = 3
const BYTES_PER_ID = 2
const MOST_UNITS = 1e12

/** How the usage of a request is known. */
export interface MeteredReading {
  readonly usage: MeterConfig['usage']
  /** How to read it from a body; null if it is elsewhere or counted. */
  readonly form: UsageForm | null
  /** The upstream reports usage, so that it is unknown while the request is served. */
  readonly isReported: boolean
}

export class Meter implements MeteredReading {
  readonly config: MeterConfig
  readonly usage: MeterConfig['usage']
  readonly form: UsageForm | null
  readonly isReported: boolean
  readonly #quotes: Quotes
  readonly #tariffs: FieldChoice<Tariff> | null
  readonly #fixed: Tariff | null
  readonly #currencies: readonly FiatCurrency[]
  readonly #hasInput: boolean
  /** Searches and other tools of the provider have to be looked for. */
  readonly #hasFees: boolean
  readonly #markup: number | null
  /** The tariffs of fallbacks by their models. */
  readonly #fallbacks: ReadonlyMap<string, Chosen<Tariff>>
  /** For every request alike; null if it depends on one. */
  readonly #always: Metering | null

  constructor(config: MeterConfig, quotes: Quotes) {
    const { prices, usage, per } = config
    this.config = config
    this.usage = usage
    this.#quotes = quotes
    this.#tariffs = isByField(prices) ? tariffsOf(prices, config) : null
    this.#fixed = isByField(prices) ? null : new Tariff(prices, per)
    const all = this.#tariffs?.entries.map(({ entry }) => entry) ?? (this.#fixed === null ? [] : [this.#fixed])
    this.form = formOf(usage, new Set(all.flatMap(({ parts }) => parts)))
    this.isReported = this.form !== null || (typeof usage === 'object' && 'header' in usage)
    this.#currencies = [...new Set(all.flatMap(({ currencies }) => currencies))]
    this.#markup = config.catalog === undefined ? null : 1 + Number(config.catalog.markup.slice(0, -1)) / 100
    this.#hasInput = all.some(({ hasInput }) => hasInput)
    this.#hasFees = config.catalog !== undefined || all.some(({ parts }) => parts.includes('search'))
    const tariffs = pricesByModel(prices) ? this.#tariffs : null
    this.#fallbacks = new Map(
      tariffs === null ? [] : (config.fallbackModels ?? []).map(model => [model, tariffs.of(model)])
    )
    this.#always =
      config.fallbackModels === undefined &&
      this.#fixed !== null &&
      this.#currencies.length === 0 &&
      (usage === 'requests' || usage === 'pieces')
        ? this.#metering(null, this.#fixed, NO_RATES, { input: 0, output: 1 })
        : null
  }

  /**
   * Reads what the price and reservation depend on: synchronous unless it waits for the body or a rate.
   * @throws LongError 400 with the unreadable field, 413, 415; Unavailable without a rate
   */
  begin(ctx: Context): Maybe<Metering> {
    return this.#always ?? this.#begin(ctx)
  }

  async #begin(ctx: Context): Promise<Metering> {
    const chosen = this.#tariffs === null ? null : await this.#tariffs.choose(ctx)
    const tariff = chosen?.entry ?? this.#fixed
    if (tariff === null) throw new TypeError('a meter has prices')
    const models = ctx.payment?.limits?.models
    let estimate = await this.#estimate(ctx)
    if (this.#hasFees)
      estimate = { ...estimate, search: await this.#searches(ctx, [tariff, ...this.#fallbacksOf(models)]) }
    return this.#metering(chosen?.value ?? null, tariff, await this.#rates(), estimate, models)
  }

  /** `models`: those that a narrowed key allows, which no other serves. */
  #metering(
    model: string | null,
    tariff: Tariff,
    rates: Rates,
    estimate: Usage,
    models?: readonly string[] | null
  ): Metering {
    const most = (tariffs: readonly Tariff[]): number => Math.max(1, ...tariffs.map(each => each.most(estimate, rates)))
    const reservedMsat = most([tariff, ...this.#fallbacksOf(models)])
    let serving = tariff
    const cost = (usage: Usage): number => {
      const asOutput = serving.cost(usage, rates)
      if (usage.isTotal !== true) return asOutput
      const asInput = serving.cost({ input: usage.output, output: 0 }, rates)
      return Math.min(metering.reservedMsat, Math.max(asInput, asOutput))
    }
    // A model that the table does not list has no price of the catalog.
    const markup = model === null ? null : this.#markup
    const metering = { model, markup, reservedMsat, input: estimate.input, cost }
    if (this.config.fallbackModels === undefined) return metering
    const serve = (other: string | undefined): void => {
      const fallback = other === undefined ? undefined : this.#fallbacks.get(other)
      serving = fallback?.entry ?? tariff
      metering.reservedMsat = most([serving])
      metering.model = other ?? model
      metering.markup = fallback === undefined ? markup : fallback.value === null ? null : this.#markup
    }
    return Object.assign(metering, { serve })
  }

  #fallbacksOf(models: readonly string[] | null | undefined): Tariff[] {
    return [...this.#fallbacks].flatMap(([name, { entry }]) => (models?.includes(name) === false ? [] : [entry]))
  }

  /**
   * Web searches to reserve. With the prices of a list, refuses tools that it has no price for.
   * @throws LongError 400
   */
  async #searches(ctx: Context, tariffs: readonly Tariff[]): Promise<number> {
    const isListed = this.config.catalog !== undefined
    const { searches, charged } = await providerTools(ctx, this.usage === 'gemini')
    const isPriced = tariffs.every(({ parts }) => parts.includes('search'))
    if (isListed && (charged !== null || (searches > 0 && !isPriced)))
      throw unreadable(`the provider charges for ${charged ?? 'web searches'} beside tokens, at no listed price`)
    return isPriced ? searches : 0
  }

  async #estimate(ctx: Context): Promise<Usage> {
    const { usage, estimate } = this.config
    if (usage === 'requests' || usage === 'pieces') return { input: 0, output: 1 }
    if (usage === 'gemini') requireGeneration(ctx)
    if (typeof usage === 'string' && this.form !== null) {
      requireReport(ctx)
      await requireMissing(BATCHES, ctx)
    }
    if (this.config.catalog !== undefined) await requireListedTier(ctx)
    const lists = await this.#lists(ctx)
    const { limits, others } = outputLimits(this.config, lists.hasInput)
    // The largest, since the upstream may follow any of them.
    const limit = await largestOf(ctx, limits)
    let output = Math.max(limit ?? estimate.else, (await largestOf(ctx, others)) ?? 0)
    // Without a limit, lists of inputs are for embeddings, which have no output.
    output *= lists.prompts * (limit === null ? 1 : lists.inputs)
    if (lists.hasPrediction) output += Math.ceil((ctx.body.collected?.byteLength ?? 0) / BYTES_PER_UNIT)
    output *= (await largestOf(ctx, COPIES[String(usage)] ?? [])) ?? 1
    if (!this.#hasInput) return { input: 0, output }
    if (estimate.input !== undefined) return { input: estimate.input, output }
    const bytes = ctx.body.collected?.byteLength ?? ctx.body.length ?? (await ctx.body.bytes()).byteLength
    return { input: Math.ceil(bytes / (lists.hasIds ? BYTES_PER_ID : BYTES_PER_UNIT)), output }
  }

  async #lists(ctx: Context): Promise<Lists> {
    if (this.usage !== 'openai') return NO_LISTS
    for (const name of ['stream', 'stream_options.include_usage']) await requireFlag(ctx, name)
    const prompt = await readItems('prompt', ctx)
    const input = await readItems('input', ctx)
    // vLLM also takes prompts as embeddings, beside `prompt`.
    const embeds = await readItems('prompt_embeds', ctx)
    // A list of texts or of token id lists has one response each; a list of token ids or messages has one. Objects in
    // `prompt` are llama.cpp's, which also has its own name for `n`.
    return {
      prompts: Math.max(1, (prompt?.inputs ?? 0) + (prompt?.objects ?? 0)) + (embeds?.inputs ?? 0),
      inputs: Math.max(1, input?.inputs ?? 0),
      hasInput: input !== null,
      hasIds: prompt?.hasIds === true || input?.hasIds === true,
      hasPrediction: (await readItems('prediction', ctx)) !== null
    }
  }

  async #rates(): Promise<Rates> {
    if (this.#currencies.length === 0) return NO_RATES
    return new Map(
      await Promise.all(
        this.#currencies.map(async currency => [currency, (await this.#quotes.quote(currency)).price] as const)
      )
    )
  }
}

/** Members that multiply the output. */
const COPIES: Readonly<Record<string, readonly string[]>> = {
  openai: ['n', 'best_of', 'n_cmpl'],
  gemini: geminiMembers('candidateCount')
}

function formOf(usage: MeterConfig['usage'], parts: ReadonlySet<UnitPart>): UsageForm | null {
  if (usage === 'openai' || usage === 'anthropic' || usage === 'gemini') return apiForm(usage, parts)
  return typeof usage === 'object' && 'json' in usage ? memberForm(usage.json.split('.')) : null
}

function tariffsOf(
  { by, of, else: rest }: FieldTable<UnitPrices>,
  { usage, per, catalog }: MeterConfig
): FieldChoice<Tariff> {
  const markup = catalog?.markup.slice(0, -1)
  const table: FieldTable<Tariff> = {
    by,
    of: Object.fromEntries(Object.entries(of).map(([value, prices]) => [value, new Tariff(prices, per, markup)])),
    else: rest === 'refuse' ? 'refuse' : new Tariff(rest, per)
  }
  return new FieldChoice(table, usage)
}

interface Lists {
  readonly prompts: number
  readonly inputs: number
  readonly hasInput: boolean
  /** Token ids instead of text. */
  readonly hasIds: boolean
  /** OpenAI's predicted output: what the model rejects of it counts as output, beyond the limit. */
  readonly hasPrediction: boolean
}

const NO_LISTS: Lists = { prompts: 1, inputs: 1, hasInput: false, hasIds: false, hasPrediction: false }

/** Largest of the body's limits; null without any. */
async function largestOf(ctx: Context, names: readonly string[]): Promise<number | null> {
  let most: number | null = null
  for (const name of names) {
    const count = await countOf(ctx, name)
    if (count !== null) most = Math.max(count, most ?? 0)
  }
  return most
}

/** Requires a boolean: a server that takes 1 for true would stream without usage. */
async function requireFlag(ctx: Context, name: string): Promise<void> {
  const value = await readField({ json: name }, ctx)
  if (value !== null && typeof value !== 'boolean') throw unreadable(`${JSON.stringify(name)} must be true or false`)
}

/** Members of requests for work that is done later: their responses report no usage. */
const BATCHES = ['input_file_id', 'requests', 'training_file']

const FORMATS = /^(?:json|sse)?$/
/** Google's parameters for a part of a response or another format, with the values that leave it whole. */
const HIDING_USAGE = [
  ['alt', FORMATS],
  ['$alt', FORMATS],
  ...['callback', '$callback', 'fields', '$fields'].map(name => [name, /^$/] as const)
] as const

/** Batches and the like report no usage, and cost more than their reservation. */
function requireGeneration({ path }: Context): void {
  if (!/:(?:generateContent|streamGenerateContent)$/.test(path))
    throw unreadable('the path must end with :generateContent or :streamGenerateContent')
}

/** Google serves the forms of other APIs too. */
function requireReport({ query, headers }: Context): void {
  const hides = (name: string) => unreadable(`${JSON.stringify(name)} hides how many tokens were used`)
  if (headers.has('x-goog-fieldmask')) throw hides('x-goog-fieldmask')
  if (query === '') return
  for (const [name, plain] of HIDING_USAGE) {
    const read = queryParameter(query, name)
    if (read.kind === 'fault') throw unreadable(read.message)
    if (read.kind === 'value' && !plain.test(read.value)) throw hides(name)
  }
}

/** A limit in the body; null if missing, 0 or -1, which mean unlimited. */
async function countOf(ctx: Context, name: string): Promise<number | null> {
  const value = await readField({ json: name }, ctx)
  if (value === null || value === 0 || value === -1) return null
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0 && value <= MOST_UNITS) return value
  throw unreadable(`${JSON.stringify(name)} must be a whole number of at most ${MOST_UNITS}`)
}
