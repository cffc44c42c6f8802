import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'

/** What a browser must have been asked, and where, for its response to count. */
export interface Expected {
  /** Base64url. */
  readonly challenge: string
  /** Of the gateway's public address. */
  readonly origin: string
  /** Its host name. */
  readonly rpId: string
}

/** A new credential, as its authenticator made it. */
export interface NewCredential {
  /** Base64url. */
  readonly id: string
  /** COSE key. */
  readonly publicKey: Uint8Array
  readonly counter: number
  readonly isSynced: boolean
}

/** A credential that has shown itself. */
export interface UsedCredential {
  readonly counter: number
  readonly isSynced: boolean
}

/** COSE algorithms that are asked for: Ed25519, ECDSA on P-256, RSA with SHA-256. */
export const ALGORITHMS: readonly number[] = Object.freeze([-8, -7, -257])

/** What a browser sent is no proof of anything; the cause says why, for the log. */
export class PasskeyRefused extends Error {
  override name = 'PasskeyRefused'
}

// Loaded when it is first needed: it takes 27 MB, and many gateways have nobody who signs in.
const library = () => import('@simplewebauthn/server')
const helpers = () => import('@simplewebauthn/server/helpers')

/** Checks the response to a creation (WebAuthn Level 3, 7.1). @throws PasskeyRefused */
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

/** Checks the response to a question for a passkey (WebAuthn Level 3, 7.2). @throws PasskeyRefused */
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
      // A copy, since the library wants bytes of its own buffer.
      credential: { id: known.credentialId, publicKey: Uint8Array.from(known.publicKey), counter: known.counter }
    })
    if (!verified) throw new PasskeyRefused('the signature is wrong')
    return { counter: authenticationInfo.newCounter, isSynced: authenticationInfo.credentialBackedUp }
  })
}

/** The library says what is wrong by throwing errors of every kind. */
async function refusing<T>(verify: () => Promise<T>): Promise<T> {
  try {
    return await verify()
  } catch (error) {
    throw error instanceof PasskeyRefused ? error : new PasskeyRefused('the response is no proof', { cause: error })
  }
}

/** No page of ours stands in a frame of another site's. */
function refuseFrames(clientData: string): void {
  const { crossOrigin } = JSON.parse(Buffer.from(clientData, 'base64url').toString('utf8')) as { crossOrigin?: unknown }
  if (crossOrigin === true) throw new PasskeyRefused('it was made in a frame of another site')
}

/**
 * None was asked for, so browsers send none; the library would fetch lists of revoked ones from wherever a certificate
 * says (`isCertRevoked`).
 */
async function refuseCertificates(attestation: string): Promise<void> {
  const { decodeAttestationObject } = await helpers()
  const object = decodeAttestationObject(new Uint8Array(Buffer.from(attestation, 'base64url')))
  const format = object.get('fmt')
  if (!(format === 'none' || (format === 'packed' && object.get('attStmt').get('x5c') === undefined)))
    throw new PasskeyRefused('it came with a certificate that nobody asked for')
}
