import { Type, type Static } from 'typebox'
import { described, List, type DeepReadonly } from '../config/fields.ts'

/** What requests are compared with: by `when` of an entry and by `match` of a route. */
export const valueFields = {
  header: Type.Optional(
    List(
      Type.String({
        pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+(=[ -~]{1,500})?$",
        'x-allowed': 'a header name, or one with its value such as x-plan=gold'
      }),
      { description: 'Headers, of which each must be present, and have the value where one is given: `x-plan=gold`.' }
    )
  ),
  query: Type.Optional(
    List(
      Type.String({
        pattern: '^[^=&#]{1,200}(=.{1,500})?$',
        'x-allowed': 'the name of a query parameter, or one with its value such as format=pdf'
      }),
      { description: 'Parameters of the query, decoded, in the same form: `format=pdf`.' }
    )
  )
}

export const WhenSchema = Type.Object(
  {
    method: Type.Optional(List(Type.String({ 'x-format': 'method' }), { description: 'Methods of the request.' })),
    path: Type.Optional(
      List(Type.String({ 'x-format': 'path' }), {
        description: 'Paths of the request; a trailing /* covers everything below.'
      })
    ),
    ...valueFields,
    authenticated: Type.Optional(Type.Boolean({ description: 'Whether the request has a principal.' }))
  },
  described('Conditions under which the entry takes part; all that are given must hold.')
)

/** All given conditions must hold. */
export type WhenConfig = DeepReadonly<Static<typeof WhenSchema>>

export type ValueConfig = Pick<WhenConfig, 'header' | 'query'>

export function nameAndValue(text: string): readonly [name: string, value: string | null] {
  const at = text.indexOf('=')
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + 1)]
}
