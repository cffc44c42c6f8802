import { Type, type TUnsafe } from 'typebox'
import { FIAT_PATTERN, readMoney, SATOSHI_PATTERN, satoshisUp, type FiatText } from '../../engine/checks/money-text.ts'
import type { FieldSelector } from '../../engine/checks/price.ts'
import type { Context } from '../../engine/message/context.ts'
import { FieldChoice } from '../../selling/prices/table.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import type { ProxyRow } from './store.ts'
import type { Maybe } from '../../platform/state/state.ts'

export type ProxyPriceText = string | ProxyPriceTable

/** Amounts by a field of the request; `else` is an amount or `refuse`. */
interface ProxyPriceTable {
  readonly by: FieldSelector
  readonly of: Readonly<Record<string, string>>
  readonly else: string
}

const strict = { additionalProperties: false } as const
const money = Type.String({
  maxLength: 40,
  pattern: `^(${SATOSHI_PATTERN}|${FIAT_PATTERN})$`,
  'x-rule': 'Must be an amount such as 10 sats, 1500 msat, $0.002 or 0.01 EUR.'
})
const name = (description: string) => Type.String({ minLength: 1, maxLength: 200, description })

const forms = [
  money,
  Type.Object(
    {
      by: Type.Unsafe<FieldSelector>({
        anyOf: [
          Type.Object({ json: name('A member of the JSON body; a dot leads into an object.') }, strict),
          Type.Object({ header: name('A header.') }, strict),
          Type.Object({ query: name('A parameter of the query.') }, strict)
        ],
        'x-rule': 'Must have exactly one of the members json, header and query, such as { "json": "model" }.'
      }),
      of: Type.Record(Type.String({ pattern: '^.{1,200}$' }), money, {
        ...strict,
        minProperties: 1,
        maxProperties: 100,
        description: 'Amounts by the value of the field, letter for letter.'
      }),
      else: Type.Optional(
        Type.String({
          maxLength: 40,
          pattern: `^(refuse|${SATOSHI_PATTERN}|${FIAT_PATTERN})$`,
          'x-rule': 'Must be refuse, or an amount such as 10 sats or $0.002.',
          description: 'What every other value costs, and a request without the field; refuse, a 400, when left out.'
        })
      )
    },
    { ...strict, title: 'ProxyPriceTableInput' }
  )
]

export const PriceInput: TUnsafe<ProxyPriceText> = Type.Unsafe<ProxyPriceText>({
  anyOf: forms,
  description:
    'An amount such as $0.002 or 1500 msat, or a table of amounts by a field of the request, instead of the satoshis beside it, which are then the most that a request may cost.'
})

export const DefaultPriceInput: TUnsafe<ProxyPriceText | null> = Type.Unsafe<ProxyPriceText | null>({
  anyOf: [...forms, Type.Null()],
  description:
    'The same for what no endpoint takes, instead of defaultPriceSats, which is then the most that a request may cost; null removes it.'
})

export const PriceView: TUnsafe<ProxyPriceText> = Type.Unsafe<ProxyPriceText>({
  anyOf: [
    Type.String(),
    Type.Object(
      {
        by: Type.Record(Type.String(), Type.String()),
        of: Type.Record(Type.String(), Type.String()),
        else: Type.String()
      },
      { title: 'ProxyPriceTable' }
    )
  ]
})

/**
 * The canonical price; null for none.
 * @throws ShortError 400 for an amount that is too large or too fine
 */
export function priceOfInput(input: ProxyPriceText | null, field: string): ProxyPriceText | null {
  const amount = (text: string): string => {
    const read = readMoney(text)
    if (read === undefined) throw invalidField(field, `${JSON.stringify(text)} is no amount that can be asked for.`)
    return 'fiat' in read ? read.fiat : `${satoshisUp(read.msat)} sats`
  }
  if (input === null || typeof input === 'string') return input === null ? null : amount(input)
  const { by, of, else: rest = 'refuse' } = input
  return {
    by,
    of: Object.fromEntries(Object.entries(of).map(([value, text]) => [value, amount(text)])),
    else: rest === 'refuse' ? rest : amount(rest)
  }
}

export function amountsIn(price: ProxyPriceText | null | undefined): number {
  return typeof price === 'object' && price !== null ? Object.keys(price.of).length + 1 : 1
}

export function amountOfText(text: string): number | FiatText {
  const read = readMoney(text)
  if (read === undefined) throw new TypeError(`${JSON.stringify(text)} is kept as a price and is none`)
  return 'fiat' in read ? read.fiat : satoshisUp(read.msat)
}

/** Highest amount in satoshis; 0 where all is fiat. */
function mostSatoshis(price: ProxyPriceText): number {
  const texts = typeof price === 'string' ? [price] : [...Object.values(price.of), price.else]
  const amounts = texts.filter(text => text !== 'refuse').map(amountOfText)
  return Math.max(0, ...amounts.filter(amount => typeof amount === 'number'))
}

export interface ChosenAmount {
  readonly amount: number | FiatText
  readonly by: FieldSelector | null
  readonly value: string | null
}

const tables = new WeakMap<ProxyPriceTable, FieldChoice<number | FiatText>>()

/**
 * Price of a request; a promise only when its body is read.
 * @throws LongError 400 that names the field; see `FieldChoice.choose`
 */
export function choosePrice(price: ProxyPriceText, ctx: Context): Maybe<ChosenAmount> {
  if (typeof price === 'string') return { amount: amountOfText(price), by: null, value: null }
  const { by } = price
  const chosen = tableOf(price).choose(ctx)
  return chosen instanceof Promise
    ? chosen.then(({ entry, value }) => ({ amount: entry, by, value }))
    : { amount: chosen.entry, by, value: chosen.value }
}

function tableOf(price: ProxyPriceTable): FieldChoice<number | FiatText> {
  let choice = tables.get(price)
  if (choice === undefined) {
    choice = new FieldChoice<number | FiatText>({
      by: price.by,
      of: Object.fromEntries(Object.entries(price.of).map(([value, text]) => [value, amountOfText(text)])),
      else: price.else === 'refuse' ? 'refuse' : amountOfText(price.else)
    })
    tables.set(price, choice)
  }
  return choice
}

export function sameRequestIn(price: ProxyPriceText, { by, value }: ChosenAmount): number | FiatText | null {
  if (typeof price === 'string') return amountOfText(price)
  if (by === null || JSON.stringify(price.by) !== JSON.stringify(by)) return null
  const text = (value === null ? undefined : ownText(price.of, value)) ?? price.else
  return text === 'refuse' ? null : amountOfText(text)
}

function ownText(of: Readonly<Record<string, string>>, value: string): string | undefined {
  return Object.hasOwn(of, value) ? of[value] : undefined
}

/** The satoshis beside a price are its upper bound: plan caps and older clients rely on it. */
export function checkMost({
  defaultPrice,
  defaultPriceSats,
  endpoints
}: Pick<ProxyRow, 'defaultPrice' | 'defaultPriceSats' | 'endpoints'>): void {
  const all = [
    { price: defaultPrice, most: defaultPriceSats, field: '/defaultPrice', beside: 'defaultPriceSats' },
    ...endpoints.map(({ price = null, priceSats }, index) => ({
      price,
      most: priceSats,
      field: `/endpoints/${index}/price`,
      beside: 'priceSats'
    }))
  ]
  for (const { price, most, field, beside } of all) {
    if (price === null) continue
    if (most === 0)
      throw invalidField(field, `${beside} is the most that a request may cost, and must not be 0 beside a price.`)
    if (mostSatoshis(price) > most) throw invalidField(field, `Must not ask more than ${beside}, ${most} sats.`)
  }
}
