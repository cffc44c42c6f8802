import { readFile } from 'node:fs/promises'
import t from 'tap'
import { Type } from 'typebox'
import { Check } from 'typebox/schema'
import { parse } from 'yaml'
import { jsonSchema } from '../../../src/engine/config/json-schema.ts'
import { keywordsOf, type Keywords } from '../../../src/engine/config/keywords.ts'
import { referencePage } from '../../../src/engine/config/reference.ts'
import { fileSchema } from '../../../src/engine/config/schema.ts'
import { pluginFacts } from './plugin-facts.ts'

const schema = jsonSchema(pluginFacts.values())
const accepts = (text: string) => Check(schema, parse(text))

t.test('the published schema is plain JSON without keywords of our own', async t => {
  const text = JSON.stringify(schema)
  t.notMatch(text, '"x-')
  t.same(JSON.parse(text), schema)
})

t.test('the published schema accepts what the loader accepts', async t => {
  for (const text of [
    'mode: development',
    'server: { listen: "${HOST:-127.0.0.1}:${PORT:-8080}", workers: "${WORKERS}" }',
    'payment: { tokenValidity: 1h, schemes: [l402] }',
    'policies: { burst: { limit: 3, window: 15m } }',
    'chains: { a: [correlation, { throttle: { policy: read }, mode: observe }, { auth: { as: merchant } }, { idempotency: }, ./own.ts, { ./own.ts: { x: 1 } }, forward], b: [internal] }',
    'routes: [{ match: { path: [/a, /b/*], method: POST }, chain: a, price: 10 sats, upstream: { internal: api } }, { match: { path: /c }, chain: a, upstream: shared }]'
  ])
    t.ok(accepts(text), text)
})

t.test('the published schema refuses what the loader refuses', async t => {
  for (const text of [
    'mod: development',
    'mode: staging',
    'server: { workers: two }',
    'payment: { tokenValidity: 3600 }',
    'payment: { tokenValidity: 1 hour }',
    'policies: { burst: { limit: 3 } }',
    'policies: { burst: { limit: 0, window: 1m } }',
    'chains: { a: [thorttle] }',
    'chains: { a: [{ auth: { as: guest } }] }',
    'chains: { a: [{ correlation: , disable: true }] }',
    'routes: [{ match: {}, chain: a, upstream: b }]'
  ])
    t.notOk(accepts(text), text)
})

/** Every key below a schema, with the description that it lacks or has. */
function keysOf(schema: Keywords, path = ''): { path: string; described: boolean }[] {
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, property]) => [
    { path: `${path}.${name}`, described: (property.description ?? '') !== '' },
    ...keysOf(property, `${path}.${name}`)
  ])
  const inner = [
    ...Object.values(schema.patternProperties ?? {}),
    ...(schema.anyOf ?? []),
    ...(schema.items === undefined ? [] : [schema.items].flat())
  ]
  return [...own, ...inner.flatMap(form => keysOf(form, path))]
}

t.test('every key of the file has a description', async t => {
  const keys = keysOf(keywordsOf(fileSchema()))
  t.ok(keys.length > 80)
  t.same(
    keys.filter(key => !key.described),
    []
  )
})

t.test('the reference page has every key, its type and its default', async t => {
  const page = referencePage(pluginFacts.values())
  for (const row of [
    '| `mode` | `development`, `production` | `development` |',
    '| `server.limits.drainTimeout` | duration | `30s` |',
    '| `payment.invoiceExpiry` | duration | `10m` |',
    '| `secrets.master` | text (secret) | empty |',
    '| `policies.<name>.limit` | a whole number of at least 1 | *required* |',
    '| `routes[].match.path` |',
    '| `routes[].upstream.proxy` |',
    '| `webhook` | 100 | 1m, sliding in 4 segments | principal |',
    '### throttle\n\nComes before `challenge`.\n\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n| `policy` | name of a policy | `global` |',
    '### correlation\n\nNo settings.',
    'Provides the principal; comes before `idempotency`.',
    '| `limit` | size | `1MiB` | Largest body. |'
  ])
    t.ok(page.includes(row), row)
  for (const { path } of keysOf(keywordsOf(fileSchema()))) {
    const last = path.split('.').at(-1) ?? ''
    t.ok(new RegExp(`[\`.]${last}[\`.\\[]|^## ${last}$`, 'm').test(page), path)
  }
})

t.test('a bar in a description does not break the table', async t => {
  const page = referencePage([{ name: 'odd', config: Type.Object({ a: Type.String({ description: 'x | y\nz' }) }) }])
  t.ok(page.includes('| `a` | a text | *required* | x \\| y z |'))
})

t.test('the loader imports nothing of the gateway but what the system room knows', async t => {
  for (const name of [
    'config/load',
    'config/read',
    'config/schema',
    'config/diagnose',
    'checks/route-checks',
    'checks/settings-checks',
    'checks/sale',
    'checks/chains',
    'config/document',
    'config/watch',
    'config/json-schema',
    'config/reference'
  ]) {
    const source = await readFile(new URL(`../../../src/engine/${name}.ts`, import.meta.url), 'utf8')
    const outside = [...source.matchAll(/from '(\.\.\/[^']+)'/g)].map(match => match[1])
    t.same(
      outside.filter(
        path => !/^(?:\.\.\/(?:checks|config|sections)\/|\.\.\/\.\.\/platform\/system\/)/.test(path ?? '')
      ),
      [],
      name
    )
  }
})
