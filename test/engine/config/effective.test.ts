import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { changesBetween, effective, HIDDEN } from '../../../src/engine/config/effective.ts'
import { keywordsOf, type Keywords } from '../../../src/engine/config/keywords.ts'
import { fileSchema } from '../../../src/engine/config/schema.ts'
import { temporaryFolder } from '../../support/database.ts'
import { loadText } from '../../support/gateway.ts'

/** Places where a file may hold secrets: what the schema calls a secret, and addresses with a query. */
function placesOf(schema: Keywords, path: string): string[] {
  const inner = (next: Keywords | undefined, step: string): string[] =>
    next === undefined ? [] : placesOf(next, `${path}${step}`)
  if (schema['x-secret'] === true || schema['x-format'] === 'http-url') return [path]
  return [
    ...(schema['x-list'] === undefined
      ? (schema.anyOf ?? []).flatMap(one => inner(one, ''))
      : inner(schema['x-list'], '[]')),
    ...(schema.items === undefined || Array.isArray(schema.items) ? [] : inner(schema.items as Keywords, '[]')),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, one]) => inner(one, path === '' ? name : `.${name}`)),
    ...Object.values(schema.patternProperties ?? {}).flatMap(one => inner(one, '.*')),
    ...(typeof schema.additionalProperties === 'object' ? inner(schema.additionalProperties, '.*') : [])
  ]
}

/** Each place, and a secret of its own that the file below has there. */
const SECRETS: Readonly<Record<string, string>> = {
  'secrets.master': 'SECRET-master-0123456789012345678901234567',
  'secrets.adminKey': 'SECRET-admin-0123456789',
  'secrets.previous[]': 'SECRET-previous-0123456789012345678901234567',
  'database.url': 'SECRET-database',
  'discovery.icon': 'SECRET-icon',
  'database.listenUrl': 'SECRET-listen',
  'state.url': 'SECRET-state',
  'lightning.primary[].key': 'SECRET-primary-key',
  'lightning.alternate[].key': 'SECRET-alternate-key',
  'mail.smtp': 'SECRET-smtp',
  'billing.key': 'SECRET-billing',
  'billing.webhookSecret': 'SECRET-webhook',
  'pages.home': 'SECRET-home',
  'upstreams.*.headers.*': 'SECRET-shared-header',
  'upstreams.*.fallback[].headers.*': 'SECRET-shared-fallback',
  'routes[].upstream.headers.*': 'SECRET-header',
  'routes[].upstream.fallback[].headers.*': 'SECRET-fallback',
  'routes[].price.from': 'SECRET-price-server'
}
/** Others that only people know for secrets. */
const FURTHER = [
  'SECRET-customer',
  'SECRET-query',
  'SECRET-plugin',
  'SECRET-nested',
  'SECRET-name',
  'SECRET-database-user'
]

const file = (
  pluginFile: string,
  price = '{ by: { header: x-key }, of: { SECRET-customer: 5 sats }, else: 9 sats }'
) => `
secrets: { master: ${SECRETS['secrets.master']}, adminKey: ${SECRETS['secrets.adminKey']}, previous: [ ${SECRETS['secrets.previous[]']} ] }
database: { url: "postgres://SECRET-database-user:SECRET-database@db.example.com/x", listenUrl: "postgres://u:SECRET-listen@db.example.com/x" }
state: { url: "redis://u:SECRET-state@redis.example.com" }
lightning: { primary: [ { kind: strike, key: SECRET-primary-key } ], alternate: { kind: opennode, key: SECRET-alternate-key } }
mail: { from: a@example.com, smtp: "smtps://u:SECRET-smtp@mail.example.com" }
billing: { kind: stripe, key: SECRET-billing, webhookSecret: SECRET-webhook, prices: { individual: price_1 } }
pages: { home: "https://example.com/?key=SECRET-home" }
discovery: { icon: "https://example.com/icon.png?key=SECRET-icon" }
operators: ada@example.com
upstreams: { shared: { url: "https://shared.example.com", headers: { X-Key: SECRET-shared-header }, fallback: [ { url: "https://b.example.com", headers: { X-Key: SECRET-shared-fallback } } ] } }
chains:
  mine: [ { throttle: { policy: read } }, { "${pluginFile}": { token: SECRET-plugin, kind: loud, size: 3, deep: { SECRET-name: SECRET-nested } }, when: { method: GET } } ]
routes:
  - { match: { path: /a }, chain: paid, price: ${price}, upstream: { url: "https://a.example.com/v1", headers: { Authorization: "Bearer SECRET-header" }, fallback: [ { url: "https://b.example.com", headers: { X-Key: SECRET-fallback } } ] } }
  - { match: { path: /b }, chain: paid, price: { from: "https://price.example.com/?key=SECRET-price-server" }, upstream: shared }
  - { match: { path: /c }, chain: paid, price: { by: { query: key }, of: { SECRET-query: 5 sats } }, upstream: shared }
  - { match: { path: /d }, chain: mine, upstream: shared }
`

t.test('a secret in every place that the schema has one is shown nowhere', async t => {
  const folder = temporaryFolder(t)
  const pluginFile = join(folder, 'loud.mjs')
  writeFileSync(
    pluginFile,
    `import { definePlugin, Type } from '${join(import.meta.dirname, '../../../src/index.ts')}'
export default definePlugin({ name: 'loud', description: 'x', config: Type.Object({
  token: Type.String(), kind: Type.Union([Type.Literal('loud'), Type.Literal('quiet')]), size: Type.Integer(),
  deep: Type.Record(Type.String(), Type.String()) }), setup: () => ({}) })`
  )
  const places = [...new Set(placesOf(keywordsOf(fileSchema()), ''))].sort()
  t.same(places, Object.keys(SECRETS).sort(), 'the file below has all of them')
  const { config, plugins } = await loadText(file(pluginFile), {})
  const { yaml, leaves } = effective(config, plugins)
  for (const secret of [...Object.values(SECRETS), ...FURTHER]) {
    t.notOk(yaml.includes(secret), secret)
    t.notOk(
      [...leaves].some(([path, { shown }]) => `${path}${shown}`.includes(secret)),
      `${secret} in a leaf`
    )
  }
  for (const shown of [
    'key: (hidden)',
    'https://price.example.com/?key=hidden',
    'https://a.example.com/v1',
    'policy: read',
    'kind: loud',
    'size: 3',
    'ada@example.com',
    'timeout: 30s',
    '9 sats',
    '(value 1): 5 sats'
  ])
    t.ok(yaml.includes(shown), shown)
  t.notMatch(yaml, /unknown/)

  const next = await loadText(
    file(pluginFile, '12 sats')
      .replace('SECRET-smtp', 'SECRET-other')
      .replace('adminKey: SECRET-admin-0123456789, ', ''),
    {}
  )
  const changes = changesBetween({ yaml, leaves }, effective(next.config, next.plugins))
  t.match(
    changes.filter(({ path }) => path.startsWith('mail')),
    [{ path: 'mail.smtp', before: HIDDEN, after: HIDDEN }],
    'that a secret changed is said, and nothing of it'
  )
  t.ok(changes.some(({ path, after }) => path.endsWith('.price') && after === '12 sats'))
  t.ok(changes.some(({ path, before, after }) => path.endsWith('.price.else') && before === '9 sats' && after === null))
  t.notMatch(JSON.stringify(changes), /SECRET/)
})

t.test('addresses of an upstream are shown as written, named or not', async t => {
  const urls = 'url: [ "http://a.example", "http://b.example" ]'
  const { config, plugins } = await loadText(
    `upstreams: { several: { ${urls} } }\nroutes: [ { match: { path: /a }, chain: paid, upstream: { ${urls} } } ]`,
    {}
  )
  const { yaml } = effective(config, plugins)
  t.equal(yaml.match(/url:\n +- http:\/\/a.example/g)?.length, 2)
})
