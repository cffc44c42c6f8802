import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as fc from 'fast-check'
import t from 'tap'
import { Type } from 'typebox'
import { stringify } from 'yaml'
import { ConfigError, formatProblem } from '../../../src/engine/config/diagnose.ts'
import { List } from '../../../src/engine/config/fields.ts'
import type { Environment } from '../../../src/engine/config/interpolate.ts'
import { interpolate } from '../../../src/engine/config/interpolate.ts'
import { loadConfig, loadConfigText, type LoadOptions } from '../../../src/engine/config/load.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { pluginFacts } from './plugin-facts.ts'

const load = (text: string, env: Environment = {}, options: LoadOptions = {}) =>
  loadConfigText('gateway.yaml', text, env, {
    plugins: pluginFacts,
    providers: providerKinds,
    folder: '/srv/gateway',
    ...options
  })

async function linesOf(text: string, env: Environment = {}, options: LoadOptions = {}) {
  try {
    await load(text, env, options)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(formatProblem)
    throw error
  }
}

const example = `mode:      development                  # production is strict
server:    { listen: "\${HOST:-127.0.0.1}:\${PORT:-8080}", publicUrl: "\${PUBLIC_URL:-}", workers: 1, trustedProxies: [] }
secrets:   { master: "\${BOLTGATE_SECRET:-}", previous: [] }
data:      "\${BOLTGATE_DATA:-./data}"
database:  { url: "\${DATABASE_URL:-pglite:}" }
state:     { url: "\${REDIS_URL:-memory:}" }
lightning: { primary: { kind: sandbox }, alternate: { kind: sandbox } }
payment:   { schemes: [l402, payment] }
plans:     { free: { endpoints: 4 } }
policies:  { global: { limit: 50, window: 1m }, burst: { limit: 10, window: 1m, by: address } }
chains:
  merchant-read: [ correlation, { auth: { as: merchant } }, { throttle: { policy: read } }, internal ]
  paid:
    - correlation
    - throttle: { policy: burst }
      when: { method: POST, path: [ /a, /b/* ], header: x-test }
      mode: observe
    - body-limit:
      disabled: true
    - challenge
    - forward
  proxied: [ throttle, proxy, challenge ]
routes:
  - match: { method: POST, path: [ /api/payments, /api/refunds ] }
    chain: merchant-read
    upstream: { internal: api }
  - match: { path: "/l402/proxy/:proxyId/*" }
    chain: proxied
    upstream: { proxy: ":proxyId" }
  - match: { host: api.example.com, path: /v1/* }
    price: 10 sats
    chain: paid
    upstream: { url: https://internal.example:8443, timeout: 5s, responseLimit: 10MiB }
`

t.test('a file with every kind of setting loads with its defaults', async t => {
  const config = await load(example)
  t.same(config.server.listen, { host: '127.0.0.1', port: 8080 })
  t.equal(config.server.publicUrl, 'http://127.0.0.1:8080', 'derived from listen (decision 21)')
  t.equal(config.server.limits.drainTimeout, 30_000)
  t.equal(config.data, '/srv/gateway/data')
  t.equal(config.database.url, 'pglite:')
  t.equal(config.state.url, 'memory:')
  t.equal(config.payment.tokenValidity, 3_600_000)
  t.equal(config.payment.invoiceExpiry, 600_000)
  t.same(config.plans.free, { endpoints: 4, challengesPerMonth: 200, maxPriceSats: 1000, webhookEndpoints: 1 })
  t.same(config.plans.l402, { webhookEndpoints: 5 }, 'paid plans are unlimited (decision 88)')
})

t.test('the policies of the contract are built in, and the file may replace one and add others', async t => {
  const { policies } = await load(example)
  t.same(policies['global'], { limit: 50, window: 60_000, by: 'principal' })
  t.same(policies['burst'], { limit: 10, window: 60_000, by: 'address' })
  const builtIn = (await load('mode: development')).policies
  t.same(
    Object.fromEntries(
      Object.entries(builtIn).map(([name, { limit, window, sliding, by }]) => [
        name,
        [limit, window / 1000, sliding ?? 0, by]
      ])
    ),
    {
      global: [100, 60, 0, 'principal'],
      read: [200, 60, 0, 'principal'],
      'payment-create': [10, 60, 0, 'principal'],
      write: [20, 60, 0, 'principal'],
      'checkout-create': [5, 60, 0, 'principal'],
      admin: [30, 60, 0, 'principal'],
      webhook: [100, 60, 4, 'principal'],
      'l402-proxy': [100, 60, 0, 'address'],
      'magic-link': [3, 900, 0, 'address'],
      passkey: [20, 900, 0, 'address'],
      console: [600, 60, 0, 'principal']
    }
  )
})

t.test('entries of a chain are resolved, with the settings read by the schema of their plugin', async t => {
  const { chains } = await load(example)
  t.match(chains['paid'], [
    { plugin: 'correlation', config: {}, disabled: false, mode: 'enforce' },
    {
      plugin: 'throttle',
      config: { policy: 'burst' },
      mode: 'observe',
      when: { method: ['POST'], path: ['/a', '/b/*'], header: ['x-test'] },
      at: { file: 'gateway.yaml', line: 15, column: 7 }
    },
    { plugin: 'body-limit', config: { limit: 1_048_576 }, disabled: true },
    { plugin: 'challenge' },
    { plugin: 'forward' }
  ])
})

t.test('routes are resolved: lists are lists, prices satoshis, one upstream', async t => {
  const { routes } = await load(example)
  t.match(routes, [
    {
      name: 'POST /api/payments',
      match: { method: ['POST'], path: ['/api/payments', '/api/refunds'] },
      upstream: { kind: 'internal', name: 'api' },
      tokenPath: 'exact',
      releaseOn: ['5xx', 'client-gone'],
      afterCrash: 'by-method'
    },
    { name: '* /l402/proxy/:proxyId/*', upstream: { kind: 'proxy', param: 'proxyId' } },
    {
      name: '* api.example.com/v1/*',
      price: 10,
      upstream: { kind: 'url', url: ['https://internal.example:8443'], timeout: 5000, responseLimit: 10_485_760 }
    }
  ])
  t.notOk('price' in (routes[0] ?? {}))
})

t.test('the addresses of an upstream are url or urls, not both', async t => {
  const file = (addresses: string) => `chains: { free: [forward] }
routes: [{ match: { path: /a }, chain: free, upstream: { ${addresses} } }]`
  const addresses = '["http://127.0.0.1:9000", "http://127.0.0.1:9001"]'
  for (const name of ['url', 'urls'])
    t.match((await load(file(`${name}: ${addresses}, balance: round-robin`))).routes[0]?.upstream, {
      url: ['http://127.0.0.1:9000', 'http://127.0.0.1:9001']
    })
  t.match(await linesOf(file(`url: "http://127.0.0.1:9000", urls: ${addresses}`)), [
    /found url and urls in one upstream/,
    /unknown key|urls/
  ])
})

t.test('a named upstream is shared by its name', async t => {
  const { routes } = await load(`upstreams: { quotes: { url: "http://127.0.0.1:9000" } }
chains: { free: [forward] }
routes: [{ match: { path: /a }, chain: free, upstream: quotes }]`)
  t.match(routes[0]?.upstream, { kind: 'url', name: 'quotes', url: ['http://127.0.0.1:9000'], timeout: 30_000 })
  t.same(
    await linesOf(`upstreams: { quotes: { url: "http://127.0.0.1:9000" } }
chains: { free: [forward] }
routes: [{ match: { path: /a }, chain: free, upstream: qoutes }]`),
    [
      'gateway.yaml:3:56: routes[0].upstream: found the unknown upstream "qoutes"; allowed: quotes. Did you mean "quotes"? [BG_CONFIG_REFERENCE]'
    ]
  )
})

t.test('everything is frozen, all the way down', async t => {
  const config = await load(example)
  const walk = (value: unknown, path: string) => {
    if (typeof value !== 'object' || value === null) return
    t.ok(Object.isFrozen(value), path)
    for (const [key, inner] of Object.entries(value)) walk(inner, `${path}.${key}`)
  }
  walk(config, 'config')
})

t.test('the environment fills texts, numbers and truth values', async t => {
  const config = await load(
    `server: { listen: "\${HOST:-127.0.0.1}:\${PORT}", workers: "\${WORKERS}" }
payment: { l402Lsat: "\${LSAT}", tokenValidity: "\${VALID}" }
`,
    { PORT: '0', WORKERS: '1', LSAT: 'true', VALID: '2h' }
  )
  t.same(config.server.listen, { host: '127.0.0.1', port: 0 })
  t.equal(config.server.publicUrl, '', 'port 0 is known only once the listener is open')
  t.equal(config.server.workers, 1)
  t.match(config.payment, { l402Lsat: true, tokenValidity: 7_200_000 })
})

t.test('text in quotes stays text where no variable was put in', async t => {
  t.same(await linesOf('server: { workers: "1" }'), [
    'gateway.yaml:1:20: server.workers: found "1"; allowed: a whole number from 1 to 1024. Did you mean 1, without quotes? [BG_CONFIG_VALUE]'
  ])
})

t.test('an optional key or item whose variable is empty counts as left out', async t => {
  const config = await load(
    'lightning: { primary: { key: "${KEY:-}" } }\nserver: { workers: "${WORKERS:-}", trustedProxies: ["${A:-}", 10.0.0.0/8] }'
  )
  t.notOk('key' in config.lightning.primary)
  t.equal(config.server.workers, 1)
  t.same(config.server.trustedProxies, ['10.0.0.0/8'])
})

t.test('interpolation: names, defaults, escapes, and no second pass over a value', async t => {
  const env = { A: 'a', EMPTY: '', NESTED: '${A}' }
  for (const [text, value] of [
    ['${A}', 'a'],
    ['x${A}y${A}z', 'xayaz'],
    ['${NONE:-d}', 'd'],
    ['${EMPTY:-d}', 'd'],
    ['${NONE:-}', ''],
    ['${A:-d}', 'a'],
    ['$${A}', '${A}'],
    ['$A', '$A'],
    ['$', '$'],
    ['${NESTED}', '${A}'],
    ['${NONE:-http://x:1}', 'http://x:1'],
    ['cost $5', 'cost $5']
  ] as const)
    t.match(interpolate(text, env), { value }, text)
  for (const text of ['${', '${A', '${}', '${1A}', '${A:default}', '${NONE}', '${EMPTY}', '${toString}'])
    t.ok('problem' in interpolate(text, env), text)
})

t.test(
  'interpolation: NAME_FILE gives the content of a file where NAME is not set, and says which file is wrong',
  async t => {
    const folder = t.testdir({ secret: 'from a file \n\n', empty: '\n' })
    t.same(interpolate('x${A}', { A_FILE: `${folder}/secret` }), { value: 'xfrom a file', changed: true })
    t.match(interpolate('${A:-d}', { A: '', A_FILE: `${folder}/secret` }), { value: 'from a file' })
    t.match(interpolate('${A}', { A: 'a', A_FILE: `${folder}/none` }), { value: 'a' })
    t.match(interpolate('${A:-d}', { A_FILE: '' }), { value: 'd' })
    t.match(interpolate('${A:-d}', { A_FILE: `${folder}/none` }), {
      problem: /^the file .*none, which A_FILE names, cannot be read \(ENOENT\)/
    })
    t.match(
      interpolate('${A:-d}', { A_FILE: `${folder}/empty` }),
      { problem: /is empty$/ },
      'an empty secret is no reason to make one up'
    )
  }
)

t.test('BOLTGATE_MODE is the mode of a file that names none', async t => {
  t.equal((await load('data: ./data', { BOLTGATE_MODE: 'development' })).mode, 'development')
  t.equal(
    (await load('mode: development', { BOLTGATE_MODE: 'production' })).mode,
    'development',
    'the file has the word'
  )
  await t.rejects(
    load('data: ./data', { BOLTGATE_MODE: 'production' }),
    { message: /production/ },
    'strict as if the file said so'
  )
  await t.rejects(load('data: ./data', { BOLTGATE_MODE: 'producton' }), { message: /mode/ })
})

t.test('a key in an alias is read at each use of the alias', async t => {
  const config = await load(`chains:
  a: &steps [correlation, forward]
  b: *steps
`)
  t.equal(config.chains['b']?.length, 2)
})

t.test("files of a plugin's settings begin in the folder of the configuration, as all others do", async t => {
  const file = Type.Optional(Type.String({ 'x-format': 'file' }))
  const config = Type.Object({ file, deep: Type.Optional(Type.Object({ all: List(file), text: Type.String() })) })
  const plugins = new Map([...pluginFacts, ['keys', { name: 'keys', config }] as const])
  const text = `
chains:
  c: [ { keys: { file: subscribers.txt, deep: { all: [ ./a, /etc/b ], text: a } } }, forward ]
routes:
  - match: { path: / }
    chain: c
    upstream: { url: "http://127.0.0.1:1" }
`
  const { chains } = await load(text, {}, { plugins })
  t.same(chains['c']?.[0]?.config, {
    file: '/srv/gateway/subscribers.txt',
    deep: { all: ['/srv/gateway/a', '/etc/b'], text: 'a' }
  })
})

t.test(
  'a plugin file is loaded by its path relative to the configuration file, and read by its own schema',
  async t => {
    const text = `chains:
  own:
    - ./plugins/stamp.ts: { text: hi }
    - forward
`
    const requests: string[] = []
    const importPlugin = async (file: string) => {
      requests.push(file)
      return { name: 'stamp', config: Type.Object({ text: Type.String(), times: Type.Integer({ default: 1 }) }) }
    }
    const { chains } = await load(text, {}, { importPlugin })
    t.same(requests, ['/srv/gateway/plugins/stamp.ts'])
    t.match(chains['own']?.[0], {
      plugin: './plugins/stamp.ts',
      file: '/srv/gateway/plugins/stamp.ts',
      config: { text: 'hi', times: 1 }
    })
    t.same(await linesOf(text.replace('text: hi', 'txet: hi'), {}, { importPlugin }), [
      'gateway.yaml:3:7: chains.own[0]["./plugins/stamp.ts"].text: found nothing; this key is required: a text [BG_CONFIG_MISSING_KEY]',
      'gateway.yaml:3:29: chains.own[0]["./plugins/stamp.ts"].txet: found the unknown key "txet"; allowed: text, times. Did you mean "text"? [BG_CONFIG_UNKNOWN_KEY]'
    ])
  }
)

t.test('a plugin file that cannot be loaded is a problem at the entry that names it', async t => {
  t.same(
    await linesOf(
      'chains: { own: [./gone.ts, forward] }',
      {},
      {
        importPlugin: async () => {
          throw new Error('no such file\nstack')
        }
      }
    ),
    ['gateway.yaml:1:17: chains.own[0]: the plugin file "./gone.ts" cannot be used: no such file [BG_PLUGIN_SETUP]']
  )
})

t.test('without knowledge of plugins chains are read as written', async t => {
  const config = await loadConfigText('gateway.yaml', 'chains: { a: [{ whatever: { x: 1 } }, other] }', {})
  t.match(config.chains['a'], [
    { plugin: 'whatever', config: { x: 1 } },
    { plugin: 'other', config: {} }
  ])
})

t.test('a chain may leave its end to the upstream of the route', async t => {
  t.same(
    await linesOf(`chains: { a: [correlation] }
routes:
  - { match: { path: /a }, chain: a, upstream: { internal: api } }
  - { match: { path: /b }, chain: a, upstream: { url: "https://b.example" } }`),
    []
  )
})

t.test('a disabled entry counts for nothing in the order of a chain', async t => {
  t.same(await linesOf('chains: { a: [idempotency, { auth: { as: merchant } }, forward] }'), [
    'gateway.yaml:1:15: chains.a[0]: found "idempotency", which needs the principal, without an earlier entry that provides it; allowed: idempotency after auth [BG_CHAIN_ORDER]'
  ])
  t.same(await linesOf('chains: { a: [{ idempotency: , disabled: true }, { auth: { as: merchant } }, forward] }'), [])
})

t.test('a file on disk is read from its place, and a missing one is a ConfigError', async t => {
  const folder = await mkdtemp(join(t.testdir({}), 'config-'))
  const file = join(folder, 'gateway.yaml')
  await writeFile(file, 'data: store\nupstreams: { a: { url: "https://a.example", tls: { ca: ./ca.pem } } }\n')
  await t.rejects(loadConfig(file, {}), {
    message: `${file}:2:56: upstreams.a.tls.ca: found a file that cannot be read; allowed: the path of a readable PEM file, seen from this file`
  })
  await writeFile(join(folder, 'ca.pem'), '')
  const config = await loadConfig(file, {})
  t.equal(config.data, join(folder, 'store'))
  t.equal(config.upstreams['a']?.tls?.ca, join(folder, 'ca.pem'))
  await t.rejects(loadConfig(join(folder, 'none.yaml'), {}), ConfigError)
})

const marker = 'Zq7SecretMarker'
const misplaced: readonly string[] = [
  `secrets: { master: ${marker} }`,
  `secrets: ${marker}`,
  `secrets: [${marker}]`,
  `secrets: { ${marker}0123456789 }`,
  `secrets: { master: { x: ${marker} } }`,
  `secrets: { previous: ${marker} }`,
  `secrets: { previous: [${marker}] }`,
  `secrets: { master: "\${SECRET}" }`,
  `secrets: { previous: ["\${SECRET}"] }`,
  `lightning: { primary: ${marker} }`,
  `lightning: { primary: { key: [${marker}] } }`,
  `lightning: { primary: { kind: "\${SECRET}" } }`,
  `lightning: ${marker}`,
  `database: { url: "mysql://user:${marker}@host/db" }`,
  `database: "postgres://user:${marker}@host/db"`,
  `database: { url: "\${SECRET}" }`,
  `state: { url: "http://:${marker}@host" }`,
  `upstreams: { a: { url: "https://user:${marker}@host" } }`,
  `upstreams: { a: { url: "https://a.example", headers: { authorization: [${marker}] } } }`,
  `server: { listen: "\${SECRET}" }`,
  `chains: { a: ["\${SECRET}"] }`,
  `mode: "\${SECRET}"`,
  `secrets: { master: "${marker} }`,
  `secrets: { master: ${marker}: x }`,
  `secrets:\n\tmaster: ${marker}`,
  `secrets: { master: !${marker} x }`,
  `secrets: { master: *${marker} `
]

for (const text of misplaced) {
  t.test(`no message shows the secret in ${JSON.stringify(text.replaceAll(marker, '…'))}`, async t => {
    const lines = await linesOf(text, { SECRET: marker })
    t.ok(lines.length > 0)
    t.notMatch(lines.join('\n'), marker)
  })
}

const line = /^gateway\.yaml:[1-9][0-9]*:[1-9][0-9]*: [^\n\r\u2028\u2029]+$/

async function onlyConfigErrors(text: string) {
  for (const message of await linesOf(text, { PORT: '80' }, { internals: ['api'] }))
    if (!line.test(message)) throw new Error(`not one clear line: ${JSON.stringify(message)}`)
}

t.test('no text whatever makes the loader throw anything but a ConfigError', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: fc.constantFrom(...'{}[]:,-#&*!|>%@`"\' \n\tax1$') })),
      onlyConfigErrors
    ),
    { numRuns: 300 }
  )
})

t.test('no edit of a sound file makes the loader throw anything but a ConfigError', async () => {
  const edit = fc.record({
    at: fc.nat(example.length),
    drop: fc.nat(12),
    put: fc.string({ unit: fc.constantFrom(...'{}[]:,-&*! \n\t${}"\'~0a'), maxLength: 4 })
  })
  await fc.assert(
    fc.asyncProperty(fc.array(edit, { minLength: 1, maxLength: 4 }), edits => {
      let text = example
      for (const { at, drop, put } of edits) text = text.slice(0, at) + put + text.slice(at + drop)
      return onlyConfigErrors(text)
    }),
    { numRuns: 300 }
  )
})

t.test('no YAML of known keys with values of any kind makes the loader throw anything but a ConfigError', async () => {
  const words = [
    'mode',
    'server',
    'listen',
    'limits',
    'secrets',
    'master',
    'lightning',
    'primary',
    'kind',
    'policies',
    'limit',
    'window',
    'chains',
    'paid',
    'throttle',
    'policy',
    'when',
    'disabled',
    'forward',
    'routes',
    'match',
    'path',
    'method',
    'chain',
    'upstream',
    'upstreams',
    'url',
    'proxy',
    'price',
    'constructor',
    '__proto__',
    'toString',
    ''
  ]
  const { value } = fc.letrec<{ value: unknown }>(tie => ({
    value: fc.oneof(
      { depthSize: 'medium' },
      fc.constantFrom<unknown>(
        ...words,
        '${PORT}',
        '${NONE}',
        '10s',
        '1 sat',
        '/a/*',
        'https://a',
        null,
        true,
        0,
        -1,
        1.5,
        Number.POSITIVE_INFINITY,
        Number.NaN
      ),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...words), tie('value'), { maxKeys: 5 })
    )
  }))
  const top = fc.dictionary(
    fc.constantFrom(
      'mode',
      'server',
      'secrets',
      'lightning',
      'policies',
      'chains',
      'routes',
      'upstreams',
      'payment',
      'plans',
      'constructor'
    ),
    value
  )
  await fc.assert(
    fc.asyncProperty(top, file => onlyConfigErrors(stringify(file))),
    { numRuns: 500 }
  )
})

t.test('nesting, aliases and size without end are refused', async t => {
  const bomb = `a: &a [x, x, x, x, x, x, x, x, x, x]\n${[...'bcdefghi'].map((name, index) => `${name}: &${name} [${Array.from({ length: 10 }, () => `*${'abcdefgh'[index] ?? ''}`).join(', ')}]`).join('\n')}`
  for (const [text, message] of [
    ['['.repeat(50_000), /:1:[0-9]+: found /],
    [`a: ${'['.repeat(100)}${']'.repeat(100)}`, /found too many or too deeply nested values/],
    [`a: [${'1,'.repeat(100_001)}]`, /found too many or too deeply nested values/],
    ['a: &a [*a]', /1:8: a\[0\]: found the alias \*a inside its own anchor/],
    ['a: *b', /1:4: a: found the alias \*b without its anchor/],
    [bomb, /found more than 1000 aliases/],
    [`a: ${'x'.repeat(2_000_000)}`, /found 2000003 characters; allowed: at most 1048576/],
    ['__proto__: { mode: x }', /1:1: found the key "__proto__"; allowed: any other name/],
    ['? [a]\n: b', /1:3: found a key that is no text/],
    ['a: 1\n---\nb: 2', /found a second document/],
    ['', /found an empty file/]
  ] as const)
    t.match((await linesOf(text)).join('\n'), message, text.slice(0, 40))
})

t.test('a text with line ends of any sort in it stays on one line of the message', async t => {
  const lines = await linesOf('mode: "a\\nb\\Lc\\Nd\\u001be"')
  t.same(lines, [
    'gateway.yaml:1:7: mode: found "a\\nb\\u2028c\\u0085d\\u001be"; allowed: development, production [BG_CONFIG_VALUE]'
  ])
})

t.test('paths of routes are those that the router and the front door can meet', async t => {
  const path = (text: string) =>
    linesOf(
      `chains: { a: [correlation] }\nroutes: [{ match: { path: ${JSON.stringify(text)} }, chain: a, upstream: { internal: api } }]`
    )
  for (const good of ['/', '/*', '/a', '/a/', '/a/:b', '/:a/:b/*', '/a.b/c-d_e~f', '/%2F', "/a'b(c)"])
    t.same(await path(good), [], good)
  for (const bad of [
    '',
    'a',
    '*',
    '/a*',
    '/*/a',
    '/**',
    '/a//b',
    '//',
    '/a/./b',
    '/a/..',
    '/a?b',
    '/a#b',
    '/a\\b',
    '/a b',
    '/ä',
    '/a/:',
    '/a/:1',
    '/a:b',
    '/:a-:b'
  ])
    t.equal((await path(bad)).length, 1, bad)
})

t.test('addresses to listen on', async t => {
  for (const [listen, host, port, publicUrl] of [
    ['127.0.0.1:80', '127.0.0.1', 80, 'http://127.0.0.1'],
    ['0.0.0.0:8080', '0.0.0.0', 8080, 'http://127.0.0.1:8080'],
    ['[::]:8080', '::', 8080, 'http://127.0.0.1:8080'],
    ['[::1]:8080', '::1', 8080, 'http://[::1]:8080'],
    ['localhost:65535', 'localhost', 65535, 'http://localhost:65535']
  ] as const)
    t.match((await load(`server: { listen: "${listen}" }`)).server, { listen: { host, port }, publicUrl }, listen)
  const several = await load('server: { listen: ["unix:run/http.sock", "0.0.0.0:443", "http://[::]:80"] }')
  t.match(several.server, {
    publicUrl: 'http://127.0.0.1:443',
    addresses: [
      { kind: 'unix', path: /^\/.*run\/http\.sock$/ },
      { kind: 'tcp', host: '0.0.0.0', port: 443, isPlain: false },
      { kind: 'tcp', host: '::', port: 80, isPlain: true }
    ]
  })
  const tls = 'tls: [{ cert: cert.pem, key: key.pem }]'
  for (const [listen, publicUrl] of [
    ['"http://0.0.0.0:80", "0.0.0.0:443"', 'https://127.0.0.1'],
    ['"http://127.0.0.1:8080", "0.0.0.0:8443"', 'https://127.0.0.1:8443'],
    ['"http://127.0.0.1:8080"', 'http://127.0.0.1:8080']
  ] as const)
    t.equal((await load(`server: { listen: [${listen}], ${tls} }`)).server.publicUrl, publicUrl, listen)
  t.match(await linesOf('server: { listen: "unix:/run/a.sock" }'), [/server\.listen: found Unix sockets alone/])
  for (const listen of [
    '',
    '8080',
    ':8080',
    '127.0.0.1',
    '127.0.0.1:',
    '127.0.0.1:-1',
    '127.0.0.1:65536',
    '[::g]:1',
    '::1:80',
    'a b:80',
    'https://a:80',
    'unix:',
    'a127.0.0.1:80',
    '256.0.0.1:80'
  ]) {
    t.equal((await linesOf(`server: { listen: "${listen}" }`)).length, 1, listen)
  }
})

t.test('trusted proxies are addresses and ranges', async t => {
  for (const good of ['10.0.0.7', '10.0.0.0/8', 'fd00::/8', '::1'])
    t.same(await linesOf(`server: { trustedProxies: ["${good}"] }`), [], good)
  for (const bad of ['localhost', '10.0.0.0/33', '10', '*', '10.0.0.0/'])
    t.equal((await linesOf(`server: { trustedProxies: ["${bad}"] }`)).length, 1, bad)
})

t.test('the same name for two routes, the same item twice and TLS beside plain HTTP are refused', async t => {
  t.same(
    await linesOf(`payment: { schemes: [l402, l402] }
chains: { a: [forward] }
routes:
  - { name: x, match: { path: /a }, chain: a, upstream: { url: "http://a.example", tls: { servername: b.example } } }
  - { name: x, match: { path: /b }, chain: a, upstream: { url: "https://a.example" } }`),
    [
      'gateway.yaml:1:28: payment.schemes[1]: found the same item a second time; allowed: each item once [BG_CONFIG_DUPLICATE]',
      'gateway.yaml:4:84: routes[0].upstream.tls: found tls beside a plain http address; allowed: tls beside an https address [BG_CONFIG_CONFLICT]',
      'gateway.yaml:5:13: routes[1].name: found the name "x" a second time; allowed: each name once (the first is on line 4) [BG_CONFIG_DUPLICATE]'
    ]
  )
})

t.test('a plugin may say what must not come after it', async t => {
  const plugins = new Map([...pluginFacts, ['gate', { name: 'gate', config: Type.Object({}), after: ['correlation'] }]])
  t.same(await linesOf('chains: { a: [gate, correlation, forward] }', {}, { plugins }), [
    'gateway.yaml:1:21: chains.a[1]: found "correlation" after gate; allowed: correlation before gate [BG_CHAIN_ORDER]'
  ])
  t.same(await linesOf('chains: { a: [correlation, gate, forward] }', {}, { plugins }), [])
})
