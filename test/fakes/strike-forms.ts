/** What the fake Strike refuses: bodies and queries are held to the letter of the reference. */

/** An answer that is an error, in Strike's envelope. */
export class StrikeRefusal extends Error {
  readonly status: number
  readonly code: string
  readonly values: Readonly<Record<string, unknown>> | null
  readonly validationErrors: Readonly<
    Record<string, readonly { readonly code: string; readonly message: string }[]>
  > | null

  constructor(
    status: number,
    code: string,
    message: string,
    more: { values?: Readonly<Record<string, unknown>>; field?: string } = {}
  ) {
    super(message)
    this.status = status
    this.code = code
    this.values = more.values ?? null
    this.validationErrors = more.field === undefined ? null : { [more.field]: [{ code: 'INVALID_DATA', message }] }
  }

  body(traceId: string): object {
    const { status, code, message, values, validationErrors } = this
    const shown = validationErrors === null ? message : 'One or more fields are invalid.'
    return {
      traceId,
      data: {
        status,
        code,
        message: shown,
        ...(values === null ? {} : { values }),
        ...(validationErrors === null ? {} : { validationErrors })
      }
    }
  }
}

export type Json = Readonly<Record<string, unknown>>

/** Refuses a field. */
export function invalid(field: string, message: string): StrikeRefusal {
  return new StrikeRefusal(400, 'INVALID_DATA', message, { field })
}

/** The body as an object with no other members than these. */
export function form(value: unknown, members: readonly string[], where = 'body'): Json {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid(where, 'An object is expected.')
  const outsider = Object.keys(value).find(name => !members.includes(name))
  if (outsider !== undefined) throw invalid(outsider, 'The field is not known.')
  // Checked just now.
  return value as Json
}

export function text(value: unknown, field: string, least: number, most: number): string {
  if (typeof value !== 'string' || value.length < least || value.length > most)
    throw invalid(field, `A text of ${least} to ${most} characters is expected.`)
  return value
}

const CURRENCIES = ['BTC', 'USD', 'EUR', 'USDT', 'GBP', 'AUD']

export interface Money {
  readonly amount: string
  readonly currency: string
}

/** `{amount, currency}` with a decimal text above 0. */
export function money(value: unknown, field: string, more: readonly string[] = []): Money & Json {
  const given = form(value, ['amount', 'currency', ...more], field)
  const { amount, currency } = given
  if (typeof currency !== 'string' || !CURRENCIES.includes(currency))
    throw invalid(`${field}.currency`, 'The currency is not supported.')
  const places = currency === 'BTC' ? 8 : 2
  if (
    typeof amount !== 'string' ||
    !new RegExp(`^\\d{1,10}(\\.\\d{1,${places}})?$`).test(amount) ||
    /^[0.]+$/.test(amount)
  )
    throw invalid(`${field}.amount`, 'A decimal text above 0 is expected.')
  return { ...given, amount, currency }
}

/** Satoshis of an amount of bitcoin in text. */
export function satsOf(amount: string): number {
  const [whole = '0', fraction = ''] = amount.split('.')
  return Number(whole + fraction.padEnd(8, '0'))
}

/** Satoshis as Strike writes them. */
export function btc(sats: number): Money {
  return { amount: `${Math.floor(sats / 1e8)}.${String(sats % 1e8).padStart(8, '0')}`, currency: 'BTC' }
}

/** The query of a list: only names that the reference has, each with its leading `$`. */
export function listQuery(
  query: URLSearchParams,
  filters: readonly string[]
): { readonly top: number; readonly skip: number } {
  for (const name of query.keys()) {
    if (!['$top', '$skip', ...filters].includes(name))
      throw new StrikeRefusal(400, 'INVALID_DATA', `The query parameter ${name} is not known.`)
  }
  const top = Number(query.get('$top') ?? 100)
  const skip = Number(query.get('$skip') ?? 0)
  if (!Number.isInteger(top) || top < 1 || top > 100 || !Number.isInteger(skip) || skip < 0)
    throw new StrikeRefusal(400, 'INVALID_DATA', '$top must be 1 to 100.')
  return { top, skip }
}
