import { Type } from 'typebox'
import { described } from '../config/fields.ts'

export const DiscoverySchema = Type.Object(
  {
    categories: Type.Array(
      Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,31}$', 'x-allowed': 'a word such as data or ai' }),
      {
        default: ['api'],
        maxItems: 10,
        description: 'What registries sort this service by.'
      }
    )
  },
  described('What agents and registries are told of this gateway.')
)
