import { readFileSync } from 'node:fs'
import t from 'tap'
import { dryRun } from '../../../src/app/cli/dry-run.ts'
import { PRESET_NAMES } from '../../../src/engine/config/presets.ts'
import type { GatewayConfig } from '../../../src/engine/config/schema.ts'
import { Router } from '../../../src/engine/pipeline/router.ts'
import { spelledOut } from '../../../src/app/commands/routes.ts'
import { builtInChains } from '../../../src/app/cli/configuration.ts'
import { loadText, rootFolder } from '../../support/gateway.ts'

const { operations } = await mount('use: []\nstorefront: { kind: sandbox }\nbilling: { kind: sandbox }\n')

/** A file as a start has it, with the routes of the gateway's own. */
async function mount(yaml: string) {
  return await dryRun(await loadText(yaml, {}))
}

/** Chain and plugins of the route that takes a request; null where none does. */
function mountedIn({ routes, chains }: GatewayConfig): (method: string, path: string) => string | null {
  const router = new Router<string>()
  for (const { match, chain } of routes) {
    for (const path of match.path)
      router.add(
        { host: match.host ?? null, methods: match.method ?? [], path },
        `${chain}: ${(chains[chain] ?? []).map(entry => entry.plugin).join(' ')}`
      )
  }
  return (method, path) => router.find('', method, path.replaceAll(/:[A-Za-z]+/g, 'x'))?.value ?? null
}

t.test("operations are mounted by name, but the demo's, and the built-in chains are a sound file", async t => {
  await loadText(builtInChains.text, {})
  const unmounted = operations.filter(({ mount }) => mount === undefined).map(({ path }) => path)
  t.same(unmounted, ['/demo/quote', '/demo/charge', '/demo/echo'], "what no part of the API mounts is the file's own")
})

t.test('use mounts each operation of a preset behind its chain, and a name that is left out none of it', async t => {
  for (const name of PRESET_NAMES) {
    const mounted = mountedIn((await mount(`use: [ ${name} ]\n`)).config)
    for (const { method, path, mount } of operations) {
      const chain = mounted(method, path)
      if (mount !== undefined && [mount.use].flat().includes(name))
        t.match(chain, new RegExp(`^${mount.chain}: `), `${name}: ${method} ${path}`)
      else t.equal(chain, null, `${name} does not mount ${method} ${path}`)
    }
  }
})

t.test(
  'a file goes before its presets: another chain for a path, and a plugin more in a chain of the same name',
  async t => {
    const { config } = await mount(
      `
use: [ merchant-api ]
chains:
  settings-read: [ correlation, { auth: { as: merchant } }, { throttle: { policy: write } } ]
  mine: [ { auth: { as: merchant } }, { throttle: { policy: read } } ]
routes:
  - { match: { path: "/api/proxy/*", method: GET }, chain: mine, upstream: { internal: api } }
  - { match: { path: "/*" }, chain: public, upstream: { url: "http://127.0.0.1:9" } }
`
    )
    const mounted = mountedIn(config)
    t.equal(mounted('GET', '/api/merchant/me'), 'settings-read: correlation auth throttle')
    t.equal(mounted('GET', '/api/proxy/a'), 'mine: auth throttle')
    t.match(mounted('PUT', '/api/proxy/a'), /^proxies-write: /, 'other methods of the path stay with the preset')
    t.match(mounted('GET', '/api/proxy'), /^proxies-read: /)
    t.match(mounted('GET', '/elsewhere'), /^public: /)
  }
)

t.test(
  'a route for everything takes what is left where use is written, and all in a file that does not say what it uses',
  async t => {
    const route = 'routes:\n  - { match: { path: "/*" }, chain: public, upstream: { url: "http://127.0.0.1:9" } }\n'
    const health = async (yaml: string) => mountedIn((await mount(yaml)).config)('GET', '/health')
    t.match(await health(route), /^public: /)
    t.match(await health(`use: [ service ]\n${route}`), /^service-public: /)
  }
)

t.test('a file from before, with all routes spelt out, leads each operation through the chain that it did', async t => {
  const mounted = mountedIn(
    (await mount(readFileSync(`${rootFolder}/test/engine/config/spelled-out.yaml`, 'utf8'))).config
  )
  const now = mountedIn((await mount(readFileSync(`${rootFolder}/gateway.yaml`, 'utf8'))).config)
  // The gateway's own addresses and the wallet had other names for the same chains; nothing was metered or prepaid.
  const renamed = (chain: string | null) =>
    chain
      ?.replace(/^service-(probe|sandbox): /, '$1: ')
      .replace(/ challenge meter$/, ' challenge')
      .replace(' session credential', ' credential') ?? null
  for (const { method, path } of operations) {
    const before = mounted(method, path)
    if (before?.startsWith('public: ') === true && !path.startsWith('/api/storefront'))
      t.equal(before, 'public: correlation access-log metrics cors throttle body-limit', path)
    else t.equal(renamed(now(method, path)), before, `${method} ${path}`)
  }
})

t.test("a chain of the file that does not fit a preset's routes is refused at its own line", async t => {
  await t.rejects(
    mount(
      'use: [ merchant-api ]\nchains:\n  proxied: [ correlation, { throttle: { policy: l402-proxy } }, credential, challenge ]\n'
    ),
    /gateway\.yaml:3:14: chains\.proxied: .*in which nothing looks the proxy up.*merchant-api/
  )
  await t.rejects(
    mount('use: [ merchant-api ]\nchains:\n  settings-read: [ correlation, { throttle: { policy: read } } ]\n'),
    /gateway\.yaml:3:20: found the chain "settings-read" before GET \/api\/merchant\/me and \d+ more, which needs a merchant's key; allowed: a chain with \{ auth: \{ as: merchant \} \}/
  )
})

t.test('routes --as-yaml spells out what use mounts: the file loads to the same routes and chains', async t => {
  const whole = readFileSync(`${rootFolder}/gateway.yaml`, 'utf8')
  const files = {
    'gateway.yaml': whole,
    'one that has nothing': 'mode: development\n',
    'one that says no word of it':
      'routes:\n  - { match: { path: /health }, chain: public, upstream: { url: "http://127.0.0.1:9" } }\n',
    'one in brackets':
      '{ use: [ merchant-api ], chains: { settings-read: [ { auth: { as: merchant } }, { throttle: { policy: "${P:-read}" } } ] } }',
    'one that takes a part':
      'use: [ pages ]\nroutes:\n  - { match: { path: "/pay/*", method: GET }, chain: page-forms, upstream: { internal: api } }\n',
    'the one with all spelt out': readFileSync(`${rootFolder}/test/engine/config/spelled-out.yaml`, 'utf8')
  }
  // Where a route is written, and what a chain that no route names would do, may differ.
  const mounted = ({ routes, chains }: GatewayConfig) =>
    routes.map(route => ({ ...route, at: null, plugins: chains[route.chain]?.map(entry => ({ ...entry, at: null })) }))
  for (const [name, text] of Object.entries(files)) {
    const { config } = await mount(text)
    const out = spelledOut(text, config, builtInChains)
    const again = (await mount(out)).config
    t.same(mounted(again), mounted(config), name)
    t.same(again.use, [], name)
    t.equal(out.includes('${P:-read}'), text.includes('${P:-read}'), 'variables stay')
  }
  t.match(
    spelledOut(whole, (await mount(whole)).config, builtInChains),
    /# What this gateway sells: the demo/,
    'and so do comments'
  )
})

t.test(
  'an old file with a new release mounts new routes through use, or is warned about what it does not serve',
  async t => {
    const old = readFileSync(`${rootFolder}/test/engine/config/spelled-out.yaml`, 'utf8')
    const ofMeter =
      'found merchants\' proxies, whose metered endpoints cannot be bought here: the chain "proxied" has nothing that takes what was used from a balance; allowed: a chain with the entry meter behind challenge'
    t.same(
      (await mount(old)).warnings.map(({ message }) => message),
      [ofMeter],
      'it serves all there is, but for meters'
    )
    // The routes of the file from before there were refunds.
    const older = old
      .replace(
        /  - match: \{ path: \/api\/refunds, method: POST \}\n.*\n.*\n  - match: \{ path: \[ \/api\/refunds, .*\n.*\n.*\n/,
        ''
      )
      .replace(', /api/refunds/:refundId/sync', '')
    t.not(older, old)
    const { warnings } = await mount(older)
    t.same(
      warnings.map(({ message }) => message),
      [
        ofMeter,
        'found the chain "public" before POST /api/refunds, GET /api/refunds, GET /api/refunds/total, GET /api/refunds/invoice/:invoiceId, GET /api/refunds/:refundId, ' +
          "POST /api/refunds/:refundId/sync, which needs a merchant's key; allowed: a chain with { auth: { as: merchant } }"
      ]
    )
    const strict = older
      .replace(/  # Everything else of the service[^]*$/, '')
      .replace('routes:\n', 'use: [ service ]\nroutes:\n')
    const told = (await mount(strict)).warnings
    t.match(
      told.map(({ line, message }) => `${line}: ${message}`),
      [
        /^\d+: found merchants' proxies, whose metered endpoints cannot be bought here/,
        /^\d+: found routes for operations of merchant-api, and none for POST \/api\/refunds, GET \/api\/refunds, .*; allowed: merchant-api in `use`, or a route for each that is to be served$/
      ]
    )
    t.same(
      (await mount(strict.replace('[ service ]', '[ service, merchant-api ]'))).warnings.map(({ message }) => message),
      [ofMeter],
      'use mounts them'
    )
  }
)

t.test('a file that has none of an API gets no warning about it', async t => {
  const { warnings } = await mount(
    'routes:\n  - { match: { path: /v1/* }, chain: public, upstream: { url: "http://127.0.0.1:9" } }\n'
  )
  t.same(warnings, [])
})

t.test('a mistake in a chain that replaces a built-in one is one problem, however many routes it is of', async t => {
  await t.rejects(
    mount('use: [ merchant-api ]\nchains: { settings-read: [ { auth: { as: merchant } }, forward ] }\nroutes: []\n'),
    /^[^\n]*the chain "settings-read" ends with forward; [^\n]* \(for GET \/api\/merchant\/me of merchant-api and \d+ more\)[^\n]*$/
  )
})
