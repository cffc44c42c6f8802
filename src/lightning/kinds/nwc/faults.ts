import { NothingSent, ProviderRefused, ProviderUnavailable } from '../../provider-calls/errors.ts'
import { saidInShort } from '../../provider-calls/provider-call.ts'

/** The relay has the request and the wallet says nothing, as wallets do to connections that they do not know. */
export class WalletSilent extends ProviderUnavailable {}

/** What is said of a request whose time is over: whether it went out, and whether the relay said that it has it. */
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

/** What a relay means that takes no request, or listens to none (NIP-01: the first word says why). */
export function relayRefusal(reason: string): Error {
  const said = saidInShort(reason, null)
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

/** The connection broke while an answer was due. */
export function lostResponse(): ProviderUnavailable {
  return unavailable('network', 'The connection to the relay of the nwc key broke.')
}

/** The relay sends more than is read, or forged events; the connection was ended. */
export function abusedBy(): ProviderUnavailable {
  return unavailable('server', 'The relay of the nwc key floods this gateway or sends forged events.')
}

/** No connection came about. `cause` is a code or a few words, without an address. */
export function unreached(cause: string): NothingSent {
  return new NothingSent('The relay of the nwc key cannot be reached at the moment.', 5, new Error(cause), 'network')
}

/** The relay itself said nothing in time. */
export function lateRelay(): ProviderUnavailable {
  return unavailable('timeout', 'The relay of the nwc key did not answer in time.')
}

/** The relay is left alone for so many seconds, since connections to it failed. */
export function relayAway(seconds: number): NothingSent {
  return new NothingSent('The relay of the nwc key cannot be reached at the moment.', seconds, undefined, 'network')
}

function unavailable(fault: 'network' | 'timeout' | 'server', message: string): ProviderUnavailable {
  return new ProviderUnavailable(message, 5, undefined, fault)
}
