import { Type, type Static } from 'typebox'
import { described, List, type DeepReadonly } from '../config/fields.ts'

export const WhenSchema = Type.Object(
  {
    method: Type.Optional(List(Type.String({ 'x-format': 'method' }), { description: 'Methods of the request.' })),
    path: Type.Optional(
      List(Type.String({ 'x-format': 'path' }), {
        description: 'Paths of the request; a trailing /* covers everything below.'
      })
    ),
    header: Type.Optional(
      List(Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" }), {
        description: 'Header names, of which each must be present.'
      })
    ),
    authenticated: Type.Optional(Type.Boolean({ description: 'Whether the request has a principal.' }))
  },
  described('Conditions under which the entry takes part; all that are given must hold.')
)

/** All given conditions must hold. */
export type WhenConfig = DeepReadonly<Static<typeof WhenSchema>>
