import type { MeterConfig } from '../../engine/checks/meter.ts'
import type { Context } from '../../engine/message/context.ts'
import type { Reply } from '../../engine/message/reply.ts'
import { FieldChoice } from '../prices/table.ts'
import { Tariff } from '../usage/tariff.ts'
import type { Maybe } from '../../platform/state/state.ts'

/** When a model was made is not known; clients of both APIs require a date. */
const UNKNOWN = { created: 0, created_at: '1970-01-01T00:00:00Z' }

/** The models of a metered route that refuses all others. */
export class SoldModels {
  readonly #choice: FieldChoice<unknown>
  readonly #list: string

  private constructor({ usage, per, catalog }: MeterConfig, table: ConstructorParameters<typeof FieldChoice>[0]) {
    this.#choice = new FieldChoice(table, usage)
    const markup = catalog?.markup.slice(0, -1)
    // Its entries come from the same meter.
    const entries = Object.entries(table.of as Readonly<Record<string, ConstructorParameters<typeof Tariff>[0]>>)
    const models = entries.map(([id, prices]) => ({
      id,
      pricing: { per, ...new Tariff(prices, per, markup).words }
    }))
    this.#list = JSON.stringify(
      usage === 'gemini'
        ? { models: models.map(({ id, pricing }) => ({ name: `models/${id}`, displayName: id, pricing })) }
        : {
            object: 'list',
            data: models.map(({ id, pricing }) => ({
              id,
              object: 'model',
              type: 'model',
              display_name: id,
              owned_by: 'boltgate',
              ...UNKNOWN,
              pricing
            })),
            has_more: false,
            first_id: models[0]?.id ?? null,
            last_id: models.at(-1)?.id ?? null
          }
    )
  }

  /** Null if the route sells any model, or has one price for all. */
  static of(meter: MeterConfig | undefined): SoldModels | null {
    if (meter === undefined) return null
    const { prices } = meter
    return typeof prices === 'object' && 'by' in prices && prices.else === 'refuse'
      ? new SoldModels(meter, prices)
      : null
  }

  /** The list with prices, which is free, for `GET …/models`; null for other requests. */
  list({ method, path }: Context): Reply | null {
    if (method !== 'GET' || !path.endsWith('/models')) return null
    return { status: 200, headers: ['Content-Type', 'application/json; charset=utf-8'], body: this.#list }
  }

  /**
   * Refuses an unpaid request for another model, before its client pays.
   * @throws LongError, see `FieldChoice.choose`
   */
  requireKnown(ctx: Context): Maybe<void> {
    return this.#choice.requireKnown(ctx)
  }
}
