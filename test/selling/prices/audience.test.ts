import { createPrivateKey, sign } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import t, { type Test as T } from 'tap'
import type { AudienceEntry } from '../../../src/engine/checks/price.ts'
import type { HarnessRequest } from '../../../src/engine/pipeline/harness.ts'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { outboundCall } from '../../../src/engine/upstream/outbound.ts'
import { MemoryState } from '../../../src/platform/state/memory.ts'
import { Audiences } from '../../../src/selling/prices/audience.ts'
import type { NameService } from '../../../src/selling/prices/search-engine.ts'
import { openTestDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { serve } from '../../support/serve.ts'
import { fixtureOn, freshAddress } from '../challenges/fixture.ts'
import { sellingRoute } from './support.ts'

// The test key of RFC 9421, appendix B.1.4, and its thumbprint as the drafts of Web Bot Auth give it.
const X = 'JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs'
const KEY_ID = 'poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U'
const KEY = createPrivateKey({
  key: { kty: 'OKP', crv: 'Ed25519', x: X, d: 'n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU' },
  format: 'jwk'
})
const DIRECTORY = JSON.stringify({ keys: [{ kty: 'OKP', crv: 'Ed25519', x: X }] })

const ELSE = 20
const BOT = 5
const database = openTestDatabase(t)
let nonces = 0

interface Signing {
  readonly agent: string
  readonly authority?: string
  readonly created?: number
  readonly expires?: number
  /** Null for none. */
  readonly nonce?: string | null
  readonly tag?: string
  readonly components?: string
  /** Replaces the value of a component in what is signed. */
  readonly dictionary?: boolean
  readonly path?: string
}

function signed(clock: ManualClock, signing: Signing) {
  const now = Math.floor(clock.now() / 1000)
  const { agent, authority = 'api.example.com', created = now, expires = now + 60, tag = 'web-bot-auth' } = signing
  const { nonce = `n${++nonces}`, dictionary = false, path = '/v1/a' } = signing
  const name = dictionary ? '"signature-agent";key="me"' : '"signature-agent"'
  const components = signing.components ?? `"@authority" "@path" ${name}`
  const input = `(${components});created=${created};expires=${expires};keyid="${KEY_ID}";alg="ed25519"${nonce === null ? '' : `;nonce="${nonce}"`};tag="${tag}"`
  const values: Record<string, string> = {
    '"@authority"': authority,
    '"@path"': path,
    [name]: `"${agent}"`
  }
  const lines = components.split(' ').map(component => `${component}: ${values[component] ?? ''}`)
  const base = [...lines, `"@signature-params": ${input}`].join('\n')
  return {
    'signature-agent': dictionary ? `other="https://other.example", me="${agent}"` : `"${agent}"`,
    'signature-input': `sig1=${input}`,
    signature: `sig1=:${sign(null, Buffer.from(base), KEY).toString('base64')}:`
  }
}

async function agentServer(t: T, answer: (response: ServerResponse, path: string) => void) {
  const paths: string[] = []
  const port = await serve(
    t,
    createServer((request, response) => {
      paths.push(request.url ?? '')
      answer(response, request.url ?? '')
    })
  )
  return { url: `http://127.0.0.1:${port}`, host: `127.0.0.1:${port}`, paths }
}

const NO_NAMES: NameService = { reverse: async () => [], addresses: async () => [] }

async function shop(
  t: T,
  audience: readonly AudienceEntry[],
  { guard = new AddressGuard({ production: false }), names = NO_NAMES } = {}
) {
  const clock = new ManualClock()
  const state = new MemoryState(clock)
  const audiences = new Audiences({ clock, state, production: guard.production, call: outboundCall(guard), names })
  const f = fixtureOn(t, await database, clock, {}, undefined, { audiences })
  const selling = await sellingRoute(f, { price: ELSE, audience })
  return {
    ...selling,
    /** Price of a request; 0 where it is served. */
    price: async (request?: HarnessRequest) => {
      const result = await selling.ask(request)
      return result.status === 200 ? 0 : selling.pay(result).sats
    }
  }
}

const BOTS: readonly AudienceEntry[] = [{ who: 'verified-bot', price: BOT }]

t.test('a verified bot pays its price, by either form of Signature-Agent; the directory is cached', async t => {
  const agent = await agentServer(t, response => response.end(DIRECTORY))
  const s = await shop(t, BOTS)
  t.equal(await s.price(), ELSE)
  t.equal(await s.price({ headers: signed(s.clock, { agent: agent.url }) }), BOT)
  t.equal(await s.price({ headers: signed(s.clock, { agent: agent.url, dictionary: true }) }), BOT)
  t.strictSame(agent.paths, ['/.well-known/http-message-signatures-directory'])
  const offered = await s.ask({ headers: signed(s.clock, { agent: agent.url }) })
  const authorization = s.pay(offered).authorization()
  t.equal(
    (await s.ask({ headers: { authorization } })).status,
    401,
    'its token is of its price: unsigned it buys nothing'
  )
  const paid = await s.ask({ headers: { ...signed(s.clock, { agent: agent.url }), authorization } })
  t.equal(paid.status, 200)
})

t.test('agents that are not listed pay what all others do, and their directory is not fetched', async t => {
  const agent = await agentServer(t, response => response.end(DIRECTORY))
  const s = await shop(t, [{ who: 'verified-bot', price: BOT, agents: ['chatgpt.com'] }])
  t.equal(await s.price({ headers: signed(s.clock, { agent: agent.url }) }), ELSE)
  t.strictSame(agent.paths, [])
  const listed = await shop(t, [{ who: 'verified-bot', price: BOT, agents: [agent.host] }])
  t.equal(await listed.price({ headers: signed(listed.clock, { agent: agent.url }) }), BOT)
})

t.test('a signature that is replayed, stale, early, too long or for another purpose proves nothing', async t => {
  const agent = await agentServer(t, response => response.end(DIRECTORY))
  const s = await shop(t, BOTS)
  const now = Math.floor(s.clock.now() / 1000)
  const price = (signing: Partial<Signing>, changes: Record<string, string> = {}) =>
    s.price({ headers: { ...signed(s.clock, { agent: agent.url, ...signing }), ...changes } })
  const once = signed(s.clock, { agent: agent.url })
  t.equal(await s.price({ headers: once }), BOT)
  t.equal(await s.price({ headers: once }), ELSE, 'replayed')
  t.equal(await s.price({ headers: once, peerAddress: freshAddress() }), ELSE, 'replayed from elsewhere')
  t.equal(await price({ nonce: 'same' }), BOT)
  t.equal(await price({ nonce: 'same', expires: now + 61 }), ELSE, 'a nonce is valid once')
  t.equal(await price({ nonce: null }), BOT, 'a nonce is optional')
  t.equal(await price({ nonce: null }), ELSE, 'without one the same request of one second is a replay to us')
  t.equal(await price({ nonce: null, created: now - 1 }), BOT, 'of another second it is not')
  t.equal(await price({ created: now - 61, expires: now }), ELSE, 'expired')
  t.equal(await price({ created: now + 60, expires: now + 120 }), ELSE, 'from the future')
  t.equal(await price({ expires: now + 86_401 }), ELSE, 'valid for too long')
  t.equal(await price({ tag: 'other' }), ELSE)
  t.equal(await price({ authority: 'evil.example' }), ELSE, 'signed for a site that passes it on')
  t.equal(
    await s.price({ headers: signed(s.clock, { agent: agent.url, authority: 'evil.example' }), host: 'evil.example' }),
    ELSE,
    'with its Host too'
  )
  t.equal(await price({ path: '/v1/b' }), ELSE, 'signed for another path')
  t.equal(await price({ components: '"@authority"' }), ELSE, 'the agent is not signed')
  t.equal(await price({ components: '"signature-agent"' }), ELSE, 'the authority is not signed')
  t.equal(await price({}, { 'signature-agent': '"https://chatgpt.com"' }), ELSE, 'another agent is named')
  t.equal(await price({}, { signature: `sig1=:${Buffer.alloc(64).toString('base64')}:` }), ELSE)
  t.equal(await price({}, { 'signature-input': `sig1=(${'"a" '.repeat(500)}` }), ELSE)
  t.equal(await price({ nonce: 'last' }), BOT, 'and a valid one still counts')
})

t.test(
  'a directory that is down, redirects, is huge or no JSON is unknown, and not fetched with each request',
  async t => {
    const answers: Record<string, (response: ServerResponse, path: string) => void> = {
      down: response => response.socket?.destroy(),
      error: response => response.writeHead(500).end(DIRECTORY),
      redirect: (response, path) =>
        path.startsWith('/.well') ? response.writeHead(302, { location: '/internal' }).end() : response.end(DIRECTORY),
      huge: response => response.end(`${' '.repeat(70_000)}${DIRECTORY}`),
      text: response => response.end('keys'),
      'no keys': response => response.end('{"keys":{}}')
    }
    for (const [name, answer] of Object.entries(answers)) {
      const agent = await agentServer(t, answer)
      const s = await shop(t, BOTS)
      for (let time = 0; time < 3; time++)
        t.equal(await s.price({ headers: signed(s.clock, { agent: agent.url }) }), ELSE, name)
      t.strictSame(agent.paths, ['/.well-known/http-message-signatures-directory'], name)
      s.clock.advance(60_001)
      await s.price({ headers: signed(s.clock, { agent: agent.url }) })
      t.equal(agent.paths.length, 2, 'a minute later it is retried')
    }
  }
)

t.test('no client makes the gateway call internal addresses, or many others', async t => {
  const inner = await agentServer(t, response => response.end(DIRECTORY))
  const resolved: string[] = []
  const guard = new AddressGuard({
    production: true,
    resolve: async name => {
      resolved.push(name)
      return ['127.0.0.1']
    }
  })
  const s = await shop(t, BOTS, { guard })
  const ask = (agent: string, peerAddress = '203.0.113.9') =>
    s.price({ headers: signed(s.clock, { agent }), peerAddress })
  for (const agent of [
    inner.url,
    'https://localhost',
    'https://169.254.169.254',
    'https://metadata.google.internal',
    'https://user@bot.example',
    'https://bot.example:22',
    'ftp://bot.example'
  ])
    t.equal(await ask(agent), ELSE, agent)
  t.strictSame(resolved, [], 'refused before a name is resolved')
  for (let nth = 0; nth < 30; nth++) t.equal(await ask(`https://a${nth}.example`), ELSE)
  t.equal(resolved.length, 10, 'a client causes ten lookups in a minute')
  t.equal(await ask('https://b.example', '203.0.113.10'), ELSE)
  t.equal(resolved.length, 11)
  t.strictSame(inner.paths, [])
})

const GOOGLE = { 'user-agent': 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)' }

t.test('a search engine is known by reverse and forward DNS; its free response is private', async t => {
  let requests = 0
  const names: NameService = {
    reverse: async address => {
      requests++
      if (address === '203.0.113.4') throw new Error('timeout')
      return address === '203.0.113.3' ? ['x.googlebot.com.evil.example'] : ['crawl-1.googlebot.com']
    },
    addresses: async () => ['203.0.113.1']
  }
  const s = await shop(t, [{ who: 'search-engine', price: 0 }], { names })
  const from = (peerAddress: string, headers: Record<string, string> = GOOGLE) => s.price({ headers, peerAddress })
  const served = await s.ask({ headers: GOOGLE, peerAddress: '203.0.113.1' })
  t.equal(served.status, 200)
  t.equal(served.headers.get('cache-control'), 'private')
  t.equal(await from('203.0.113.1'), 0)
  t.equal(requests, 1, 'cached')
  t.equal(await from('203.0.113.2'), ELSE, 'a name that does not lead back')
  t.equal(await from('203.0.113.3'), ELSE, 'a name that only begins like one')
  t.equal(await from('203.0.113.4'), ELSE, 'DNS is down')
  t.equal(await from('203.0.113.4'), ELSE)
  t.equal(await from('203.0.113.1', { 'user-agent': 'bingbot/2.0' }), ELSE, 'the name of another engine')
  t.equal(await from('203.0.113.1', {}), ELSE)
  t.equal(requests, 4)
})

t.test('the first audience that fits sets the price; a browser is one by its headers', async t => {
  const s = await shop(t, [
    { who: 'search-engine', price: 1 },
    { who: 'browser', price: 50 }
  ])
  const browser = { 'user-agent': 'Mozilla/5.0', 'sec-fetch-mode': 'navigate', accept: 'text/html,*/*;q=0.8' }
  t.equal(await s.price({ headers: { ...browser, accept: 'text/html' } }), 50)
  t.equal(await s.price({ headers: { 'user-agent': 'curl/8' } }), ELSE)
  const script = { 'user-agent': 'Mozilla/5.0', 'sec-fetch-mode': 'cors', accept: 'text/event-stream' }
  t.equal(await s.price({ headers: script }), 50, 'resources of its pages have their price')
})
