import { NoDeprecatedCustomRule, parse, validate } from 'graphql'
import t from 'tap'
import { OPERATIONS } from '../../src/shop/shopify/operations.ts'
import { adminSchema, MOST_POINTS, pointsOf } from '../fakes/shopify-schema.ts'

/** As many as are asked for at a time. */
const VARIABLES = { ids: Array.from({ length: 20 }, (_, index) => String(index)) }

function nameOf(text: string) {
  return /^\w+ (\w+)/.exec(text)?.[1] ?? text
}

for (const version of ['2026-04', '2026-10'] as const) {
  t.test(
    `every operation is valid by the published schema of ${version}, and uses nothing that is deprecated`,
    async t => {
      const schema = adminSchema(version)
      for (const { text } of OPERATIONS) {
        const document = parse(text)
        t.same(
          validate(schema, document).map(({ message }) => message),
          [],
          nameOf(text)
        )
        t.same(
          validate(schema, document, [NoDeprecatedCustomRule]).map(({ message }) => message),
          [],
          nameOf(text)
        )
      }
      t.ok(validate(schema, parse('{ shop { nickname } }')).length > 0, 'and the check finds something')
    }
  )
}

t.test('no operation needs more points than one query may, and each is budgeted at least its cost', async t => {
  for (const { text, cost } of OPERATIONS) {
    const points = pointsOf(adminSchema('2026-10'), parse(text), VARIABLES)
    t.ok(points > 0 && points < MOST_POINTS, `${points} points`)
    t.ok(cost >= points, `${nameOf(text)} costs ${points}, taken to cost ${cost}`)
  }
})
