import { Secret } from '../../../platform/keys/secrets.ts'
import { readAddressKey, requireVisible, type AddressKeyForm } from '../../provider-calls/address-key.ts'
import type { KeyedServer } from '../../provider-calls/keyed-calls.ts'

/** How to reach and use a phoenixd. */
export interface PhoenixdKey extends KeyedServer {
  /** `http-password`, or the one with limited access. */
  readonly password: Secret<string>
  /** phoenixd's own `webhook-secret`, which signs what it sends us; null where the key holds none. */
  readonly webhookSecret: Secret<string> | null
}

const form: AddressKeyForm<'password' | 'webhook'> = {
  kind: 'phoenixd',
  example: 'phoenixd://host:port?password=<http-password>&webhook=<webhook-secret>',
  // phoenixd has no TLS of its own; something in front of it may.
  schemes: { phoenixd: 'http:', 'phoenixd+http': 'http:', 'phoenixd+https': 'https:' },
  hasPath: true,
  needsPort: true,
  required: ['password'],
  optional: ['webhook']
}

/**
 * Reads `phoenixd://host:port?password=…&webhook=…`, or `phoenixd+https://…` for one behind TLS; `webhook` may be left out.
 * @throws AddressKeyError
 */
export function readPhoenixdKey(text: string): PhoenixdKey {
  const { origin, base, parameters } = readAddressKey(text, form)
  const { password = '', webhook } = parameters
  return {
    origin,
    base,
    certificate: null,
    servername: null,
    password: new Secret(requireVisible(password, 'password', 'phoenixd')),
    webhookSecret: webhook === undefined ? null : new Secret(requireVisible(webhook, 'webhook', 'phoenixd'))
  }
}
