import { readFileSync } from 'node:fs'
import t from 'tap'
import { loadText, rootFolder, startGateway } from '../../support/gateway.ts'
import { dryRun } from '../../../src/app/cli/dry-run.ts'
import { formatProblem } from '../../../src/engine/config/diagnose.ts'

/** What `check` says of a file: its mistakes, and after `warning:` its warnings. */
async function check(yaml: string, env: Readonly<Record<string, string>> = {}) {
  try {
    const loaded = await loadText(yaml, env)
    return (await dryRun(loaded)).warnings.map(warning => `warning: ${formatProblem(warning)}`)
  } catch (error) {
    return String(error instanceof Error ? error.message : error).split('\n')
  }
}

const up = 'upstream: { url: "http://127.0.0.1:9" }'
const file = (chain: string, route: string, more = '') => `${more}chains:
  c: [ ${chain} ]
routes:
  - { match: { path: /v1/* }, chain: c, ${route} }
`

/** Files that must not pass, and what is said of each. */
const REFUSED: ReadonlyArray<readonly [name: string, yaml: string, line: RegExp]> = [
  // What would be served for nothing, or paid for nothing.
  [
    'credential without challenge',
    file('throttle, credential', `price: 10, ${up}`),
    /^gateway\.yaml:4:41: routes\[0\]\.price: found a price, but the chain "c" asks for no payment; allowed: a chain with an entry that does, such as challenge \[BG_CHAIN_SALE\]$/
  ],
  [
    'a challenge that is disabled',
    file('throttle, credential, { challenge: {}, disabled: true }', `price: 10, ${up}`),
    /^gateway\.yaml:4:41: .*"challenge" \(line 2\) of the chain "c" is disabled/
  ],
  [
    'a challenge that a mistyped path leaves out',
    file('throttle, credential, { challenge: {}, when: { path: /v2/* } }', `price: 10, ${up}`),
    /^gateway\.yaml:4:41: .*"challenge" \(line 2\) of the chain "c" takes part only under its "when"/
  ],
  [
    'a meter that only observes',
    file(
      'throttle, credential, challenge, { meter: {}, mode: observe }',
      `meter: { bundle: 9 sats, prices: 1 sat }, ${up}`
    ),
    /^gateway\.yaml:4:41: routes\[0\]\.meter: found a meter, but "meter" \(line 2\) of the chain "c" only observes; allowed: the entry without mode \[BG_CONFIG_CONFLICT\]$/
  ],
  [
    'a meter for one method alone',
    file(
      'throttle, credential, challenge, { meter: {}, when: { method: GET } }',
      `meter: { bundle: 9 sats, prices: 1 sat }, ${up}`
    ),
    /"meter" \(line 2\) of the chain "c" takes part only under its "when"; allowed: the entry without when, or with/
  ],
  [
    'a challenge for one method alone',
    file('throttle, credential, { challenge: {}, when: { method: GET } }', `price: 10, ${up}`),
    /takes part only under its "when"/
  ],
  [
    'a challenge for anonymous clients alone',
    file(
      'throttle, { auth: { as: merchant, optional: true } }, credential, { challenge: {}, when: { authenticated: false } }',
      `price: 10, ${up}`
    ),
    /takes part only under its "when"/
  ],
  [
    'challenge without credential',
    file('throttle, challenge', `price: 10, ${up}`),
    /^gateway\.yaml:2:18: chains\.c\[1\]: found "challenge", which needs the payment, without an earlier entry that provides it; allowed: challenge after credential \[BG_CHAIN_ORDER\]$/
  ],
  [
    'challenge before credential',
    file('throttle, challenge, credential', `price: 10, ${up}`),
    /^gateway\.yaml:2:18: chains\.c\[1\]: found "challenge", which needs the payment/
  ],
  [
    'challenge alone, where no price is named',
    file('throttle, challenge', up),
    /^gateway\.yaml:2:18: .*"challenge", which needs the payment/
  ],
  [
    'a credential that is looked at for some requests only',
    file('throttle, { credential: {}, when: { method: GET } }, challenge', `price: 10, ${up}`),
    /^gateway\.yaml:4:38: routes\[0\]\.chain: .*"credential" \(line 2\) takes part only under its "when": who pays what "challenge" \(line 2\) asks for would not be served/
  ],
  [
    'the same without a price',
    file('throttle, { credential: {}, when: { method: GET } }, challenge', up),
    /takes part only under its "when": who pays/
  ],
  // What only the plugins themselves know.
  [
    'the chain of proxies before an own upstream',
    file('throttle, proxy, credential, challenge', `price: 10, ${up}`),
    /^gateway\.yaml:2:18: plugin "proxy" could not be set up for route "\* \/v1\/\*": the plugin proxy needs a route with upstream/
  ],
  [
    'a proxy without the entry proxy',
    file('throttle, credential, challenge', 'upstream: { proxy: ":id" }').replace('/v1/*', '/p/:id/*'),
    /routes\[0\]\.chain: found the chain "c", in which nothing looks the proxy up; allowed: a chain with proxy before credential/
  ],
  [
    'a proxy that is looked up too late',
    file('throttle, credential, proxy, challenge', 'upstream: { proxy: ":id" }').replace('/v1/*', '/p/:id/*'),
    /"proxy" \(line 2\) comes after "credential" \(line 2\), which must know the price/
  ],
  [
    'a proxy without a price',
    file('throttle, proxy, credential', 'upstream: { proxy: ":id" }').replace('/v1/*', '/p/:id/*'),
    /found a merchant's proxy, but the chain "c" asks for no payment/
  ],
  [
    'a body limit behind the challenge',
    file('throttle, proxy, credential, challenge, body-limit', 'upstream: { proxy: ":id" }').replace(
      '/v1/*',
      '/p/:id/*'
    ),
    /^gateway\.yaml:2:48: chains\.c\[4\]: found "body-limit" after credential; allowed: body-limit before credential \[BG_CHAIN_ORDER\]$/
  ],
  [
    'a prefix that the path does not begin with',
    file('throttle', 'upstream: { url: "http://127.0.0.1:9", stripPrefix: /api }'),
    /^gateway\.yaml:4:\d+: routes\[0\]\.upstream\.stripPrefix: found the stripPrefix "\/api", with which the path "\/v1\/\*" does not begin/
  ],
  [
    'a prefix that only the letters begin with',
    file('throttle', 'upstream: { url: "http://127.0.0.1:9", stripPrefix: /v }'),
    /found the stripPrefix "\/v"/
  ],
  // Callers that operations need.
  [
    'operations of merchants without auth',
    file('throttle', 'upstream: { internal: api }').replace('/v1/*', '/api/payments'),
    /^gateway\.yaml:4:5: found the chain "c" before (GET|POST) \/api\/payments.*, which needs a merchant's key; allowed: a chain with \{ auth: \{ as: merchant \} \}/
  ],
  [
    'operations of the operator for merchants',
    file('{ auth: { as: merchant } }', 'upstream: { internal: api }').replace('/v1/*', '/api/admin/*'),
    /^gateway\.yaml:4:5: found the chain "c" before \w+ \/api\/admin\/\S+ and \d+ more, which needs the admin key; allowed: a chain with \{ auth: \{ as: admin \} \}/
  ],
  [
    'auth that may be left out',
    file('{ auth: { as: merchant, optional: true } }', 'upstream: { internal: api }').replace('/v1/*', '/api/payments'),
    /needs a merchant's key/
  ],
  [
    'auth for some requests',
    file('{ auth: { as: merchant }, when: { header: x-a } }', 'upstream: { internal: api }').replace(
      '/v1/*',
      '/api/payments'
    ),
    /needs a merchant's key/
  ],
  [
    'the ping without payment',
    file('throttle', 'upstream: { internal: api }').replace('/v1/*', '/l402/test/ping'),
    /before GET \/l402\/test\/ping, which needs a payment; allowed: a price, and a chain with credential and challenge/
  ],
  // Keys.
  [
    'an invalid key of lnd',
    file('throttle', up, 'lightning: { primary: { kind: lnd, key: abc } }\n'),
    /^gateway\.yaml:1:41: lightning\.primary\.key: The lnd key must have the form lndconnect:\/\//
  ],
  [
    'a key of strike that no header can carry',
    file('throttle', up, 'lightning: { alternate: { kind: strike, key: "a b" } }\n'),
    /^gateway\.yaml:1:46: lightning\.alternate\.key: found a key with spaces/
  ],
  // Texts.
  [
    'a tab',
    'chains:\n\tc: [ throttle ]\n',
    /^gateway\.yaml:2:1: found a tab in the indentation; allowed: spaces only, such as two for each tab \[BG_CONFIG_SYNTAX\]$/
  ],
  [
    'a colon that is missing',
    'mode development\n# on\nlightning:\n  primary: { kind: sandbox }\n',
    /^gateway\.yaml:1:1: found a line without the colon of "key: value"/
  ],
  [
    'a colon that is missing before a nested key',
    'secrets:\n  master ""\n  adminKey: ""\n',
    /^gateway\.yaml:2:3: found a line without the colon/
  ],
  [
    'a colon that is missing at the end of a block',
    'routes:\n  - match: { path: /a }\n    chain c\n\nchains: { c: [ throttle ] }\n',
    /^gateway\.yaml:3:5: found a line without the colon/
  ],
  [
    'a colon that is missing before braces',
    'chains:\n  c:\n    - throttle { policy: global }\n',
    /^gateway\.yaml:3:7: .*found no colon after "throttle"/
  ],
  [
    'an address in place of a name',
    file('throttle', 'upstream: http://127.0.0.1:9000'),
    /upstream: found the address "http:\/\/127\.0\.0\.1:9000" where a name is expected; allowed: \{ url: "http:\/\/127\.0\.0\.1:9000" \}, or the name of an upstream under upstreams \[BG_CONFIG_REFERENCE\]$/
  ],
  [
    'braces in a path',
    file('throttle', up).replace('/v1/*', '/v1/{id}'),
    /^gateway\.yaml:4:26: found a path with braces; allowed: ":name" for a segment of a path, such as \/v1\/items\/:id \[BG_CONFIG_SYNTAX\]$/
  ],
  [
    'braces in a path in quotes',
    file('throttle', up).replace('/v1/*', '"/v1/{id}/x"'),
    /found "\/v1\/\{id\}\/x"; allowed: a path that begins with "\/".*Did you mean "\/v1\/:id\/x"\? \[BG_CONFIG_VALUE\]$/
  ],
  [
    'a host with a port',
    file('throttle', up).replace('path:', 'host: "api.example.com:8080", path:'),
    /host: found "api\.example\.com:8080"; allowed: a host name without port, path or star, such as api\.example\.com.*Did you mean "api\.example\.com"\? \[BG_CONFIG_VALUE\]$/
  ],
  [
    'a host with a star',
    file('throttle', up).replace('path:', 'host: "*.example.com", path:'),
    /host: found "\*\.example\.com"; allowed: a host name without port, path or star/
  ]
]

for (const [name, yaml, line] of REFUSED) {
  t.test(`check refuses ${name}`, async t => {
    const lines = await check(yaml)
    t.equal(lines.length, 1, lines.join('\n'))
    t.match(lines[0], line)
  })
}

t.test('a fault of a shared entry is reported once for all its routes, and every faulty entry is reported', async t => {
  const lines = await check(`chains:
  a: [ throttle, proxy ]
  b: [ proxy ]
routes:
  - { match: { path: /a }, chain: a, ${up} }
  - { match: { path: /b }, chain: a, ${up} }
  - { match: { path: /c }, chain: b, ${up} }
`)
  t.same(
    lines.map(line => line.split(' ')[0]),
    ['gateway.yaml:2:18:', 'gateway.yaml:3:8:']
  )
})

t.test("the operator's key that is missing in production is reported once, with every line that needs it", async t => {
  const route = (path: string, price: string) =>
    `  - { match: { path: ${path} }, ${price}chain: c, upstream: { url: "https://a.example" } }\n`
  t.same(
    await check(`mode: production
server: { publicUrl: https://api.example.com }
secrets: { master: 0123456789abcdef0123456789abcdef }
database: { url: "postgres://u:p@127.0.0.1/boltgate" }
lightning:
  primary: { kind: strike }
  alternate: { kind: opennode }
chains: { c: [ throttle, credential, challenge ] }
routes:
${route('/a', 'price: 1, ')}${route('/b', 'price: 0, ')}${route('/c', '')}`),
    [
      'gateway.yaml:6:3: lightning.primary.key: found nothing, but the routes on lines 10, 12 have a price; allowed: the provider key that its payments go to [BG_CONFIG_PROVIDER_KEY]'
    ]
  )
})

t.test('merchants can be tried without a key of the operator in development', async t => {
  const text = `lightning: { primary: { kind: lnd } }
routes: [ { match: { path: /a }, price: 1, chain: paid, upstream: { url: "https://a.example" } } ]
`
  t.match(await check(text), [
    /^warning: gateway\.yaml:1:14: lightning\.primary\.key: found nothing, but the route on line 2 has a price; allowed: the provider key that its payments go to, or every sale answers 503 \[BG_CONFIG_PROVIDER_KEY\]$/
  ])
})

t.test('check warns of what may be meant, and passes it', async t => {
  const doubled = (url: string, path: string, more = '') =>
    `routes: [ { match: { path: ${path} }, price: 1, chain: paid, upstream: { url: "${url}"${more} } } ]\n`
  for (const [url, path, to, without] of [
    ['https://api.openai.com/v1', '/v1/chat/completions', '/v1/v1/chat/completions', 'https://api.openai.com'],
    ['https://openrouter.ai/api/v1/', '/v1/*', '/api/v1/v1/*', 'https://openrouter.ai/api']
  ] as const)
    t.same(await check(doubled(url, path)), [
      `warning: gateway.yaml:1:${72 + path.length}: routes[0].upstream.url: found "/v1" in the address and in the path "${path}": requests go to "${to}"; allowed, but probably meant: { url: "${without}" }, or stripPrefix: /v1 [BG_CONFIG_CONFLICT]`
    ])
  t.same(await check(doubled('https://api.openai.com/v1', '/v1/*', ', stripPrefix: /v1')), [])
  t.same(await check(doubled('https://api.openai.com/v1', '/chat/*')), [])
  t.same(await check(file('throttle, credential, challenge', up)), [
    'warning: gateway.yaml:4:38: routes[0].chain: found no price beside the chain "c", which asks for one: the route costs 10 sats, the default; allowed, but better written as price [BG_CHAIN_SALE]'
  ])
  t.same(await check(file('credential, challenge', `price: 10, ${up}`)), [
    'warning: gateway.yaml:2:20: chains.c[1]: found "challenge" without an earlier throttle: any client can create invoices without limit [BG_CHAIN_ORDER]'
  ])
  t.same(await check(file('throttle, credential, { challenge: {}, mode: observe }', `price: 10, ${up}`)), [
    'warning: gateway.yaml:4:41: routes[0].price: found a price, but "challenge" (line 2) of the chain "c" only observes: every request is served without payment [BG_CHAIN_SALE]'
  ])
  t.match(
    await check(file('throttle', 'upstream: { internal: api }').replace('/v1/*', '/*')),
    [/^warning: gateway\.yaml:4:5: found the chain "c" before .* which needs /],
    'what a later version brings must not end the start of a file with a route for everything else'
  )
})

t.test('conditions that cover every request of a route, and those that both sides share, are sound', async t => {
  for (const [chain, route] of [
    ['throttle, credential, { challenge: {}, when: { path: /v1/* } }', `price: 10, ${up}`],
    [
      'throttle, { credential: {}, when: { path: /* } }, { challenge: {}, when: { path: [ /a, /v1/* ] } }',
      `price: 10, ${up}`
    ],
    ['throttle, { credential: {}, when: { path: /paid/* } }, { challenge: {}, when: { path: /paid/* } }', up],
    ['throttle, credential, challenge', up],
    ['throttle, credential', `price: 0, ${up}`],
    ['throttle', `price: 0, ${up}`]
  ] as const)
    t.same(
      (await check(file(chain, route))).filter(line => !line.includes('the default; allowed')),
      [],
      chain
    )
  t.same(
    await check(
      file('throttle, credential, { challenge: {}, when: { method: GET } }', `price: 10, ${up}`).replace(
        'path: /v1/*',
        'path: /v1/*, method: [GET, HEAD]'
      )
    ),
    []
  )
})

t.test('check, start and reload refuse the same mistakes with the same lines', async t => {
  const gateway = await startGateway(t)
  const yaml = file('throttle, proxy, credential, challenge', `price: 10, ${up}`)
  const [line = ''] = await check(yaml)
  await t.rejects(gateway.reload(yaml), { message: line })
  await t.rejects(startGateway(t, { yaml }), { message: line })
  t.equal((await gateway.send('GET', '/health')).status, 200, 'the old configuration keeps serving')
})

t.test('an unknown name under use is reported with its place, by check and at a reload', async t => {
  const said = (found: string, at: string, index: number, hint = '') =>
    `gateway.yaml:${at}: use[${index}]: found ${found}; allowed: service, sandbox, merchant-api, operator-api, storefront, pages${hint} [BG_CONFIG_VALUE]`
  const cases = [
    ['use: [ servce ]', [said('"servce"', '1:8', 0, '. Did you mean "service"?')]],
    ['use: [ Service ]', [said('"Service"', '1:8', 0, '. Did you mean "service"?')]],
    ['use: [ 1, null ]', [said('1', '1:8', 0), said('nothing', '1:11', 1)]],
    ['use: [ __proto__ ]', [said('"__proto__"', '1:8', 0)]]
  ] as const
  for (const [yaml, lines] of cases) t.same(await check(yaml), lines, yaml)
  const gateway = await startGateway(t)
  await t.rejects(gateway.reload(cases[0][0]), { message: cases[0][1][0] })
})

t.test('the deployment that comes with the package has neither mistakes nor warnings', async t => {
  t.same(await check(readFileSync(`${rootFolder}/gateway.yaml`, 'utf8')), [])
})
