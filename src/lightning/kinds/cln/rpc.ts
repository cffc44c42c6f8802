import { ProviderRefused, ProviderUnavailable } from '../../provider-calls/errors.ts'
import type { CallProvider, ProviderResponse } from '../../provider-calls/provider-call.ts'
import { readClnFault } from './responses.ts'

export const CLN_CODES = Object.freeze({
  badParameters: -32_602,
  noMethod: -32_601,
  runeUnknown: 1501,
  runeForbids: 1502,
  runeBlacklisted: 1503,
  /** `waitanyinvoice` timed out. */
  nothingPaid: 904
})

/** Seconds to wait when the rune's own rate is exhausted. */
const RUNE_RATE_WAIT = 60

/**
 * Calls a method with named parameters. Errors in `codes` are returned with their status, others thrown.
 * @throws ProviderRefused for the rune and for requests that the node rejects
 */
export async function rpc(
  call: CallProvider,
  method: string,
  parameters: Readonly<Record<string, string | number | boolean>>,
  codes: readonly number[] = []
): Promise<ProviderResponse> {
  const response = await call({
    method: 'POST',
    path: `/v1/${method}`,
    body: parameters,
    scope: `method=${method}`,
    ...(codes.length === 0 ? {} : { accepts: [404, 500] })
  })
  if (response.status < 400) return response
  const fault = readClnFault(response.body)
  if (fault !== null && codes.includes(fault.code)) return response
  if (fault === null)
    throw new ProviderUnavailable(
      'The Core Lightning node cannot do its work at the moment.',
      5,
      new Error(`status ${response.status}`),
      'server'
    )
  throw new ProviderRefused('request', `The node refused the request: ${response.said ?? String(fault.code)}`)
}

/** The meaning of a rune error; null for others. An exhausted rune rate shares its code. */
export function runeFault(
  { status, body }: ProviderResponse,
  scope: string | null
): ProviderRefused | ProviderUnavailable | null {
  if (status !== 401 && status !== 403) return null
  const fault = readClnFault(body)
  if (fault === null) return null
  if (fault.code !== CLN_CODES.runeForbids)
    return new ProviderRefused(
      'key',
      fault.code === CLN_CODES.runeBlacklisted
        ? 'The node has blacklisted the rune in the key.'
        : 'The node does not accept the rune in the key.'
    )
  if (/\brate\b|exceeded|too (?:soon|often|many)/i.test(fault.message))
    return new ProviderUnavailable(
      'The rune in the key may not be used more often at the moment.',
      RUNE_RATE_WAIT,
      undefined,
      'rate'
    )
  return new ProviderRefused(
    'scope',
    scope === null
      ? 'The rune in the key may not make this call.'
      : `The rune in the key lacks the permission ${scope}. Receiving needs invoice, listinvoices, waitanyinvoice and getinfo; refunds also listpays, xpay and, before 24.11, pay: make one with lightning-cli createrune.`,
    scope
  )
}
