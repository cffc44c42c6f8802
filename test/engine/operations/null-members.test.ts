import * as fc from 'fast-check'
import t from 'tap'
import { Type } from 'typebox'
import { bodyReader } from '../../../src/engine/operations/validation.ts'

const text = Type.Optional(Type.String())
const clearable = Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'] }))
const read = bodyReader(
  Type.Object({
    plain: text,
    listed: clearable,
    united: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    inner: Type.Optional(Type.Object({ plain: text, listed: clearable })),
    items: Type.Optional(Type.Array(Type.Object({ plain: text, listed: clearable })))
  })
)
const given = (body: unknown) => read(Buffer.from(JSON.stringify(body)))

t.test(
  "null is absent (decision 4), but is kept where the member's schema takes null (decision 67), at every depth",
  async t => {
    t.same(given({ plain: null, listed: null, united: null }), { listed: null, united: null })
    t.same(given({ inner: { plain: null, listed: null }, items: [{ plain: null, listed: null }, {}] }), {
      inner: { listed: null },
      items: [{ listed: null }, {}]
    })
    t.same(given({ plain: 'a', listed: 'b', united: 'c' }), { plain: 'a', listed: 'b', united: 'c' })
  }
)

t.test('null members that the schema does not know are dropped, whatever their names', async t => {
  const names = fc.oneof(
    fc.string(),
    fc.constantFrom('constructor', 'toString', 'hasOwnProperty', 'type', 'properties')
  )
  fc.assert(
    fc.property(names, name => {
      fc.pre(!['plain', 'listed', 'united', 'inner', 'items'].includes(name))
      const body = given(JSON.parse(`{${JSON.stringify(name)}: null, "inner": {${JSON.stringify(name)}: null}}`))
      t.same(Object.keys(body as object), ['inner'])
      t.same(Object.keys((body as { inner: object }).inner), [])
    })
  )
  t.same(Object.keys(given(JSON.parse('{"__proto__": null, "__proto__": {"a": 1}}')) as object), [])
})
