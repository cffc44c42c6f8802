import { Secret } from '../../../platform/keys/secrets.ts'
import {
  readAddressKey,
  readKeyCertificate,
  requireVisible,
  type AddressKeyForm
} from '../../provider-calls/address-key.ts'
import type { KeyedServer } from '../../provider-calls/keyed-calls.ts'

/** How to reach and use a Core Lightning node. */
export interface ClnKey extends KeyedServer {
  readonly rune: Secret<string>
}

const form: AddressKeyForm<'ca' | 'rune'> = {
  kind: 'cln',
  example: 'clnrest://host:port?ca=<base64url>&rune=<rune>',
  schemes: { clnrest: 'https:', 'clnrest+https': 'https:', 'clnrest+http': 'http:' },
  hasPath: true,
  needsPort: true,
  required: ['rune'],
  optional: ['ca']
}

/** A name that certificates of clnrest always hold; of others but the host it knows none. */
const NAME = 'cln'

/**
 * Reads `clnrest://host:port?ca=…&rune=…`: `ca` is base64url of the node's ca.pem and may be left out
 * where a public authority signed the certificate; `clnrest+http://` is for a node without TLS. @throws AddressKeyError
 */
export function readClnKey(text: string): ClnKey {
  const { origin, base, parameters } = readAddressKey(text, form)
  const { ca, rune = '' } = parameters
  const certificate = ca === undefined ? null : readKeyCertificate(ca, 'ca', 'cln', 'ca.pem').toString()
  return {
    origin,
    base,
    certificate,
    servername: certificate === null ? null : NAME,
    rune: new Secret(requireVisible(rune, 'rune', 'cln'))
  }
}
