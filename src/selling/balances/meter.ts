import {
  outputLimits,
  type MeterConfig,
  type UnitAmount,
  type UnitPrices,
  type UsageConfig
} from '../../engine/checks/meter.ts'
import type { FieldTable } from '../../engine/checks/price.ts'
import type { Context } from '../../engine/message/context.ts'
import type { FiatCurrency } from '../../lightning/money/currencies.ts'
import type { Decimal } from '../../lightning/money/decimal.ts'
import type { Quotes } from '../../lightning/money/prices.ts'
import { fiatMillisatoshis, fiatOf } from '../prices/fiat.ts'
import { readField, readItems, unreadable } from '../prices/request-field.ts'
import { FieldChoice } from '../prices/table.ts'
import type { Maybe } from '../../platform/state/state.ts'
import { ANTHROPIC, memberForm, OPENAI, type UsageForm } from '../usage/forms.ts'
import type { Usage } from '../usage/usage.ts'

/** Amounts in millisatoshis. */
export interface Metering {
  /** Value that selects the price; null if prices do not depend on one, or it is not listed. */
  readonly model: string | null
  readonly reservedMsat: number
  /** Estimated input units. */
  readonly input: number
  /** Rounded up. */
  cost(usage: Usage): number
}

type Rates = ReadonlyMap<FiatCurrency, Decimal>

const NO_RATES: Rates = new Map()
/** Bytes per estimated input unit: a token has three or more of text, a token id two. */
const BYTES_PER_UNIT = 3
const BYTES_PER_ID = 2
const MOST_UNITS = 1e12
/** Maximum reservation; no balance holds more. */
const MOST_MSAT = 2 ** 52

export class Meter {
  readonly config: MeterConfig
  /** How to read usage from a body; null if it is elsewhere or counted. */
  readonly form: UsageForm | null
  readonly #quotes: Quotes
  readonly #prices: FieldChoice<UnitPrices> | null
  readonly #fixed: UnitPrices | null
  readonly #currencies: readonly FiatCurrency[]
  readonly #hasInput: boolean
  /** For every request alike; null if it depends on one. */
  readonly #always: Metering | null

  constructor(config: MeterConfig, quotes: Quotes) {
    this.config = config
    this.form = formOf(config.usage)
    this.#quotes = quotes
    const table = isTable(config.prices) ? config.prices : null
    this.#prices = table === null ? null : new FieldChoice(table)
    this.#fixed = isTable(config.prices) ? null : config.prices
    const all = this.#prices?.entries.map(({ entry }) => entry) ?? (this.#fixed === null ? [] : [this.#fixed])
    const amounts = all.flatMap(prices => [inputPrice(prices), outputPrice(prices)])
    this.#currencies = [
      ...new Set(amounts.flatMap(amount => (typeof amount === 'string' ? [fiatOf(amount).currency] : [])))
    ]
    this.#hasInput = all.some(prices => inputPrice(prices) !== 0)
    const isSteady = this.#fixed !== null && this.#currencies.length === 0
    this.#always =
      isSteady && config.usage === 'requests'
        ? this.#metering(null, this.#fixed as UnitPrices /* just seen */, NO_RATES, { input: 0, output: 1 })
        : null
  }

  /** The upstream reports usage, so that it is unknown while the request is served. */
  get isReported(): boolean {
    const { usage } = this.config
    return this.form !== null || (typeof usage === 'object' && 'header' in usage)
  }

  /**
   * Reads what the price and reservation depend on: synchronous unless it waits for the body or a rate.
   * @throws LongError 400 with the unreadable field, 413, 415; Unavailable without a rate
   */
  begin(ctx: Context): Maybe<Metering> {
    return this.#always ?? this.#begin(ctx)
  }

  async #begin(ctx: Context): Promise<Metering> {
    const chosen = this.#prices === null ? null : await this.#prices.choose(ctx)
    const prices = chosen?.entry ?? this.#fixed
    if (prices === null) throw new TypeError('a meter has prices')
    const estimate = await this.#estimate(ctx)
    return this.#metering(chosen?.value ?? null, prices, await this.#rates(), estimate)
  }

  #metering(model: string | null, prices: UnitPrices, rates: Rates, estimate: Usage): Metering {
    const { per } = this.config
    const reservedMsat = Math.max(1, costOf(prices, estimate, per, rates))
    const cost = (usage: Usage): number => {
      const asOutput = costOf(prices, usage, per, rates)
      if (usage.isTotal !== true) return asOutput
      const asInput = costOf(prices, { input: usage.output, output: 0 }, per, rates)
      return Math.min(reservedMsat, Math.max(asInput, asOutput))
    }
    return { model, reservedMsat, input: estimate.input, cost }
  }

  async #estimate(ctx: Context): Promise<Usage> {
    const { usage, estimate } = this.config
    if (usage === 'requests') return { input: 0, output: 1 }
    const lists = await this.#lists(ctx)
    const { limits, others } = outputLimits(this.config, lists.hasInput)
    // The largest, since the upstream may follow any of them.
    const limit = await largestOf(ctx, limits)
    let output = Math.max(limit ?? estimate.else, (await largestOf(ctx, others)) ?? 0)
    // Without a limit, lists of inputs are for embeddings, which have no output.
    output *= lists.prompts * (limit === null ? 1 : lists.inputs)
    if (usage === 'openai') output *= (await largestOf(ctx, ['n', 'best_of', 'n_cmpl'])) ?? 1
    if (!this.#hasInput) return { input: 0, output }
    if (estimate.input !== undefined) return { input: estimate.input, output }
    const bytes = ctx.body.collected?.byteLength ?? ctx.body.length ?? (await ctx.body.bytes()).byteLength
    return { input: Math.ceil(bytes / (lists.hasIds ? BYTES_PER_ID : BYTES_PER_UNIT)), output }
  }

  async #lists(ctx: Context): Promise<Lists> {
    if (this.config.usage !== 'openai') return NO_LISTS
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
      hasIds: prompt?.hasIds === true || input?.hasIds === true
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

function formOf(usage: UsageConfig): UsageForm | null {
  if (usage === 'openai') return OPENAI
  if (usage === 'anthropic') return ANTHROPIC
  return typeof usage === 'object' && 'json' in usage ? memberForm(usage.json.split('.')) : null
}

function isTable(prices: MeterConfig['prices']): prices is FieldTable<UnitPrices> {
  return typeof prices === 'object' && 'by' in prices
}

function inputPrice(prices: UnitPrices): UnitAmount {
  return typeof prices === 'object' ? prices.input : 0
}

function outputPrice(prices: UnitPrices): UnitAmount {
  return typeof prices === 'object' ? prices.output : prices
}

interface Lists {
  readonly prompts: number
  readonly inputs: number
  readonly hasInput: boolean
  /** Token ids instead of text. */
  readonly hasIds: boolean
}

const NO_LISTS: Lists = { prompts: 1, inputs: 1, hasInput: false, hasIds: false }

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

/** A limit in the body; null if missing, 0 or -1, which mean unlimited. */
async function countOf(ctx: Context, name: string): Promise<number | null> {
  const value = await readField({ json: name }, ctx)
  if (value === null || value === 0 || value === -1) return null
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0 && value <= MOST_UNITS) return value
  throw unreadable(`${JSON.stringify(name)} must be a whole number of at most ${MOST_UNITS}`)
}

function costOf(prices: UnitPrices, { input, output }: Usage, per: number, rates: Rates): number {
  const [i, o] = [inputPrice(prices), outputPrice(prices)]
  if (typeof i === 'number' && typeof o === 'number') {
    const whole = input * i + output * o
    if (Number.isSafeInteger(whole)) return Math.ceil(whole / per)
  }
  const sum = partOf(i, BigInt(input), rates) + partOf(o, BigInt(output), rates)
  const cost = (sum + BigInt(per) - 1n) / BigInt(per)
  return cost > BigInt(MOST_MSAT) ? MOST_MSAT : Number(cost)
}

function partOf(amount: UnitAmount, count: bigint, rates: Rates): bigint {
  if (typeof amount === 'number') return BigInt(amount) * count
  const rate = rates.get(fiatOf(amount).currency)
  if (rate === undefined) throw new TypeError(`no rate of ${amount} was asked for`)
  return fiatMillisatoshis(amount, count, rate)
}
