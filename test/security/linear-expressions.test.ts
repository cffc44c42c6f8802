import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'

/** Expressions that may be slow, each with the reason why no input reaches them. */
const OURS: Readonly<Record<string, string>> = {
  'src/platform/database/migrations.ts': 'reads the source of our own migrations',
  'src/selling/rpc/json-text.ts': 'reads JSON numbers, which hold no line end to fail at'
}

/** Patterns that are computed, each with the place where the check finds what they are computed from. */
const COMPUTED: Readonly<Record<string, string>> = {
  'src/engine/config/allowed.ts': 'schemas, whose patterns are literals',
  'src/engine/config/effective.ts': 'schemas, whose patterns are literals',
  'src/engine/config/read.ts': 'schemas, whose patterns are literals',
  'src/engine/config/units.ts': 'the literals of its table',
  'src/engine/formats/response-schema.ts': 'schemas, whose patterns are literals',
  'src/engine/operations/validation.ts': 'schemas, whose patterns are literals',
  'src/engine/openapi/openapi.ts': 'operations, whose patterns are literals',
  'src/engine/sections/payment.ts': 'the names of its list of exchanges',
  'src/payments/proxies/pricing.ts': 'not an expression: the path of a price'
}

interface Report {
  readonly checked: number
  readonly slow: readonly { readonly place: string; readonly expression: string; readonly verdict: string }[]
  readonly unreadable: readonly string[]
}

t.test('expressions: none in src and plugins takes more than linear time', async t => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--disable-warning=ExperimentalWarning',
    '.ci/expressions.mjs'
  ])
  const { checked, slow, unreadable } = JSON.parse(stdout) as Report /* what the script prints */
  t.ok(checked > 300, `${checked} expressions were found`)
  t.same(
    slow.filter(({ place }) => OURS[place.replace(/:\d+$/, '')] === undefined),
    [],
    'each is linear, or is in OURS with a reason'
  )
  t.same(
    unreadable.filter(each => COMPUTED[each.split(':', 1)[0] ?? ''] === undefined),
    [],
    'each can be read from the source, or is in COMPUTED'
  )
})
