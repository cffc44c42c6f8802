import type { CallLimits } from '../../../src/lightning/provider-calls/budgets.ts'
import type { Polling } from '../../../src/lightning/kinds/kind.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'

/** How a kind of the list is called; throws where there is none, or it is not called. */
function callsOf(name: string) {
  const calls = providerKinds.find(kind => kind.name === name)?.calls
  if (calls === undefined || calls === null) throw new Error(`${name} is no kind that is called`)
  return calls
}

/** What a kind of the list may be called. */
export function callLimits(name: string, url: string | null, perMinute: number | null): CallLimits {
  return callsOf(name).limits(url, perMinute)
}

/** How a kind of the list is polled. */
export function polling(name: string, url: string | null = null): Polling {
  return callsOf(name).polling(url)
}

/** The only one of a list. */
export function only<T>(list: readonly T[]): T {
  const [one, ...others] = list
  if (one === undefined || others.length > 0) throw new TypeError(`${list.length} where there should be one`)
  return one
}
