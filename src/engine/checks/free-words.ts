import type { FreeCallsConfig } from '../config/schema.ts'
import { formatDuration } from '../config/units.ts'

/** `The first 20 calls of an address in 1d are free`. */
export function freeWords({ calls, per, by }: FreeCallsConfig): string {
  const whose =
    typeof by === 'string' ? `${by === 'address' ? 'an' : 'a'} ${by}` : `each value of the header ${by.header}`
  const first = calls === 1 ? 'The first call' : `The first ${calls} calls`
  return `${first} of ${whose} in ${formatDuration(per)} ${calls === 1 ? 'is' : 'are'} free`
}
