import { Secret } from '../../../platform/keys/secrets.ts'
import { AddressKeyError, readAddressKey, type AddressKeyForm } from '../../provider-calls/address-key.ts'
import type { KeyedServer } from '../../provider-calls/keyed-calls.ts'

/** How to reach and use a wallet of an LNbits. */
export interface LnbitsKey extends KeyedServer {
  /** The wallet's invoice key, or its admin key: 32 hex characters. */
  readonly apiKey: Secret<string>
}

const form: AddressKeyForm<'key'> = {
  kind: 'lnbits',
  example: 'lnbits+https://host/path?key=<invoice or admin key>',
  schemes: { 'lnbits+https': 'https:', 'lnbits+http': 'http:' },
  hasPath: true,
  needsPort: false,
  required: ['key'],
  optional: []
}

/** Reads `lnbits+https://host/path?key=…`, or `lnbits+http://…` for one without TLS. @throws AddressKeyError */
export function readLnbitsKey(text: string): LnbitsKey {
  const { origin, base, parameters } = readAddressKey(text, form)
  const { key = '' } = parameters
  if (!/^[0-9a-f]{32}$/i.test(key))
    throw new AddressKeyError(
      'key in the lnbits key is not 32 hex characters; it must be the invoice key or the admin key of the wallet.'
    )
  return { origin, base, certificate: null, servername: null, apiKey: new Secret(key) }
}
