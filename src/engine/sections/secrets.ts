import { Type } from 'typebox'
import { described, SecretText } from '../config/fields.ts'

export const SecretsSchema = Type.Object(
  {
    master: SecretText({
      default: '',
      pattern: '^$|^.{32}',
      'x-allowed': 'at least 32 characters, such as the output of `openssl rand -base64 48`',
      description:
        'At least 32 characters, from which every key is derived. Generated into the data folder when empty; required in production.'
    }),
    adminKey: SecretText({
      default: '',
      pattern: '^$|^.{16}',
      'x-allowed': 'at least 16 characters',
      description: 'Key of the operator, sent in X-API-Key. Generated into keys.json in the data folder when empty.'
    }),
    previous: Type.Array(SecretText({ minLength: 32 }), {
      default: [],
      description: 'Former masters, newest first. What they signed still verifies until they are removed.'
    })
  },
  described('Keys for macaroons, Payment ids and encryption come from here.')
)
