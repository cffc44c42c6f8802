import type { OperationText } from '../../../engine/operations/operation.ts'

const passkey = {
  passkeyId: '01a1ff70-dd2e-711d-b419-983214ef9bd0',
  name: 'Phone',
  isSynced: true,
  createdAt: '2026-11-22T10:15:00.000Z',
  usedAt: null,
  isCurrent: false
}
const byPasskey = { passkeyId: passkey.passkeyId }
const challenge = 'uJ0mZ5q3W8nX1rT6vY2bC4dE7fG9hK0lM3nP5qR8sTw'
const credential = { id: 'pfZ1mJ0vQ2c', rawId: 'pfZ1mJ0vQ2c', type: 'public-key' }

/** What OpenAPI says of passkeys. */
export const passkeyTexts: Readonly<Record<string, OperationText>> = {
  beginPasskeySignIn: {
    description:
      'Nobody is named: the browser offers the passkeys that it has for this host. The body is what `PublicKeyCredential.parseRequestOptionsFromJSON` takes.',
    example: {
      responses: {
        200: {
          challenge,
          rpId: 'gate.example.com',
          timeout: 300000,
          userVerification: 'required',
          allowCredentials: []
        }
      }
    }
  },
  signInWithPasskey: {
    description:
      'The body is what `toJSON()` of the credential gives. It must be made for this host and origin, with the reader verified by a PIN, a fingerprint or the like. The session ends when the passkey is removed. What fails counts like wrong keys.',
    example: {
      body: {
        ...credential,
        response: { clientDataJSON: 'eyJ0eXBlIjoi', authenticatorData: 'SZYN5YgO', signature: 'MEUCIQDx' }
      },
      responses: { 200: { page: 'console' } }
    }
  },
  listPasskeys: {
    description: 'Those of the person, whatever account they work in. Empty for who signed in with a key.',
    example: { responses: { 200: { canAdd: true, passkeys: [passkey] } } }
  },
  beginPasskey: {
    description: 'The body is what `PublicKeyCredential.parseCreationOptionsFromJSON` takes.',
    example: {
      responses: {
        200: {
          challenge,
          rp: { id: 'gate.example.com', name: 'gate.example.com' },
          user: { id: 'oJt3', name: 'owner@example.com', displayName: 'owner@example.com' },
          pubKeyCredParams: [{ type: 'public-key', alg: -7 }],
          timeout: 300000,
          excludeCredentials: [],
          authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
          attestation: 'none'
        }
      }
    }
  },
  addPasskey: {
    description:
      '`credential` is what `toJSON()` of the new credential gives. Up to 20 for a person. Certificates of the authenticator are refused: none was asked for.',
    example: {
      body: {
        name: 'Phone',
        credential: { ...credential, response: { clientDataJSON: 'eyJ0eXBlIjoi', attestationObject: 'o2NmbXRk' } }
      },
      responses: { 201: passkey }
    }
  },
  renamePasskey: {
    description: 'The name is for its owner alone.',
    example: { params: byPasskey, body: { name: 'Old phone' }, responses: { 200: { ...passkey, name: 'Old phone' } } }
  },
  removePasskey: {
    description: 'It signs nobody in any more. The browser may still offer it until it is deleted there too.',
    example: { params: byPasskey }
  }
}
