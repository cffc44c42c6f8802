import { currentLanguage } from '../../engine/formats/language.ts'
import type { Currency } from '../../lightning/money/prices.ts'

const FIAT = { minimumFractionDigits: 2, maximumFractionDigits: 8, style: 'currency' } as const

/** An amount such as `$12.50` or `0.0001 BTC`. `amount` is a plain decimal; no digit is lost. */
export function amountText(amount: string, currency: Currency): string {
  if (currency === 'BTC') return `${currentLanguage() === 'en' ? amount : amount.replace('.', ',')}\u00a0BTC`
  // Formats a decimal string exactly, without a float.
  return formatOf(currency).format(amount as Intl.StringNumericLiteral)
}

const formats = new Map<string, Intl.NumberFormat>()

/** Cached: construction is slow, and a catalog has thousands of prices. */
function formatOf(currency: Currency): Intl.NumberFormat {
  const key = `${currentLanguage()} ${currency}`
  const known = formats.get(key)
  if (known !== undefined) return known
  const created = new Intl.NumberFormat(currentLanguage(), { ...FIAT, currency })
  formats.set(key, created)
  return created
}

export function satoshisText(satoshis: number): string {
  return `${satoshis.toLocaleString(currentLanguage())}\u00a0${satoshis === 1 ? 'sat' : 'sats'}`
}

/** Satoshis as bitcoin with eight decimals (BIP 21). */
export function bitcoinAmount(satoshis: number): string {
  const digits = String(satoshis).padStart(9, '0')
  return `${digits.slice(0, -8)}.${digits.slice(-8)}`
}

export function dollarsText(cents: number): string {
  const digits = String(cents).padStart(3, '0')
  return amountText(`${digits.slice(0, -2)}.${digits.slice(-2)}`, 'USD')
}

const MOMENT = { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC', hourCycle: 'h23' } as const

/** Milliseconds since the epoch as `Nov 21, 2026, 09:05 UTC`. */
export function momentText(time: number): string {
  return `${new Intl.DateTimeFormat(currentLanguage(), MOMENT).format(time)} UTC`
}

/** Milliseconds since the epoch as `November 21, 2026` in UTC. */
export function dayText(time: number): string {
  return new Intl.DateTimeFormat(currentLanguage(), { dateStyle: 'long', timeZone: 'UTC' }).format(time)
}

/** Removes bidirectional controls, which could reorder the surrounding text. */
export function withoutTurns(text: string): string {
  return text.replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, '')
}
