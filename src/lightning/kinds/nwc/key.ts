import { hash } from 'node:crypto'
import { isPrivate, isXOnlyPoint } from 'tiny-secp256k1'
import { Secret } from '../../../platform/keys/secrets.ts'
import type { WebSocketAddress } from '../../provider-calls/web-socket.ts'
import {
  AddressKeyError,
  readKeyOrigin,
  readKeyParameters,
  type KeyParameterForm
} from '../../provider-calls/address-key.ts'

/** NIP-47. */
export interface NwcKey {
  readonly wallet: string
  /** Our private key for this connection: 32 bytes as hex. */
  readonly secret: Secret<string>
  /** At least one, without duplicates. */
  readonly relays: readonly WebSocketAddress[]
  /** Names wallet and connection for breakers, without the secret. */
  readonly origin: string
}

const EXAMPLE = 'nostr+walletconnect://<public key>?relay=wss://<host>&secret=<hex>'
const form: KeyParameterForm<'relay' | 'secret'> = {
  kind: 'nwc',
  required: ['secret', 'relay'],
  optional: [],
  repeated: ['relay'],
  // Wallets add `lud16` and more.
  passesOver: true
}

const MAX_CHARS = 4096
/** Relays used; further ones are ignored. */
const MAX_RELAYS = 4
/** Older wallets omit the `+` or the slashes. */
const PARTS = /^nostr\+?walletconnect:(?:\/\/)?([0-9a-f]{64})\/?\?([^#]*)$/i
const RELAY = /^(wss?):\/\/([^/?#]*)(\/[^?#]*)?$/i
const PATH = /^(?:\/[A-Za-z0-9._~-]+)*\/?$/

/** @throws AddressKeyError for an invalid connection address */
export function readNwcKey(text: string): NwcKey {
  if (text.length > MAX_CHARS)
    throw new AddressKeyError(`The nwc key is longer than ${MAX_CHARS} characters; it has the form ${EXAMPLE}.`)
  const [, pubkey, query] = PARTS.exec(text) ?? []
  if (pubkey === undefined || query === undefined)
    throw new AddressKeyError(`The nwc key must have the form ${EXAMPLE}.`)
  const { secret: [secret] = [], relay: relays = [] } = readKeyParameters(query, form)
  const wallet = pubkey.toLowerCase()
  if (!isXOnlyPoint(Buffer.from(wallet, 'hex')))
    throw new AddressKeyError('What follows nostr+walletconnect:// in the nwc key is not the public key of a wallet.')
  if (secret === undefined)
    throw new AddressKeyError(
      `The nwc key has no secret; it has the form ${EXAMPLE}. Copy it whole, as the wallet shows it.`
    )
  if (!/^[0-9a-f]{64}$/i.test(secret) || !isPrivate(Buffer.from(secret, 'hex')))
    throw new AddressKeyError('secret in the nwc key is not a private key of 64 hex characters.')
  const addresses = new Map(relays.map(readRelay).map(address => [address.url, address]))
  if (addresses.size === 0) throw new AddressKeyError(`The nwc key has no relay; it has the form ${EXAMPLE}.`)
  return {
    wallet,
    secret: new Secret(secret.toLowerCase()),
    relays: [...addresses.values()].slice(0, MAX_RELAYS),
    origin: `${wallet} ${hash('sha256', `nwc ${secret.toLowerCase()}`, 'hex').slice(0, 16)}`
  }
}

function readRelay(text: string): WebSocketAddress {
  const [, scheme = '', authority, path = ''] = RELAY.exec(text) ?? []
  if (authority === undefined || !PATH.test(path) || /\/\.{1,2}(?:\/|$)/.test(path))
    throw new AddressKeyError('relay in the nwc key must be the address of a relay, such as wss://relay.example.com.')
  const isSecure = scheme.toLowerCase() === 'wss'
  const { origin } = readKeyOrigin(authority, isSecure ? 'https:' : 'http:', scheme, { kind: 'nwc', needsPort: false })
  return { origin, url: `${origin.replace(/^http/, 'ws')}${path === '' ? '/' : path}` }
}
