import { Type, type TUnsafe } from 'typebox'
import { FIAT_PATTERN, readMoney, SATOSHI_PATTERN, satoshisUp, type FiatText } from '../checks/money-text.ts'

export type Unit = 'duration' | 'size' | 'price' | 'money' | 'fine-money'

const durations: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const sizes: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1000,
  MB: 1000 ** 2,
  GB: 1000 ** 3,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3
}
const prices: Readonly<Record<string, number>> = { sat: 1, sats: 1 }

const forms: Readonly<Record<Unit, { pattern: string; factors: Readonly<Record<string, number>>; allowed: string }>> = {
  duration: {
    pattern: '^[0-9]+ ?(ms|s|m|h|d)$',
    factors: durations,
    allowed: 'a duration such as "500ms", "30s", "10m", "1h" or "2d"'
  },
  size: {
    pattern: '^[0-9]+ ?(B|KB|MB|GB|KiB|MiB|GiB)$',
    factors: sizes,
    allowed: 'a size such as "64KiB", "1MiB" or "10MB", or a whole number of bytes'
  },
  price: {
    pattern: '^[0-9]+ ?sats?$',
    factors: prices,
    allowed: 'a price such as "10 sats" or "1 sat", or a whole number of satoshis'
  },
  money: {
    pattern: `^(${SATOSHI_PATTERN}|${FIAT_PATTERN})$`,
    factors: prices,
    allowed: 'a price such as "10 sats", "1500 msat", "$0.002" or "0.01 EUR", or a whole number of satoshis'
  },
  'fine-money': {
    pattern: `^(${SATOSHI_PATTERN}|${FIAT_PATTERN})$`,
    factors: prices,
    allowed: 'a price such as "2 msat", "1 sat" or "$0.000002"'
  }
}

/** Says in words which forms a value of this unit may take, for error messages and the reference page. */
export function allowedUnit(unit: Unit): string {
  return forms[unit].allowed
}

/** False for durations and amounts below a satoshi, whose unit would be a guess. */
export function takesBareNumbers(unit: Unit): boolean {
  return unit !== 'duration' && unit !== 'fine-money'
}

/**
 * Durations give milliseconds, sizes bytes, prices satoshis. Money gives satoshis (rounded up) or fiat, fine money
 * millisatoshis or fiat. Undefined for other text, and for inexact large numbers.
 */
export function parseUnit(unit: 'duration' | 'size' | 'price', text: string): number | undefined
export function parseUnit(unit: Unit, text: string): number | FiatText | undefined
export function parseUnit(unit: Unit, text: string): number | FiatText | undefined {
  if (unit === 'money' || unit === 'fine-money') {
    const money = readMoney(text)
    if (money === undefined) return undefined
    return 'fiat' in money ? money.fiat : unit === 'money' ? satoshisUp(money.msat) : money.msat
  }
  const match = /^([0-9]+) ?([A-Za-z]+)$/.exec(text)
  const [, digits, name] = match ?? []
  if (digits === undefined || name === undefined || !Object.hasOwn(forms[unit].factors, name)) return undefined
  const value = Number(digits) * (forms[unit].factors[name] ?? Number.NaN)
  return Number.isSafeInteger(value) ? value : undefined
}

/** The shortest exact form: 600000 → `10m`. */
export function formatDuration(ms: number): string {
  for (const name of ['d', 'h', 'm', 's'] as const) {
    const factor = durations[name] ?? 1
    if (ms >= factor && ms % factor === 0) return `${ms / factor}${name}`
  }
  return `${ms}ms`
}

/** The shortest exact form: 1048576 → `1MiB`. */
export function formatSize(bytes: number): string {
  for (const name of ['GiB', 'MiB', 'KiB'] as const) {
    const factor = sizes[name] ?? 1
    if (bytes >= factor && bytes % factor === 0) return `${bytes / factor}${name}`
  }
  return `${bytes}B`
}

/** As written in the file: `10m`, `1MiB`, `10 sats`. */
export function formatUnit(unit: Unit, value: number): string {
  if (unit === 'duration') return formatDuration(value)
  if (unit === 'size') return formatSize(value)
  if (unit === 'fine-money') return `${value} msat`
  return value === 1 ? '1 sat' : `${value} sats`
}

/** Bounds and the default may have the unit or be plain numbers. */
interface UnitOptions {
  readonly description?: string
  readonly default?: string | number
  readonly minimum?: string | number
  readonly maximum?: string | number
}

function bound(unit: Unit, value: string | number): number {
  const number = typeof value === 'number' ? value : parseUnit(unit, value)
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < 0)
    throw new TypeError(`${JSON.stringify(value)} is not ${forms[unit].allowed}`)
  return number
}

function unitSchema<T = number>(unit: Unit, options: UnitOptions): TUnsafe<T> {
  const schema: Record<string, unknown> = {
    anyOf: [{ type: 'string', pattern: forms[unit].pattern }, { type: 'integer' }],
    'x-unit': unit,
    minimum: bound(unit, options.minimum ?? 0)
  }
  if (options.maximum !== undefined) schema['maximum'] = bound(unit, options.maximum)
  if (options.default !== undefined) schema['default'] = bound(unit, options.default)
  if (options.description !== undefined) schema['description'] = options.description
  return Type.Unsafe<T>(schema)
}

/** `500ms`, `30s`, `10m`, `1h`, `2d`; loaded as milliseconds. Bare numbers are refused. */
export function Duration(options: UnitOptions = {}): TUnsafe<number> {
  return unitSchema('duration', options)
}

/** `64KiB`, `1MiB`, `10MB`, or bytes; loaded as bytes. */
export function Size(options: UnitOptions = {}): TUnsafe<number> {
  return unitSchema('size', options)
}

/** `10 sats`, `1 sat`, or satoshis; loaded as satoshis. */
export function Price(options: UnitOptions = {}): TUnsafe<number> {
  return unitSchema('price', options)
}

/** `10 sats`, `1500 msat`, `$0.002`, `0.01 EUR`, or satoshis; loaded as whole satoshis, rounded up, or as fiat. */
export function Money(options: UnitOptions = {}): TUnsafe<number | FiatText> {
  return unitSchema<number | FiatText>('money', options)
}

/**
 * Amounts below a satoshi (`2 msat`, `1 sat`, `$0.000002`); loaded as millisatoshis or fiat. Bare numbers are refused.
 * Bounds are in millisatoshis.
 */
export function FineMoney(options: UnitOptions = {}): TUnsafe<number | FiatText> {
  return unitSchema<number | FiatText>('fine-money', options)
}
