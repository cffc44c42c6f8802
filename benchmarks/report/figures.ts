import type { Spread } from '../measure/statistics.ts'

/** 12,345. */
export const grouped = (value: number): string =>
  Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',')
/** 12.3. */
export const one = (value: number): string => value.toFixed(1)
/** Microseconds as milliseconds, 0.12. */
export const milliseconds = (value: number): string => (value / 1000).toFixed(2)
/** 1.23×. */
export const times = (value: number | null): string => (value === null ? '–' : `${value.toFixed(2)}×`)

/** A median in bold with the lowest and highest beside it. */
export function cell(spread: Spread | null, format: (value: number) => string): string {
  return spread === null ? '–' : `**${format(spread.median)}** (${format(spread.low)}–${format(spread.high)})`
}

/** Text for a cell of a Markdown table. */
export function plain(text: string): string {
  return text.replaceAll('|', '/').replaceAll('\n', ' ')
}
