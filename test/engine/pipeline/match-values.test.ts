import t from 'tap'
import { buy, startGateway } from '../../support/gateway.ts'
import { documented } from '../../support/documents.ts'

const yaml = `
chains:
  gold: [ cors, { ./docs/examples/hello-header.ts: { greeting: gold } } ]
  pdf: [ { ./docs/examples/hello-header.ts: { greeting: pdf } } ]
  both: [ { ./docs/examples/hello-header.ts: { greeting: both } } ]
  plain: [ { ./docs/examples/hello-header.ts: { greeting: plain } } ]
  below: [ cors, { ./docs/examples/hello-header.ts: { greeting: below } } ]
routes:
  - match: { path: /v1/report, method: [GET, POST] }
    chain: plain
    upstream: { internal: demo }
  - match: { path: /v1/report, header: X-Plan=gold }
    chain: gold
    upstream: { internal: demo }
  - match: { path: /v1/report, query: format=pdf }
    chain: pdf
    upstream: { internal: demo }
  - match: { path: /v1/report, query: format=pdf, header: x-plan=gold }
    chain: both
    upstream: { internal: demo }
  - match: { path: /v1/only, method: GET, header: x-plan }
    chain: gold
    upstream: { internal: demo }
  - match: { path: "/v1/:any", method: GET }
    chain: below
    upstream: { internal: demo }
  - match: { path: /alone, method: GET, query: key }
    chain: pdf
    upstream: { internal: demo }
`

t.test('routes compare headers and query parameters', async t => {
  const gateway = await startGateway(t, { yaml, documented: false })
  const rows = [
    ['GET', '/v1/report', {}, 'plain', 'no condition holds'],
    ['GET', '/v1/report', { 'x-plan': 'silver' }, 'plain', 'another value'],
    ['GET', '/v1/report', { 'x-plan': 'gold' }, 'gold', 'a header, before the route that comes first in the file'],
    ['HEAD', '/v1/report', { 'x-plan': 'gold' }, 'gold', 'HEAD follows GET'],
    ['GET', '/v1/report?format=pdf', {}, 'pdf', 'a parameter'],
    ['GET', '/v1/%72eport?q=1&f%6frmat=%70df', {}, 'pdf', 'decoded, as path and query are'],
    ['GET', '/v1/report?format=pdf', { 'x-plan': 'gold' }, 'both', 'most conditions first'],
    ['DELETE', '/v1/report', { 'x-plan': 'gold' }, 'gold', 'any method'],
    ['DELETE', '/v1/report', {}, 405, 'of which a request without the values has none'],
    ['GET', '/v1/only', { 'x-plan': '' }, 'gold', 'a header that is there'],
    ['GET', '/v1/only', {}, 'below', 'the next path that fits'],
    ['GET', '/v1/report?format=csv&format=pdf', {}, 400, 'the upstream may read either value'],
    ['GET', '/v1/report?format=pdf&format=csv', {}, 400, 'in any order'],
    ['GET', '/v1/report?Format=pdf', {}, 400, 'some upstreams read names in any case'],
    ['GET', '/v1/report?format%5B%5D=pdf', {}, 400, 'or take a list'],
    ['GET', '/v1/report?a=1;format=pdf', {}, 400, 'or split at a semicolon'],
    ['GET', '/v1/report', { x_plan: 'gold' }, 400, 'or read an underscore as a dash'],
    ['OPTIONS', '/v1/report?Format=pdf', {}, 400, 'any method'],
    ['GET', '/v1/other?format=csv&format=pdf', {}, 'below', 'where nothing compares it'],
    ['GET', '/alone?key=1&key=2', {}, 'pdf', 'a parameter that is there twice'],
    ['GET', '/alone?key', {}, 'pdf', 'a parameter that is there'],
    ['GET', '/alone', {}, 404, 'no route'],
    ['POST', '/alone?key', {}, 405, 'another method'],
    ['POST', '/alone', {}, 404, 'no route']
  ] as const
  for (const [method, path, headers, taken, name] of rows) {
    const { status, headers: got } = await gateway.send(method, path, { headers })
    // What the chain's plugin put there says which route it was; none has an operation behind it.
    t.equal(
      got['x-hello'] === undefined ? status : String(got['x-hello']).split(',')[0],
      taken,
      `${method} ${path}: ${name}`
    )
  }
})

t.test('a preflight, which has no values of headers, goes to the route without them', async t => {
  const gateway = await startGateway(t, { yaml, documented: false })
  const preflight = async (path: string) => {
    const headers = {
      origin: 'https://page.example',
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'x-plan'
    }
    return (await gateway.send('OPTIONS', path, { headers })).headers['access-control-allow-origin']
  }
  t.equal(await preflight('/v1/report'), undefined)
  t.equal(await preflight('/v1/only'), '*')
})

t.test('one path has at most 30 such routes', async t => {
  const routes = (count: number) =>
    [
      'routes:',
      ...Array.from(
        { length: count },
        (_, at) => `  - { name: r${at}, match: { path: /a, header: x=${at} }, chain: c, upstream: { internal: demo } }`
      ),
      '  - { match: { path: /a }, chain: c, upstream: { internal: demo } }'
    ].join('\n')
  const gateway = await startGateway(t, { yaml: `chains: { c: [ cors ] }\n${routes(30)}\n` })
  t.equal((await gateway.send('GET', '/a', { headers: { x: '29' } })).status, 404)
  await t.rejects(startGateway(t, { yaml: `chains: { c: [ cors ] }\n${routes(31)}\n` }), {
    message:
      'gateway.yaml:34:5: found too many routes for "/a" that compare header or query; allowed: 30 [BG_CONFIG_CONFLICT]'
  })
})

t.test('each has its price, and is listed without the values that it compares', async t => {
  const gateway = await startGateway(t, { yaml: documented('by-plan.yaml'), documented: false })
  const pdf = await gateway.send('GET', '/v1/report?format=pdf')
  t.match(pdf.text, '40', 'a parameter')
  const version = { 'x-api-version': '2' }
  t.match((await gateway.send('GET', '/v1/report', { headers: version })).text, '10')
  const authorization = await buy(gateway, '/v1/report')
  const status = async (target: string, headers: Readonly<Record<string, string>> = {}) =>
    (await gateway.send('GET', target, { headers: { authorization, ...headers } })).status
  t.equal(await status('/v1/report?format=pdf'), 401, 'the cheaper payment')
  t.equal(await status('/v1/report', version), 401)
  for (const path of ['/llms.txt', '/openapi.json', '/.well-known/l402-services']) {
    const { status, text } = await gateway.send('GET', path)
    t.equal(status, 200, path)
    t.notMatch(text, /=pdf|version=2/, path)
  }
  const { paths } = (await gateway.send('GET', '/openapi.json')).json() as { paths: Record<string, unknown> }
  t.match(paths['/v1/report'], { get: { 'x-payment-info': { offers: [{ amount: '5' }] } } }, 'of the plain route')
})
