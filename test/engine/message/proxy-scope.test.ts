import t from 'tap'
import { ProxyScope } from '../../../src/engine/message/proxy-scope.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { requestHeaders } from '../../../src/engine/upstream/header-policy.ts'
import { contextOf } from '../upstream/harness.ts'

const scope = () => new ProxyScope('shop-1', '/l402/proxy/shop-1')

t.test('proxy cookies: an upstream gets those that its proxy set, under their own names', async t => {
  t.equal(
    scope().cookies(
      'app_session=a; proxy-shop-1.sid=b; __Host-boltgate-session=c; proxy-shop-12.sid=d; proxy-shop-1.__Host-x=e'
    ),
    'sid=b; __Host-x=e'
  )
  t.equal(
    scope().cookies('app_session=a; xproxy-shop-1.sid=b; proxy-shop-1-a06579.sid=c; other=proxy-shop-1.sid=b'),
    null
  )
})

t.test('proxy cookies: Set-Cookie is confined to the proxy, whatever path and domain the upstream sets', async t => {
  const set = scope()
  const path = 'Path=/l402/proxy/shop-1'
  for (const [said, sent] of [
    ['sid=1', `proxy-shop-1.sid=1; ${path}`],
    ['sid=1; Path=/; Domain=shop.example; HttpOnly', `proxy-shop-1.sid=1; ${path}; HttpOnly`],
    [
      'sid = "1" ;path=/console;PATH=/;Max-Age=60;SameSite=None;Secure;Partitioned;Priority=High',
      `proxy-shop-1.sid="1"; ${path}; Max-Age=60; SameSite=None; Secure; Partitioned`
    ],
    [
      'sid=; Expires=Thu, 01 Jan 1970 00:00:00 GMT',
      `proxy-shop-1.sid=; ${path}; Expires=Thu, 01 Jan 1970 00:00:00 GMT`
    ],
    ['boltgate-session=x', `proxy-shop-1.boltgate-session=x; ${path}`],
    ['__Host-sid=1; Secure; Path=/', `proxy-shop-1.__Host-sid=1; ${path}; Secure`],
    ['__Secure-sid=1', null],
    ['=boltgate-session=x', null],
    ['no value', null],
    ['a b=1', null],
    ['', null]
  ] as const)
    t.equal(set.setCookie(said), sent, said)
  t.equal(new ProxyScope('a', '/l402/proxy/a;Domain=x').setCookie('sid=1'), null)
})

t.test('proxy cookies: a proxy keeps at most 32 cookies and 8 KiB in a browser, over all its responses', async t => {
  const first = scope()
  t.equal(Array.from({ length: 100 }, (_, at) => first.setCookie(`c${at}=1`)).filter(Boolean).length, 32)
  const next = scope()
  next.cookies(Array.from({ length: 31 }, (_, at) => `proxy-shop-1.c${at}=1`).join('; '))
  t.same(
    ['new=1', 'another=1', 'c0=changed', 'c1=; Max-Age=0'].map(line => next.setCookie(line) !== null),
    [true, false, true, true]
  )
  const large = scope()
  large.cookies(`proxy-shop-1.a=${'x'.repeat(4000)}; proxy-shop-1.b=${'x'.repeat(4000)}`)
  t.equal(large.setCookie(`c=${'x'.repeat(4000)}`), null)
  t.type(large.setCookie('a='), 'string')
})

t.test("untrusted upstreams: no credential of the gateway's origin reaches them", async t => {
  const sent = (untrusted: ProxyScope | null) =>
    new HeaderList(
      requestHeaders(
        contextOf({
          host: 'pay.example',
          headers: [
            'Cookie',
            'app_session=1',
            'Cookie',
            'proxy-shop-1.sid=2; other=3',
            'Authorization',
            'Basic eA==',
            'X-API-Key',
            'k',
            'Cf-Access-Jwt-Assertion',
            'jwt',
            'Referer',
            'https://pay.example/pay/secret-token?x'
          ]
        }),
        'up.example',
        untrusted,
        []
      )
    )
  const theirs = sent(scope())
  t.same(theirs.all('cookie'), ['sid=2'])
  t.equal(theirs.get('referer'), 'https://pay.example/')
  for (const name of ['authorization', 'x-api-key', 'cf-access-jwt-assertion']) t.notOk(theirs.has(name), name)
  const own = sent(null)
  t.same(own.all('cookie'), ['app_session=1', 'proxy-shop-1.sid=2; other=3'])
  t.equal(own.get('referer'), 'https://pay.example/pay/secret-token?x')
  t.ok(own.has('cf-access-jwt-assertion'))
  const within = 'https://pay.example/l402/proxy/shop-1/page?q'
  for (const whole of [within, 'https://pay.example/l402/proxy/shop-1', 'android-app://com.example/', 'no address'])
    t.equal(scope().referer(whole), whole)
  for (const path of ['/l402/proxy/shop-12/page', '/console?x'])
    t.equal(scope().referer(`https://pay.example${path}`), 'https://pay.example/', path)
})
