import { NothingSent, ProviderRefused, ProviderUnavailable } from '../../provider-calls/errors.ts'
import { shortReason } from '../../provider-calls/provider-call.ts'

/** The relay has the request and the wallet is silent, as wallets are to unknown connections. */
export class WalletSilent extends ProviderUnavailable {}

export function lateResponse({
  isSent,
  isTaken
}: {
  readonly isSent: boolean
  readonly isTaken: boolean
}): ProviderUnavailable {
  if (!isSent)
    return new NothingSent('The relay of the nwc key cannot be reached at the moment.', 5, undefined, 'timeout')
  if (!isTaken) return lateRelay()
  return new WalletSilent(
    'The wallet did not answer over its relay: it is offline, or the connection was deleted in it.',
    5,
    undefined,
    'timeout'
  )
}

/** Meaning of a relay's rejection of a request or subscription (NIP-01: its first word is the reason). */
export function relayRefusal(reason: string): Error {
  const said = shortReason(reason, null)
  const words = said === null ? '.' : `: ${said}`
  if (reason.startsWith('rate-limited:'))
    return new NothingSent('The relay of the nwc key asks us to wait.', 5, undefined, 'rate')
  if (/^(?:auth-required|restricted|blocked|pow):/.test(reason))
    return new ProviderRefused('key', `The relay of the nwc key takes no requests of this connection${words}`)
  return new NothingSent(
    'The relay of the nwc key did not take the request.',
    5,
    new Error(`the relay refused${words}`),
    'server'
  )
}

export function responseLost(): ProviderUnavailable {
  return unavailable('network', 'The connection to the relay of the nwc key broke.')
}

export function abusedBy(): NothingSent {
  const message = 'The relay of the nwc key floods this gateway or sends forged events.'
  return new NothingSent(message, 5, undefined, 'server')
}

/** Connection failed. `cause` is a code or a few words, without an address. */
export function unreached(cause: string): NothingSent {
  return new NothingSent('The relay of the nwc key cannot be reached at the moment.', 5, new Error(cause), 'network')
}

export function lateRelay(): ProviderUnavailable {
  return unavailable('timeout', 'The relay of the nwc key did not answer in time.')
}

/** Backoff in seconds after failed connections. */
export function relayUnavailable(seconds: number): NothingSent {
  return new NothingSent('The relay of the nwc key cannot be reached at the moment.', seconds, undefined, 'network')
}

function unavailable(fault: 'network' | 'timeout', message: string): ProviderUnavailable {
  return new ProviderUnavailable(message, 5, undefined, fault)
}
