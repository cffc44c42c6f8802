import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'

export interface Expected {
  /** Base64url. */
  readonly challenge: string
  /** Of the gateway's public address. */
  readonly origin: string
  /** Its host name. */
  readonly rpId: string
}

export interface NewCredential {
  /** Base64url. */
  readonly id: string
  /** COSE key. */
  readonly publicKey: Uint8Array
  readonly counter: number
  readonly isSynced: boolean
}

export interface UsedCredential {
  readonly counter: number
  readonly isSynced: boolean
}

/** Requested COSE algorithms: Ed25519, ECDSA on P-256, RSA with SHA-256. */
export const ALGORITHMS: readonly number[] = Object.freeze([-8, -7, -257])

/** Invalid response; the cause is for the log. */
export class PasskeyRefused extends Error {
  override name = 'PasskeyRefused'
}

// Lazy: it takes 27 MB.
const library = () => import('@simplewebauthn/server')
const helpers = () => import('@simplewebauthn/server/helpers')

/**
 * Verifies a registration (WebAuthn Level 3, 7.1).
 * @throws PasskeyRefused
 */
export async function verifyCreation(response: RegistrationResponseJSON, expected: Expected): Promise<NewCredential> {
  const { verifyRegistrationResponse } = await library()
  return await refusing(async () => {
    refuseFrames(response.response.clientDataJSON)
    await refuseCertificates(response.response.attestationObject)
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response,
      expectedChallenge: expected.challenge,
      expectedOrigin: expected.origin,
      expectedRPID: expected.rpId,
      requireUserVerification: true,
      supportedAlgorithmIDs: [...ALGORITHMS]
    })
    if (!verified) throw new PasskeyRefused('the signature is wrong')
    const { credential, credentialBackedUp } = registrationInfo
    if (credential.id !== response.id) throw new PasskeyRefused('the response names another credential')
    return {
      id: credential.id,
      publicKey: credential.publicKey,
      counter: credential.counter,
      isSynced: credentialBackedUp
    }
  })
}

/**
 * Verifies an assertion (WebAuthn Level 3, 7.2).
 * @throws PasskeyRefused
 */
export async function verifyUse(
  response: AuthenticationResponseJSON,
  expected: Expected,
  known: { readonly credentialId: string; readonly publicKey: Uint8Array; readonly counter: number }
): Promise<UsedCredential> {
  const { verifyAuthenticationResponse } = await library()
  return await refusing(async () => {
    refuseFrames(response.response.clientDataJSON)
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge: expected.challenge,
      expectedOrigin: expected.origin,
      expectedRPID: expected.rpId,
      requireUserVerification: true,
      // A copy: the library requires its own buffer.
      credential: { id: known.credentialId, publicKey: Uint8Array.from(known.publicKey), counter: known.counter }
    })
    if (!verified) throw new PasskeyRefused('the signature is wrong')
    return { counter: authenticationInfo.newCounter, isSynced: authenticationInfo.credentialBackedUp }
  })
}

/** The library reports invalid responses by errors of every kind. */
async function refusing<T>(verify: () => Promise<T>): Promise<T> {
  try {
    return await verify()
  } catch (error) {
    throw error instanceof PasskeyRefused ? error : new PasskeyRefused('the response is no proof', { cause: error })
  }
}

/** Our pages are never framed. */
function refuseFrames(clientData: string): void {
  const { crossOrigin } = JSON.parse(Buffer.from(clientData, 'base64url').toString('utf8')) as { crossOrigin?: unknown }
  if (crossOrigin === true) throw new PasskeyRefused('it was made in a frame of another site')
}

/** No certificate is requested; the library would fetch revocation lists from addresses in the certificate (`isCertRevoked`). */
async function refuseCertificates(attestation: string): Promise<void> {
  const { decodeAttestationObject } = await helpers()
  const object = decodeAttestationObject(new Uint8Array(Buffer.from(attestation, 'base64url')))
  const format = object.get('fmt')
  if (!(format === 'none' || (format === 'packed' && object.get('attStmt').get('x5c') === undefined)))
    throw new PasskeyRefused('it came with an attestation certificate, which was not requested')
}
