import { inUnits, readDecimal } from '../../lightning/money/decimal.ts'
import { StorePlatformError } from '../platform.ts'

const DIGITS = /^[1-9]\d{0,15}$/

/** All amounts are in US dollars (decision 142). */
export const CURRENCY = 'USD'

/**
 * A value of a response with its path. Missing members and other types fail with the path: misreading money or stock is
 * worse than an error.
 * @throws StorePlatformError `away` from every reading method
 */
export class ShopifyValue {
  readonly #value: unknown
  readonly #path: string

  constructor(value: unknown, path = 'data') {
    this.#value = value
    this.#path = path
  }

  get isNull(): boolean {
    return this.#value === null || this.#value === undefined
  }

  member(name: string): ShopifyValue {
    const value = this.#value
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return this.fail('an object')
    // Own members only: not `constructor`.
    return new ShopifyValue(Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined, `${this.#path}.${name}`)
  }

  /** Null where the member is null or missing. */
  optional(name: string): ShopifyValue | null {
    const found = this.member(name)
    return found.isNull ? null : found
  }

  list(): ShopifyValue[] {
    if (!Array.isArray(this.#value)) return this.fail('a list')
    return this.#value.map((value: unknown, index) => new ShopifyValue(value, `${this.#path}[${index}]`))
  }

  text(): string {
    return typeof this.#value === 'string' ? this.#value : this.fail('a text')
  }

  flag(): boolean {
    return typeof this.#value === 'boolean' ? this.#value : this.fail('true or false')
  }

  /** JSON numbers are exact up to 2^53. */
  integer(): number {
    return typeof this.#value === 'number' && Number.isSafeInteger(this.#value)
      ? this.#value
      : this.fail('a whole number')
  }

  /** A numeric id, as number or text. */
  id(): number {
    const text = typeof this.#value === 'number' ? String(this.#value) : this.#value
    const id = typeof text === 'string' && DIGITS.test(text) ? Number(text) : NaN
    return Number.isSafeInteger(id) ? id : this.fail('an id that fits a number exactly')
  }

  /** Decimal dollars, 0 or more, as cents, without rounding. */
  cents(): number {
    const decimal = typeof this.#value === 'string' ? readDecimal(this.#value) : null
    if (decimal === null || decimal.digits < 0n || decimal.places > 2)
      return this.fail('an amount of 0 or more with at most two decimal places')
    const cents = Number(inUnits(decimal, 2))
    return Number.isSafeInteger(cents) ? cents : this.fail('an amount that can be')
  }

  /** Decimal text, 0 or more, at most eight decimals. */
  share(): string {
    const share = this.#value
    if (typeof share !== 'number' || !Number.isFinite(share) || share < 0) return this.fail('a share of 0 or more')
    return share.toFixed(8).replace(/(?:\.|(?<!0))0+$/, '')
  }

  /** An ISO time in milliseconds since the epoch. */
  time(): number {
    const time = Date.parse(this.text())
    return Number.isNaN(time) ? this.fail('a time') : time
  }

  /** @throws StorePlatformError always */
  fail(wanted: string): never {
    throw new StorePlatformError(
      'away',
      `The store platform gave an answer that cannot be used: ${this.#path} is not ${wanted}.`
    )
  }
}
