const MOMENT = new Intl.DateTimeFormat('en', {
  dateStyle: 'medium',
  timeStyle: 'short',
  timeZone: 'UTC',
  hourCycle: 'h23'
})
const DAY = new Intl.DateTimeFormat('en', { dateStyle: 'long', timeZone: 'UTC' })

/** Milliseconds since the epoch as `Nov 21, 2026, 09:05 UTC`. */
export function momentText(time: number): string {
  return `${MOMENT.format(time)} UTC`
}

/** Milliseconds since the epoch as `November 21, 2026` in UTC. */
export function dayText(time: number): string {
  return DAY.format(time)
}
