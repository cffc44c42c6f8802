import { Secret } from '../../../platform/keys/secrets.ts'
import {
  AddressKeyError,
  readAddressKey,
  requireVisible,
  type AddressKeyForm
} from '../../provider-calls/address-key.ts'
import type { KeyedServer } from '../../provider-calls/keyed-calls.ts'

export interface BtcpayKey extends KeyedServer {
  /** Letters and digits: it appears in paths. */
  readonly store: string
  readonly apiKey: Secret<string>
}

const form: AddressKeyForm<'store' | 'key'> = {
  kind: 'btcpay',
  example: 'btcpay+https://host/path?store=<store id>&key=<API key>',
  schemes: { 'btcpay+https': 'https:', 'btcpay+http': 'http:' },
  hasPath: true,
  needsPort: false,
  required: ['store', 'key'],
  optional: []
}

/**
 * Reads `btcpay+https://host/path?store=…&key=…`, or `btcpay+http://…` without TLS.
 * @throws AddressKeyError
 */
export function readBtcpayKey(text: string): BtcpayKey {
  const { origin, base, parameters } = readAddressKey(text, form)
  const { store = '', key = '' } = parameters
  if (!/^[A-Za-z0-9]{1,64}$/.test(store))
    throw new AddressKeyError(
      'store in the btcpay key is not a store ID. Copy it from the settings of the store or the address of its pages.'
    )
  return {
    origin,
    base,
    store,
    apiKey: new Secret(requireVisible(key, 'key', 'btcpay'))
  }
}
