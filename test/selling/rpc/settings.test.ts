/** What the file says of calls, and what is refused in it; what discovery shows of it. */
import t from 'tap'
import { ConfigError } from '../../../src/engine/config/diagnose.ts'
import { loadText } from '../../support/gateway.ts'
import { openRpcShop } from './setting.ts'
import { outlineOf, readJson } from '../../../src/engine/formats/json-reader.ts'
import { JsonError } from '../../../src/engine/formats/json-scan.ts'
import { canonicalText, memberPlace, replaced, withMember } from '../../../src/selling/rpc/json-text.ts'

const file = (chain: string, route = '') => `policies: { few: { limit: 5, window: 10s } }
chains:
  calls: [${chain}]
routes:
  - match: { path: /mcp }
    chain: calls
    upstream: { url: "http://127.0.0.1:9" }
    ${route}
`
const MCP = '{ mcp: { tools: { echo: 1 sat } } }'
const before = 'throttle: { policy: few } }, body-limit'

async function problemsOf(text: string) {
  try {
    await loadText(text, {})
    return ''
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
}

t.test('a chain that sells calls is checked', async t => {
  t.equal(await problemsOf(file(`{ ${before}, ${MCP}`)), '', 'a sound one')
  const cases: [string, string, RegExp][] = [
    [
      'a price at the route',
      file(`{ ${before}, ${MCP}`, 'price: 5 sats'),
      /:8:5: routes\[0\]\.price: found a price, but "mcp" \(line 3\)/
    ],
    [
      'a meter at the route',
      file(`{ ${before}, ${MCP}`, 'meter: { unit: request, bundle: 100 sats, usage: requests, prices: 1 msat }'),
      /routes\[0\]\.meter: found a meter, but "mcp"/
    ],
    [
      'free calls at the route',
      file(`{ ${before}, ${MCP}`, 'free: { calls: 20, per: 1d, by: address }'),
      /routes\[0\]\.free: found free calls, but "mcp"/
    ],
    [
      'challenge, too',
      file(`{ ${before}, credential, challenge, ${MCP}`),
      /"credential" \(line 3\) sells whole requests|sells whole requests and "mcp"/
    ],
    ['no limit for bodies', file(`{ throttle: { policy: few } }, ${MCP}`), /body-limit/],
    ['something behind it', file(`{ ${before}, ${MCP}, correlation`), /found "mcp" before the end of the chain/],
    [
      'a throttle behind it',
      file(`body-limit, ${MCP}, { throttle: { policy: few } }`),
      /found "mcp" before the end of the chain/
    ],
    ['a condition', file(`{ ${before}, { mcp: { tools: { echo: 1 sat } }, when: { method: POST } }`), /without when/],
    [
      'schemes without Payment, whose challenges are in the messages',
      `payment: { schemes: [l402] }\n${file(`{ ${before}, ${MCP}`)}`,
      /routes\[0\]\.chain: found the chain "calls", which sells calls inside messages, but payment\.schemes leaves out/
    ],
    ['an unknown setting', file(`{ ${before}, { mcp: { tool: { echo: 1 sat } } }`), /tool/],
    ['an invalid price', file(`{ ${before}, { mcp: { tools: { echo: cheap } } }`), /a price such as/]
  ]
  for (const [name, text, expected] of cases) t.match(await problemsOf(text), expected, name)
})

t.test('prices of resources without a price for all others are warned of', async t => {
  const warned = async (resources: string) => {
    const chain = `{ ${before}, { mcp: { resources: { ${resources} } } }`
    const { warnings } = (await loadText(file(chain), {})).config
    return warnings.some(({ message }) => message.startsWith('found prices of resources without "*"'))
  }
  t.ok(await warned('"demo://a": 1 sat'))
  t.ok(await warned('"demo://*": 1 sat'))
  t.notOk(await warned('"demo://a": 1 sat, "*": 0'))
})

t.test('settings that contradict each other end the start with their line', async t => {
  for (const [prices, expected] of [
    [
      'methods: { eth_call: 1 sat }',
      /found prices of methods with protocol: mcp; allowed: tools, resources and prompts/
    ],
    [
      'protocol: json-rpc\n          tools: { echo: 1 sat }',
      /found prices of tools with protocol: json-rpc; allowed: methods/
    ],
    ['tools: { echo: 0 }', /found no price above 0/],
    ['tools: { "a*b": 1 sat }', /found a price of "a\*b"; allowed: a star at the end/]
  ] as const)
    await t.rejects(openRpcShop(t, { prices }), expected)
})

t.test('discovery lists what each call costs', async t => {
  const { gateway } = await openRpcShop(t)
  const { endpoints } = (await gateway.send('GET', '/api/l402/pricing')).json() as { endpoints: object[] }
  t.match(endpoints.slice(0, 4), [
    { pathPattern: '/mcp', priceSats: 2, description: 'tools/call cheap: Tools' },
    { pathPattern: '/mcp', priceSats: 50, description: 'tools/call costly: Tools' },
    { pathPattern: '/mcp', priceSats: 3, description: 'resources/read demo://paid/*: Tools' },
    { pathPattern: '/mcp', priceSats: 4, description: 'prompts/get *: Tools' }
  ])
  for (const path of ['/openapi.json', '/api/openapi.json']) {
    const { paths } = (await gateway.send('GET', path)).json() as { paths: Record<string, object> }
    t.match(
      paths['/mcp'],
      {
        post: {
          'x-payment-info': { offers: [{ amount: '2', description: 'tools/call cheap' }, { amount: '50' }, {}, {}] }
        }
      },
      path
    )
  }
  const llms = (await gateway.send('GET', '/llms.txt')).text
  t.match(
    llms,
    /- \/mcp \(POST\): price varies\. Tools\. JSON-RPC messages, .*tools\/call cheap 2 sats, tools\/call costly 50 sats/
  )
})

t.test('JSON is changed only where requested', async t => {
  const limits = { depth: 9, members: 9, names: 9 }
  const without = (text: string, name: string) => {
    const place = memberPlace(outlineOf(text, limits), name)
    return place === null ? text : replaced(text, place, '')
  }
  t.equal(without('{"a":1,"b":2}', 'a'), '{"b":2}')
  t.equal(without('{"a":1, "b":2 }', 'b'), '{"a":1 }')
  t.equal(without('{ "a":[1,{"b":"}"}] }', 'a'), '{  }')
  t.equal(without('{"a":1}', 'b'), '{"a":1}')
  const set = (text: string, path: [string, ...string[]]) => withMember(text, outlineOf(text, limits), path, '7')
  t.equal(set('{}', ['a']), '{"a":7}')
  t.equal(set('{"b":1e400}', ['a', 'c']), '{"a":{"c":7},"b":1e400}')
  t.equal(set('{"a":null}', ['a', 'c']), '{"a":{"c":7}}')
  t.equal(set('{"a":{"c":1,"d":2}}', ['a', 'c']), '{"a":{"c":7,"d":2}}')
  const canonical = (text: string) => canonicalText(text, outlineOf(text, limits), { left: 9 })
  t.equal(canonical('{"b":[1.0,1e2, -0],"a":"\\u0041"}'), '{"a":"A","b":[1,100,0]}')
  t.equal(canonical('[1e-400,0.0,123456789012345678]'), '[1e-400,0,123456789012345678]', 'no two numbers are one')
  t.throws(
    () => readJson(Buffer.from('{"a":{"\\u0062":1,"b":2}}'), limits),
    new JsonError('names', 'has the member "b" twice')
  )
  t.doesNotThrow(() => readJson(Buffer.from('[{"a":1},{"a":1},"a","a",{"b":"a","a":{"a":1}}]'), limits))
})
