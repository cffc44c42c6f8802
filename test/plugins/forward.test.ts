import t from 'tap'
import forward from '../../plugins/forward.ts'
import type { RouteConfig } from '../../src/engine/config/schema.ts'
import type { UpstreamConfig } from '../../src/engine/sections/upstream.ts'
import type { Scope } from '../../src/engine/pipeline/plugin.ts'
import { systemClock } from '../../src/platform/system/clock.ts'
import { Forwarder } from '../../src/engine/upstream/forwarder.ts'
import { RawUpstream } from '../support/raw-upstream.ts'
import { contextOf, RecordingResponder, upstreamConfig } from '../engine/upstream/harness.ts'

/** The scope of a route with this upstream; the plugin reads nothing else of the route. */
function scopeOf(forwarder: Forwarder, upstream: UpstreamConfig): Scope<'forwarder'> {
  const config = { name: 'test', upstream } as unknown as RouteConfig
  return {
    services: { forwarder },
    route: { name: 'test', config, own: false },
    mode: 'development',
    slot: name => ({ index: 0, name })
  }
}

async function setup(t: {
  teardown: (run: () => Promise<void>) => unknown
}): Promise<{ upstream: RawUpstream; forwarder: Forwarder }> {
  const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na').listen()
  const forwarder = new Forwarder({ clock: systemClock, production: false })
  t.teardown(async () => {
    await forwarder.close()
    await upstream.close()
  })
  return { upstream, forwarder }
}

t.test("the route's own upstream gets its base path and the raw target", async t => {
  const { upstream, forwarder } = await setup(t)
  for (const [url, stripPrefix, target, expected] of [
    [upstream.origin, undefined, '/v1/a%2Fb?x=1', '/v1/a%2Fb?x=1'],
    [`${upstream.origin}/`, undefined, '/v1', '/v1'],
    [`${upstream.origin}/base`, undefined, '/v1?x', '/base/v1?x'],
    [`${upstream.origin}/base/`, undefined, '/v1', '/base/v1'],
    [`${upstream.origin}/base`, '/v1', '/v1/a', '/base/a'],
    [`${upstream.origin}/base`, '/v1/', '/v1?x=1', '/base/?x=1'],
    [`${upstream.origin}`, '/v1', '/v1', '/'],
    [`${upstream.origin}`, '/v1', '/v10/a', '/v10/a'],
    // What the router takes for the prefix is the prefix, however it is written.
    [`${upstream.origin}`, '/v1', '/%761/a%2Fb?x=1', '/a%2Fb?x=1'],
    [`${upstream.origin}`, '/v1/é', '/v1/%c3%a9/a', '/a'],
    [`${upstream.origin}`, '/v1', '/%76%31', '/'],
    [`${upstream.origin}`, '/v1', '/%7610/a', '/%7610/a'],
    [`${upstream.origin}`, '/v1/b', '/%761%2Fb/a', '/%761%2Fb/a']
  ] as const) {
    const hooks = await forward.setup(
      {},
      scopeOf(forwarder, upstreamConfig(url, stripPrefix === undefined ? {} : { stripPrefix }))
    )
    const responder = new RecordingResponder()
    void hooks.handle?.(contextOf({ target }), responder)
    await responder.done
    t.equal(responder.status, 200)
    t.equal(upstream.requests.at(-1)?.head.split(' ')[1], expected, `${url} ${stripPrefix ?? ''} ${target}`)
    await hooks.close?.()
  }
})

t.test("the client's Host is forwarded only where the route says so, and configured headers always", async t => {
  const { upstream, forwarder } = await setup(t)
  for (const [preserveHost, expected] of [
    [false, `127.0.0.1:${upstream.port}`],
    [true, 'gateway.test']
  ] as const) {
    const hooks = await forward.setup(
      {},
      scopeOf(forwarder, upstreamConfig(upstream.origin, { preserveHost, headers: { 'X-Key': 'k' } }))
    )
    const responder = new RecordingResponder()
    void hooks.handle?.(contextOf({ headers: ['Host', 'gateway.test', 'x-key', 'forged'] }), responder)
    await responder.done
    const head = upstream.requests.at(-1)?.head ?? ''
    t.match(head, new RegExp(`^host: ${expected}$`, 'im'))
    t.match(head, /^x-key: k$/im)
    t.notMatch(head, /forged/)
    await hooks.close?.()
  }
})

t.test('an internal upstream, and one that is not HTTP, are refused when the chain is built', async t => {
  const { forwarder } = await setup(t)
  await t.rejects(async () => {
    await forward.setup({}, scopeOf(forwarder, { kind: 'internal', name: 'api' }))
  }, /api is inside the gateway/)
  await t.rejects(async () => {
    await forward.setup({}, scopeOf(forwarder, upstreamConfig('ftp://127.0.0.1')))
  }, /must begin with http/)
  t.equal(forwarder.load.pools, 0)
})
