import { hash } from 'node:crypto'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import { Secret, type SealedPlace, type Sealer } from '../../platform/keys/secrets.ts'

/** A new claim token with what is kept of it (decision 134). */
export interface NewClaimToken {
  readonly token: Secret<string>
  /** It is found by this. A slow hash would add nothing: the token holds 256 random bits. */
  readonly digest: Buffer
  /** It is shown again from this. */
  readonly ciphertext: string
}

/** Makes the claim token of an order: 32 random bytes in base64url. */
export function newClaimToken(orderId: string, sealer: Sealer, random: Random): NewClaimToken {
  const token = randomToken(32, random)
  return {
    token: new Secret(token),
    digest: claimDigest(token),
    ciphertext: sealer.seal(token, claimTokenPlace(orderId))
  }
}

/** SHA-256 of what may be a claim token, 32 bytes. */
export function claimDigest(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

/** Where the sealed token of an order lives. */
export function claimTokenPlace(orderId: string): SealedPlace {
  return { table: 'storefront_orders', column: 'claim_token', row: orderId }
}
