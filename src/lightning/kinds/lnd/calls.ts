import { NothingSent, ProviderRefused, ProviderUnavailable } from '../../provider-calls/errors.ts'
import { macaroonFault, readFault } from './responses.ts'
import type { CallProvider, ProviderResponse, ProviderCall } from '../../provider-calls/provider-call.ts'

/**
 * A call to lnd. lnd returns 500 for a bad macaroon and for many requests, so its body is read; other errors are
 * returned for `ok` or the caller.
 * @throws ProviderRefused for the macaroon, NothingSent while the node is locked, and what `call` throws
 */
export async function ask(call: CallProvider, wanted: ProviderCall): Promise<ProviderResponse> {
  const response = await call({ ...wanted, accepts: [...(wanted.accepts ?? []), 500, 503] })
  const fault = response.status < 400 ? null : readFault(response.body)
  if (fault === null) return response
  const meaning = macaroonFault(fault)
  if (meaning === 'scope') {
    const scope = wanted.scope ?? null
    throw new ProviderRefused(
      'scope',
      scope === null
        ? 'The macaroon in the key may not make this call.'
        : `The macaroon in the key lacks the permission ${scope}.`,
      scope
    )
  }
  if (meaning === 'key')
    throw new ProviderRefused(
      'key',
      'The node does not accept the macaroon in the key: it is of another node, or was revoked. Take one of this node.'
    )
  // lnd checks this before the call.
  if (meaning === 'locked') throw new NothingSent('The lnd node is locked or still starting.', 30, undefined, 'server')
  return response
}

/** @throws ProviderUnavailable for any other status: lnd's own failure */
export function ok(response: ProviderResponse): ProviderResponse {
  if (response.status < 400) return response
  throw new ProviderUnavailable(
    'The lnd node cannot do its work at the moment.',
    5,
    new Error(`status ${response.status}`),
    'server'
  )
}

/** Whether lnd reports an unknown invoice or payment; builds before 0.18 use 500. A proxy's 404 proves nothing. */
export function isUnknown({ status, body }: ProviderResponse): boolean {
  const fault = status < 400 ? null : readFault(body)
  return (
    fault !== null &&
    (fault.code === NOT_FOUND || /unable to locate invoice|no existing invoices|isn't initiated/i.test(fault.message))
  )
}

const NOT_FOUND = 5
