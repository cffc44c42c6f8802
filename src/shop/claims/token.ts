import { hash } from 'node:crypto'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import { Secret, type SealedPlace, type Sealer } from '../../platform/keys/secrets.ts'

export interface NewClaimToken {
  readonly token: Secret<string>
  /** The lookup key. A slow hash would add nothing: the token has 256 random bits. */
  readonly digest: Buffer
  /** Sealed, to show it again. */
  readonly ciphertext: string
}

/** Makes a claim token (decision 134): 32 random bytes in base64url. */
export function newClaimToken(orderId: string, sealer: Sealer, random: Random): NewClaimToken {
  const token = randomToken(32, random)
  return {
    token: new Secret(token),
    digest: claimDigest(token),
    ciphertext: sealer.seal(token, claimTokenPlace(orderId))
  }
}

export function claimDigest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

/** Where a sealed token is stored. */
export function claimTokenPlace(orderId: string): SealedPlace {
  return { table: 'storefront_orders', column: 'claim_token', row: orderId }
}
