import t from 'tap'
import { Gateway } from '../../../src/engine/pipeline/gateway.ts'
import { SqlSessionStore } from '../../../src/web/sign-in/store.ts'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { openConsole, sessionOf } from './session.ts'

t.test('every page of the consoles is for its signed-in users, and all others are sent to sign-in', async t => {
  const gateway = await startGateway(t, {
    yaml: defaultYaml({ replace: [['  publicUrl:', '  trustedProxies: [ 127.0.0.1 ]\n  publicUrl:']] })
  })
  const sessions = {
    merchant: await sessionOf(gateway, gateway.merchant.apiKey),
    admin: await sessionOf(gateway, gateway.adminKey)
  }
  const pages = gateway.operations.filter(({ path }) => /^\/(console|operator)(\/|$)/.test(path))
  t.ok(pages.length > 20, `${pages.length} pages and forms`)
  let from = 0
  for (const { method, path, access } of pages) {
    const right = access === 'admin' ? 'admin' : 'merchant'
    t.equal(right, path.startsWith('/operator') ? 'admin' : 'merchant', path)
    const ask = (headers: Record<string, string>) =>
      gateway.send(method, path.replaceAll(/:\w+/g, '1'), {
        headers: {
          'x-forwarded-for': `10.1.${++from >> 8}.${from & 255}`,
          'sec-fetch-site': 'same-origin',
          'content-type': 'application/x-www-form-urlencoded',
          ...headers
        },
        ...(method === 'POST' ? { body: 'do=nothing' } : {})
      })
    const requests = {
      nobody: {},
      'a made-up session': { cookie: 'boltgate-session=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' },
      'an API key': { 'x-api-key': right === 'admin' ? gateway.adminKey : gateway.merchant.apiKey },
      'a session of the other console': { cookie: sessions[right === 'admin' ? 'merchant' : 'admin'] }
    }
    for (const [who, headers] of Object.entries(requests)) {
      const answer = await ask(headers)
      t.equal(answer.status, 303, `${method} ${path}: ${who}`)
      t.match(answer.headers['location'], /^(\.\.?\/)+sign-in\?next=(console|operator)/, `${method} ${path}: ${who}`)
      // What is no session goes out of the browser; one that is good elsewhere stays.
      t.equal(answer.headers['set-cookie'] !== undefined, who === 'a made-up session', `${method} ${path}: ${who}`)
    }
    const answer = await ask({ cookie: sessions[right] })
    t.ok([200, 303, 404, 422, 502].includes(answer.status), `${method} ${path}: ${answer.status}`)
    t.notMatch(answer.headers['location'] ?? '', /sign-in/, `${method} ${path}`)
    if (method === 'POST') {
      const ridden = await ask({
        cookie: sessions[right],
        'sec-fetch-site': 'cross-site',
        origin: 'https://evil.example'
      })
      t.equal(ridden.status, 403, `${path}: a form of another site changes nothing`)
    }
  }
})

t.test('a read-only page causes no change, whatever its address says', async t => {
  const { gateway, cookie } = await openConsole(t)
  const before = (await gateway.merchantSend('GET', '/api/merchant/api-key-info')).text
  await gateway.send('GET', '/console/settings?do=key', { headers: { cookie, 'sec-fetch-site': 'none' } })
  t.equal((await gateway.merchantSend('GET', '/api/merchant/api-key-info')).text, before)
})

t.test('a page enters the engine once and looks its session up once; a change looks it up again', async t => {
  const { visit } = await openConsole(t)
  const entered = t.captureFn(Gateway.prototype.handle)
  const found = t.captureFn(SqlSessionStore.prototype.find)
  t.intercept(Gateway.prototype, 'handle', { value: entered })
  t.intercept(SqlSessionStore.prototype, 'find', { value: found })
  t.equal((await visit('/console')).status, 200)
  t.same([entered.calls.length, found.calls.length], [1, 1])
  const form = { do: 'colour', was: '', colour: '#c2410c' }
  t.equal((await visit('/console/settings', form)).status, 303)
  t.same([entered.calls.length, found.calls.length], [2, 3])
})
