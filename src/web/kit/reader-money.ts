import type { FiatCurrency, Quotes } from '../../lightning/money/prices.ts'
import type { Decimal } from '../../lightning/money/decimal.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { t } from '../../engine/formats/language.ts'
import { amountText } from './amounts.ts'

const EURO =
  'AD AT AX BE BL CY DE EE ES FI FR GF GP GR HR IE IT LT LU LV MC ME MF MQ MT NL PM PT RE SI SK SM TF VA XK YT BG'
const CURRENCY_OF = new Map<string, FiatCurrency>([
  ...EURO.split(' ').map((region): [string, FiatCurrency] => [region, 'EUR']),
  ...['GB', 'GG', 'IM', 'JE'].map((region): [string, FiatCurrency] => [region, 'GBP']),
  ...['US', 'AS', 'EC', 'FM', 'GU', 'MH', 'MP', 'PA', 'PR', 'PW', 'SV', 'TC', 'TL', 'VG', 'VI'].map(
    (region): [string, FiatCurrency] => [region, 'USD']
  )
])

/**
 * Currency of the first language in Accept-Language: `de-AT` is euro, `de` the one of most speakers. Null for a
 * currency without a rate.
 */
export function readerCurrency(languages: string): FiatCurrency | null {
  const [first = ''] = languages.split(',', 1)
  const tag = first.split(';', 1)[0]?.trim() ?? ''
  if (!/^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}$/.test(tag)) return null
  try {
    const { region } = new Intl.Locale(tag).maximize()
    return region === undefined ? null : (CURRENCY_OF.get(region) ?? null)
  } catch (error) {
    // A malformed tag.
    if (error instanceof RangeError) return null
    throw error
  }
}

/** Milliseconds that a page waits for an exchange rate; then it shows only satoshis. */
const PATIENCE = 150

/** Value of satoshis in the reader's currency, such as `≈ $0.42`; null where the rate is not known in time. */
export async function readersWorth(
  { clock, prices }: { readonly clock: Clock; readonly prices: Pick<Quotes, 'quote'> },
  satoshis: number,
  languages: string
): Promise<string | null> {
  const currency = readerCurrency(languages)
  if (currency === null || satoshis === 0) return null
  const given = Promise.withResolvers<string | null>()
  const patience = clock.after(PATIENCE, () => {
    given.resolve(null)
  })
  const request = async (): Promise<void> => {
    try {
      const { price } = await prices.quote(currency)
      given.resolve(worthText(satoshis, currency, price))
    } catch {
      // Without a rate satoshis suffice; payments in that currency report the cause.
      given.resolve(null)
    }
  }
  void request()
  const text = await given.promise
  patience.cancel()
  return text
}

/** Decimals of a bitcoin (8) minus those of a currency (2). */
const PLACES = 6n

/**
 * Value of satoshis such as `≈ $0.42`, to the nearest cent; `price` is per bitcoin. Exact: a price has more digits than
 * a float.
 */
export function worthText(satoshis: number, currency: FiatCurrency, price: Decimal): string {
  const divisor = 10n ** (PLACES + BigInt(price.places))
  const cents = (BigInt(satoshis) * price.digits * 2n + divisor) / (divisor * 2n)
  if (cents === 0n) return t`less than ${amountText('0.01', currency)}`
  const digits = String(cents).padStart(3, '0')
  return `≈ ${amountText(`${digits.slice(0, -2)}.${digits.slice(-2)}`, currency)}`
}
