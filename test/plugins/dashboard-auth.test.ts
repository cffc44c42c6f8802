import t from 'tap'
import dashboardAuth from '../../plugins/dashboard-auth.ts'
import { MemoryState, type Services, type Sessions } from '../../src/index.ts'
import { harness, type HarnessRequest } from '../../src/engine/pipeline/harness.ts'
import { AdminKey } from '../../src/accounts/merchants/admin-key.ts'
import { AuthThrottle } from '../../src/accounts/merchants/auth-throttle.ts'
import { Secret } from '../../src/platform/keys/secrets.ts'
import { ManualClock } from '../support/manual-clock.ts'

const KEY = 'the admin key'

/** No one is signed in, and no request here opens a session. */
const SIGNED_OUT = {
  sessions: { tokenOf: () => null } as unknown as Sessions,
  signInRecord: {} as Services['signInRecord']
}

t.test("nothing that shows the admin key is forwarded to an upstream of the operator's own", async t => {
  const clock = new ManualClock()
  const adminKey = new AdminKey(new Secret(KEY))
  const chain = await harness([{ plugin: dashboardAuth, config: {} }], {
    services: {
      clock,
      adminKey,
      authThrottle: new AuthThrottle(new MemoryState(clock), clock),
      ...SIGNED_OUT
    }
  })
  const encoded = encodeURIComponent(KEY)
  const session = adminKey.session(clock.now() + 60_000)
  const sent = async (request: HarnessRequest) => {
    const { status, upstream } = await chain.run(request)
    t.equal(status, 200, JSON.stringify(request))
    return { path: upstream?.path, lines: JSON.stringify(upstream?.headers.pairs ?? []) }
  }
  const cases: ReadonlyArray<[name: string, request: HarnessRequest, path: string]> = [
    ['the query of a POST', { method: 'POST', target: `/jobs/retry?adminKey=${encoded}` }, '/jobs/retry'],
    [
      'between others',
      { method: 'POST', target: `/jobs/retry?a=1&adminKey=${encoded}&b=%20` },
      '/jobs/retry?a=1&b=%20'
    ],
    ['before others', { method: 'POST', target: `/jobs/retry?adminKey=${encoded}&b` }, '/jobs/retry?b'],
    ['beside the header', { target: `/jobs?adminKey=${encoded}`, headers: { 'X-Admin-Key': KEY } }, '/jobs'],
    ['the header', { target: '/jobs?other=1', headers: { 'X-Admin-Key': KEY } }, '/jobs?other=1'],
    ['the cookie', { target: '/jobs', headers: { Cookie: `boltgate_jobs=${session}` } }, '/jobs'],
    [
      'the cookie between others',
      { target: '/jobs?', headers: { Cookie: `a=1; boltgate_jobs=${session}; b=2` } },
      '/jobs?'
    ]
  ]
  for (const [name, request, path] of cases) {
    const out = await sent(request)
    t.equal(out.path, path, name)
    t.notOk(out.lines.includes(KEY) || out.lines.includes(session), name)
  }
  t.match(
    (await sent({ target: '/jobs', headers: { Cookie: `a=1; boltgate_jobs=${session}; b=2` } })).lines,
    /"a=1; b=2"/
  )
})

t.test('dashboard-auth: keyless requests of other sites do not lock their visitor out', async t => {
  const clock = new ManualClock()
  const chain = await harness([{ plugin: dashboardAuth, config: {} }], {
    services: {
      clock,
      adminKey: new AdminKey(new Secret(KEY)),
      authThrottle: new AuthThrottle(new MemoryState(clock), clock),
      ...SIGNED_OUT
    }
  })
  const get = async (headers: Readonly<Record<string, string>>) =>
    (await chain.run({ target: '/jobs', headers })).status
  for (let i = 0; i < 25; i++) t.equal(await get({ 'Sec-Fetch-Site': 'cross-site' }), 401)
  t.equal(await get({ 'X-Admin-Key': KEY }), 200)
  for (let i = 0; i < 21; i++) t.equal(await get({}), 401)
  t.equal(await get({ 'X-Admin-Key': KEY }), 429)
})
