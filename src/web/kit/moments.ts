import { currentLanguage } from '../../engine/formats/language.ts'

const MOMENT = { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC', hourCycle: 'h23' } as const

/** Milliseconds since the epoch as `Nov 21, 2026, 09:05 UTC`. */
export function momentText(time: number): string {
  return `${new Intl.DateTimeFormat(currentLanguage(), MOMENT).format(time)} UTC`
}

/** Milliseconds since the epoch as `November 21, 2026` in UTC. */
export function dayText(time: number): string {
  return new Intl.DateTimeFormat(currentLanguage(), { dateStyle: 'long', timeZone: 'UTC' }).format(time)
}
