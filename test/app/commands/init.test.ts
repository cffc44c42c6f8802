import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test as T } from 'tap'
import { dryRun } from '../../../src/app/cli/dry-run.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { gatewayYaml } from '../../../src/app/cli/init-file.ts'
import { complete } from '../../../src/app/commands/init.ts'
import { temporaryFolder } from '../../support/database.ts'
import { buy, challengeOf, loadText, rootFolder, startGateway } from '../../support/gateway.ts'
import { spawnGateway } from '../../support/gateway-process.ts'
import { RawUpstream } from '../../support/raw-upstream.ts'
import { boltgate } from '../../support/cli.ts'

async function api(t: T) {
  const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsold').listen()
  t.teardown(() => upstream.close())
  return upstream
}

/** Settings that only keep a test's gateway out of the way of others. */
const OWN = 'server: { listen: "127.0.0.1:${PORT}" }\ndata: "${BOLTGATE_DATA}"\n'

t.test('the files that init writes start unchanged, say what they sell, and sell it', async t => {
  const upstream = await api(t)
  for (const [path, pay] of [
    ['/v1/*', '/v1/'],
    ['/*', '/']
  ] as const) {
    const file = join(temporaryFolder(t), 'gateway.yaml')
    t.match(await boltgate('init', '--upstream', upstream.origin, '--path', path, '--price', '7 sats', '-c', file), {
      code: 0,
      out: /^Wrote .*gateway\.yaml/
    })
    t.match(await boltgate('check', '-c', file), { code: 0, err: '' })
    const text = readFileSync(file, 'utf8')
    t.ok(text.split('\n').length < 30)
    const gateway = await spawnGateway(t, { yaml: OWN + text, documented: false })
    t.same(
      gateway.said.slice(0, 3),
      [
        `boltgate is listening on ${gateway.url}`,
        `  Sells:   ${path} for 7 sats`,
        `  Try it:  npx boltgate pay ${gateway.url}${pay}`
      ],
      path
    )
    t.match(await boltgate('pay', `${gateway.url}${pay}`), { code: 0, out: /< 402\n[^]*< 200\n[^]*sold/ }, path)
    t.equal((await gateway.send('GET', '/ready')).status, 200)
    t.equal((await gateway.send('GET', '/health')).status, 200)
    gateway.kill('SIGTERM')
    t.match(await gateway.ended, { code: 0 })
  }
})

/** Buys the first example of an llms.txt with what that text says and a wallet. Answers the status. */
async function buyExample(llms: string): Promise<number | null> {
  const [, method, url = '', body] = /Example: (\w+) (\S+)(?: with the body (.*))?$/m.exec(llms) ?? []
  if (method === undefined) return null
  const [, wallet = ''] = /`POST (\S+)` with `\{"invoice"/.exec(llms) ?? []
  const json = { 'content-type': 'application/json' }
  const send = (headers: Readonly<Record<string, string>>) =>
    fetch(url, body === undefined ? { method, headers } : { method, headers: { ...headers, ...json }, body })
  const challenge = (await send({})).headers.get('www-authenticate') ?? ''
  const [, macaroon, invoice] = /macaroon="([^"]+)", invoice="([^"]+)"/.exec(challenge) ?? []
  const paid = await fetch(wallet, { method: 'POST', headers: json, body: JSON.stringify({ invoice }) })
  const { preimage } = (await paid.json()) as { preimage: string } // documented
  return (await send({ authorization: `L402 ${macaroon}:${preimage}` })).status
}

t.test('init: an agent buys with what /llms.txt says, for each kind of product', async t => {
  const models = '{"data":[{"id":"tiny"}]}'
  const upstream = await RawUpstream.serve(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${models.length}\r\n\r\n${models}`
  ).listen()
  t.teardown(() => upstream.close())
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, "it's.txt"), 'sold')
  const body = '{"model":"tiny","messages":[{"role":"user","content":"Hello"}]}'
  for (const { sell, from, more = [], banner, llms } of [
    {
      sell: 'api',
      from: upstream.origin,
      more: ['--path', '/v1/*', '--example', '/v1/today'],
      banner: ['  Sells:   /v1/* for 10 sats', '  Try it:  npx boltgate pay URL/v1/today'],
      llms: ['- /v1/{path} (any method): 10 sats. Paid requests', '  - Example: GET URL/v1/today']
    },
    {
      sell: 'files',
      from: folder,
      banner: ['  Sells:   /files/* for 100 sats', "  Try it:  npx boltgate pay URL/files/it's.txt"],
      llms: ['- /files/{path} (GET): 100 sats', "  - Example: GET URL/files/it's.txt"]
    },
    {
      sell: 'llm',
      from: `${upstream.origin}/v1`,
      banner: [
        '  Sells:   /v1/* for 2000 sats per prepaid balance',
        `  Try it:  npx boltgate pay URL/v1/chat/completions -H 'Content-Type: application/json' -d '${body}'`
      ],
      llms: [
        'each 1000 tokens take 2000 msat in and 8000 msat out',
        `  - Example: POST URL/v1/chat/completions with the body ${body}`
      ]
    },
    {
      sell: 'mcp',
      from: `${upstream.origin}/mcp`,
      banner: ['  Sells:   /mcp: tools/call * 5 sats'],
      llms: ['params._meta["org.paymentauth/credential"]', 'tools/call * 5 sats']
    }
  ]) {
    const file = join(temporaryFolder(t), 'gateway.yaml')
    t.match(await boltgate('init', '--sell', sell, '--upstream', from, ...more, '-c', file), { code: 0 }, sell)
    const yaml = OWN + readFileSync(file, 'utf8').replace('${OPENAI_API_KEY}', 'k')
    const gateway = await spawnGateway(t, { yaml, documented: false })
    const text = (await gateway.send('GET', '/llms.txt')).text
    for (const line of banner) t.ok(gateway.said.includes(line.replace('URL', gateway.url)), `${sell}: ${line}`)
    for (const line of llms) t.ok(text.includes(line.replace('URL', gateway.url)), `${sell}: ${line}`)
    t.equal(await buyExample(text), sell === 'mcp' ? null : 200, `${sell}: bought`)
    gateway.kill('SIGTERM')
    t.match(await gateway.ended, { code: 0 })
  }
})

t.test('init takes a bare number as satoshis', async t => {
  const file = join(temporaryFolder(t), 'gateway.yaml')
  t.match(await boltgate('init', '--upstream', 'https://api.example.com', '--price', '10', '-c', file), {
    code: 0,
    out: /for 10 sats\./
  })
  t.equal((await loadText(readFileSync(file, 'utf8'), {})).config.routes[0]?.price, 10)
})

t.test('init refuses what would not run, and writes nothing over', async t => {
  const folder = temporaryFolder(t)
  const file = join(folder, 'gateway.yaml')
  t.match(await boltgate('init', '-c', file), { code: 2, err: /Missing --upstream/ })
  t.match(await boltgate('init', '--upstream', 'api.example.com', '-c', file), {
    code: 1,
    err: /upstream\.url: found "api\.example\.com"; allowed: an http or https address/
  })
  t.match(await boltgate('init', '--upstream', 'https://api.example.com', '--price', '1 shell', '-c', file), {
    code: 1,
    err: /price: found "1 shell"/
  })
  t.match(await boltgate('init', '--upstream', 'https://api.example.com', '--provider', 'cash', '-c', file), {
    code: 2,
    err: /--provider must be one of sandbox, strike, opennode, lnd, phoenixd, cln, lnbits, lnurl, btcpay, nwc, blink, not "cash"/
  })
  t.match(await boltgate('init', '--upstream', 'https://api.example.com', '--provider', 'strike', '-c', file), {
    code: 0,
    out: /LIGHTNING_KEY=… npx boltgate start/
  })
  await t.rejects(loadText(readFileSync(file, 'utf8'), {}), /the environment variable LIGHTNING_KEY is not set/)
  t.equal((await loadText(readFileSync(file, 'utf8'), { LIGHTNING_KEY: 'k' })).config.lightning.primary[0]?.key, 'k')
  t.match(await boltgate('init', '--upstream', 'https://api.example.com', '-c', file), {
    code: 2,
    err: /already exists/
  })
})

t.test('init: each product is valid as written, and production with its variables alone', async t => {
  const env = { OPENAI_API_KEY: 'k', LIGHTNING_KEY: 'k', BOLTGATE_DATA: temporaryFolder(t) }
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'a.txt'), 'a')
  for (const sell of ['api', 'llm', 'mcp', 'files', 'shop'] as const) {
    const answers = {
      sell,
      upstream: sell === 'files' ? folder : 'https://api.example.com',
      path: sell === 'mcp' ? '/mcp' : '/v1/*',
      price: sell === 'llm' ? '2000 sats' : '5 sats',
      provider: 'sandbox',
      production: false
    }
    t.same((await dryRun(await loadText(gatewayYaml(answers), env))).warnings, [], sell)
    const yaml = gatewayYaml({ ...answers, provider: 'strike', production: true })
    t.same((await dryRun(await loadText(yaml, { ...env, ...PRODUCTION }))).warnings, [], `${sell} in production`)
  }
})

const PRODUCTION = {
  BOLTGATE_SECRET: 's'.repeat(40),
  DATABASE_URL: 'postgres://u:p@127.0.0.1/boltgate',
  PUBLIC_URL: 'https://api.example.com'
}

t.test('init: an invalid answer is explained and prompted for again, and the other answers stay', async t => {
  const requests: string[] = []
  const said: string[] = []
  const answers = [
    'lmm',
    '2',
    'api.openai.com/v1',
    'https://api.openai.com/v1',
    '',
    '10 shells',
    '500 sats',
    'strik',
    '2'
  ]
  const options = await complete(
    { production: false },
    join(temporaryFolder(t), 'gateway.yaml'),
    async (question, usual) => {
      requests.push(question)
      return answers.shift() || (usual ?? '')
    },
    {
      print: line => {
        said.push(line)
      },
      complain: line => {
        said.push(line)
      }
    }
  )
  t.same(options, {
    sell: 'llm',
    upstream: 'https://api.openai.com',
    path: '/v1/*',
    price: '500 sats',
    provider: 'strike',
    production: false
  })
  t.same(answers, [])
  t.same(requests, [
    'Number or name',
    'Number or name',
    'Address of the OpenAI-compatible API',
    'Address of the OpenAI-compatible API',
    'Path that buyers call',
    'Price of one balance of tokens',
    'Price of one balance of tokens',
    'Number or name',
    'Number or name'
  ])
  const text = said.join('\n')
  t.match(text, /--sell must be one of api, llm, mcp, files, shop, not "lmm"\. Did you mean "llm"\?/)
  t.match(text, /found "api\.openai\.com\/v1".*Did you mean "https:\/\/api\.openai\.com\/v1"\?/)
  t.match(text, /Using https:\/\/api\.openai\.com as the upstream, because the path \/v1\/\* adds the rest/)
  t.match(text, /found "10 shells"/)
  t.match(text, / 2 {2}strike +account at Strike/)
})

t.test('init: --openapi writes the file of the API on the route, and refuses an invalid one', async t => {
  const folder = temporaryFolder(t)
  const file = join(folder, 'gateway.yaml')
  const { origin } = await api(t)
  const openapi = join(folder, 'their-api.json')
  writeFileSync(openapi, '[]')
  const asked = ['init', '--upstream', origin, '--openapi', openapi, '-c', file] as const
  t.match(await boltgate(...asked), { code: 1, err: /found no OpenAPI document in "their-api.json"/ })
  t.match(await boltgate(...asked, '--sell', 'llm'), { code: 2, err: /--openapi needs --sell api/ })
  writeFileSync(openapi, '{"openapi":"3.1.0","paths":{"/now":{"get":{"summary":"Now","responses":{}}}}}')
  t.match(await boltgate(...asked), { code: 0 })
  t.match(readFileSync(file, 'utf8'), 'openapi: "their-api.json"')
})

t.test('init: production needs a provider for money, and what it refuses leaves nothing behind', async t => {
  const folder = temporaryFolder(t)
  const file = join(folder, 'gateway.yaml')
  const upstream = await api(t)
  t.match(await boltgate('init', '--production', '--upstream', upstream.origin, '-c', file), {
    code: 2,
    err: /--production needs --provider/
  })
  t.match(await boltgate('init', '--production', '--upstream', upstream.origin, '--provider', 'sandbox', '-c', file), {
    code: 2,
    err: /--provider must be one of strike, /
  })
  process.env['LIGHTNING_KEY'] = 'hello'
  t.teardown(() => {
    delete process.env['LIGHTNING_KEY']
  })
  t.match(await boltgate('init', '--upstream', upstream.origin, '--provider', 'phoenixd', '-c', file), {
    code: 2,
    err: /answers\.[^]*LIGHTNING_KEY was refused: The phoenixd key must have the form/
  })
  t.same(readdirSync(folder), [])
  t.match(await boltgate('init', '--sell', 'goods', '-c', file), { code: 2, err: /--sell must be one of api, llm/ })
  t.match(await boltgate('init', '-c', join(folder, 'none', 'gateway.yaml')), { code: 2, err: /There is no folder/ })
})

t.test(
  "a file with nothing but a route sells, and has the gateway's own addresses where it takes none of them itself",
  async t => {
    const upstream = await api(t)
    const gateway = await startGateway(t, {
      yaml: `${OWN}routes:\n  - { match: { path: [ /v1/*, /robots.txt ] }, price: 10 sats, chain: paid, upstream: { url: "${upstream.origin}" } }\n`
    })
    for (const path of ['/ready', '/health', '/metrics', '/openapi.json', '/llms.txt'])
      t.equal((await gateway.send('GET', path)).status, 200, path)
    t.match(await gateway.send('GET', '/favicon.ico'), {
      status: 200,
      headers: { 'content-type': 'image/svg+xml' },
      text: /^<svg /
    })
    t.equal((await gateway.send('GET', '/robots.txt')).status, 402, "the file's own route goes first")
    t.equal((await gateway.send('GET', '/elsewhere')).status, 404)
    const authorization = await buy(gateway, '/v1/a')
    t.equal((await gateway.send('GET', '/v1/a', { headers: { authorization } })).text, 'sold')
  }
)

t.test("use leaves the gateway's own addresses out, production the wallet", async t => {
  const paths = async (yaml: string) =>
    (await dryRun(await loadText(yaml, {}))).config.routes.flatMap(({ match }) => match.path)
  const route = 'routes:\n  - { match: { path: /a }, chain: public, upstream: { url: "https://a.example" } }\n'
  t.same(await paths(`use: []\n${route}`), ['/a'])
  t.same(await paths(`use: [ sandbox ]\n${route}`), ['/a', '/sandbox/pay', '/sandbox/state'])
  const production = `mode: production
server: { publicUrl: https://api.example.com }
secrets: { master: 0123456789abcdef0123456789abcdef }
database: { url: "postgres://u:p@127.0.0.1/boltgate" }
lightning: { primary: { kind: strike }, alternate: { kind: opennode } }
`
  const found = await paths(production + route)
  t.ok(found.includes('/ready'))
  t.notOk(found.includes('/sandbox/pay'))
})

t.test('an invoice without a description names host and path as people write them', async t => {
  const gateway = await startGateway(t, {
    yaml: `server: { listen: "127.0.0.1:\${PORT}", publicUrl: "http://shop.example:8080" }
data: "\${BOLTGATE_DATA}"
routes:
  - { match: { path: /v1/* }, price: 10, chain: paid, upstream: { url: "http://127.0.0.1:9" } }
  - { match: { host: api.example.com, path: /items/:id }, price: 10, chain: paid, upstream: { url: "http://127.0.0.1:9" } }
`
  })
  const said = async (path: string, headers: Record<string, string> = {}) =>
    decodeInvoice(challengeOf(await gateway.send('GET', path, { headers }), 'l402').parameters.get('invoice') ?? '')
      .description
  t.equal(await said('/v1/a', { host: 'evil.example' }), 'shop.example:8080/v1')
  t.equal((await gateway.send('GET', '/openapi.json')).status, 200, 'and routes of one host are described')
  t.equal(await said('/items/7', { host: 'api.example.com' }), 'api.example.com/items/:id')
})

t.test('--version prints version and commit', async t => {
  const { version } = JSON.parse(readFileSync(join(rootFolder, 'package.json'), 'utf8')) as { version: string }
  const { code, out, err } = await boltgate('--version')
  t.match(out, new RegExp(`^${version.replaceAll('.', '\\.')} \\(commit [0-9a-f]{12}, not built\\)$`))
  t.same({ code, err }, { code: 0, err: '' })
})

t.test('the smallest files of the documents run unchanged', async t => {
  const upstream = await api(t)
  for (const page of ['README.md', 'docs/tutorials/first-request.md']) {
    const text = readFileSync(join(rootFolder, page), 'utf8')
    const [, yaml] = /```yaml\n(routes:\n[^]*?)```/.exec(text) ?? []
    if (yaml === undefined) throw new Error(`${page} has no smallest file`)
    const file = join(temporaryFolder(t), 'gateway.yaml')
    writeFileSync(file, yaml)
    t.match(await boltgate('check', '-c', file), { code: 0, err: '' }, page)
    const gateway = await startGateway(t, {
      yaml: OWN + yaml.replace(/url: "?http[^" }]+"?/, `url: "${upstream.origin}"`)
    })
    t.equal((await gateway.send('GET', '/v1/a')).status, 402, page)
  }
})
