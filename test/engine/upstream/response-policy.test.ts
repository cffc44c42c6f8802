import t from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { ProxyScope } from '../../../src/engine/message/proxy-scope.ts'
import { responseHeaders, responseTrailers } from '../../../src/engine/upstream/response-policy.ts'

t.test(
  'the cost of a head full of names in Connection grows with the sum of names and lines, not their product',
  async t => {
    const names = Array.from({ length: 500 }, (_, at) => `x-named-${at}`)
    const lines = Array.from({ length: 500 }, (_, at) => [`X-Line-${at}`, '1']).flat()
    const head = [
      'Connection',
      names.join(','),
      ...lines,
      'X-Named-7',
      'gone',
      'X-Line',
      'stays',
      'x-NAMED-499',
      'gone'
    ]
    // Each look at a name puts it in lower case once.
    const looks = t.capture(String.prototype, 'toLowerCase', String.prototype.toLowerCase)
    const { pairs } = responseHeaders(head, 200, null)
    const count = looks().length
    looks.restore()
    t.ok(count <= 5 * (names.length + lines.length), `${count} looks`)
    t.same(
      pairs.filter(text => /gone|stays/.test(text)),
      ['stays']
    )
    t.ok(pairs.length >= lines.length, 'other headers stay')
  }
)

const SCOPE = new ProxyScope('p-1', '/l402/proxy/p-1')
const SANDBOXED = /^sandbox (?!.*allow-same-origin).*allow-scripts/

/** Headers that act beyond the response that carries them, or that the gateway alone sends. */
const TRUSTED_ONLY = [
  'X-Accel-Redirect: /internal/secret',
  'X-Accel-Expires: 600',
  'X-Sendfile: /etc/passwd',
  'X-Sendfile2: /etc/passwd 0-',
  'X-LiteSpeed-Location: /admin',
  'X-LiteSpeed-Purge: *',
  'X-Reproxy-URL: http://127.0.0.1/',
  'Surrogate-Control: content="ESI/1.0"',
  'NEL: {}',
  'Report-To: {}',
  'Reporting-Endpoints: a="https://merchant.example"',
  'Clear-Site-Data: "cookies"',
  'strict-transport-security: max-age=0',
  'Public-Key-Pins: pin-sha256="x"',
  'Alt-Svc: h3=":443"',
  'Service-Worker-Allowed: /',
  'Accept-CH: Sec-CH-UA-Model',
  'Critical-CH: Sec-CH-UA-Model',
  'Origin-Agent-Cluster: ?1',
  'Set-Login: logged-out',
  'Activate-Storage-Access: load',
  'Speculation-Rules: "/rules"',
  'Use-As-Dictionary: match="/*"',
  'Secure-Session-Registration: (ES256);path="/register"',
  'Attribution-Reporting-Register-Source: {}',
  'Shared-Storage-Write: clear',
  'X-API-Deprecation: use https://merchant.example',
  'X-API-Version: 9.9.9',
  'PAYMENT-REQUIRED: e30=',
  'PAYMENT-RESPONSE: e30=',
  'X-PAYMENT-RESPONSE: e30='
].flatMap(line => line.split(/: (.*)/s, 2))

t.test('untrusted upstreams: headers that act beyond their own response are dropped', async t => {
  const kept = ['X-Accel-Buffering', 'no', 'Content-Type', 'text/plain']
  for (const status of [101, 103, 200, 304])
    t.same(
      responseHeaders([...TRUSTED_ONLY, ...kept], status, SCOPE).pairs.slice(0, kept.length + 1),
      status < 200 ? kept : [...kept, 'Content-Security-Policy'],
      `${status}`
    )
  t.same(responseHeaders([...TRUSTED_ONLY, ...kept], 103, null).pairs, [...TRUSTED_ONLY, ...kept], 'trusted upstreams')
  t.same(responseTrailers(TRUSTED_ONLY), null, 'nor as trailers')
  t.same(responseHeaders(['Link', '</api/merchant/me>; rel=preload'], 103, SCOPE).pairs, [])
  t.match(responseHeaders(['Link', '<?page=2>; rel=next'], 200, SCOPE).pairs, ['Link'])
})

t.test('untrusted upstreams: every final response is sandboxed, whatever its type, status and own policy', async t => {
  const types = [[], ['Content-Type', 'foo'], ['Content-Type', 'text/xsl'], ['Content-Type', 'application/json']]
  for (const status of [200, 204, 206, 302, 304, 401, 500])
    for (const type of types) {
      const said = [
        ...type,
        ...'Content-Security-Policy X-Content-Type-Options Connection'
          .split(' ')
          .flatMap((name, at) => [
            name,
            ["script-src 'self'", 'sniff', 'content-security-policy, x-content-type-options'][at] ?? ''
          ])
      ]
      for (const raw of [said, said.slice(0, -2)]) {
        const headers = new HeaderList([...responseHeaders(raw, status, SCOPE).pairs])
        t.match(headers.all('content-security-policy').at(-1), SANDBOXED, `${status} ${type.join(' ')}`)
        t.same(headers.all('x-content-type-options'), ['nosniff'])
        if (raw !== said)
          t.equal(headers.all('content-security-policy')[0], "script-src 'self'", 'its own policy counts too')
      }
    }
  t.notMatch(responseHeaders(['Content-Type', 'text/html'], 200, null).pairs, ['Content-Security-Policy'])
})

t.test('upstreams: headers of the gateway about payments, balances, free calls and replays are dropped', async t => {
  const said = [
    'X-Charged-Msat',
    '0',
    'X-L402-Whatever',
    '1',
    'X-Last-Charged-Msat',
    '0',
    'X-Balance-Msat',
    '9',
    'X-Free-Calls-Remaining',
    '99',
    'X-Idempotency-Replayed',
    'true'
  ]
  t.same(responseHeaders([...said, 'X-Kept', '1'], 103, null).pairs, ['X-Kept', '1'])
  t.same(responseTrailers([...said, 'X-Kept', '1']), ['X-Kept', '1'])
})

t.test('upstreams: payment challenges are dropped, since no credential for them is forwarded', async t => {
  const payable = [
    'L402 macaroon="AA", invoice="lnbc1"',
    'lsat macaroon="AA"',
    'PAYMENT',
    'Payment\tid="a"',
    '\t, Payment id="a"',
    'Basic realm="a", L402 macaroon="AA"',
    'Negotiate,L402'
  ]
  const others = ['Basic realm="L402"', 'Bearer realm="a", error="payment"', 'Payments id="a"', 'DPoP algs="ES256"']
  const lines = (values: readonly string[]) => values.flatMap(value => ['www-authenticate', value])
  for (const scope of [null, SCOPE])
    for (const status of [101, 200, 401, 402]) {
      const { pairs } = responseHeaders(lines([...payable, ...others]), status, scope)
      t.same(new HeaderList([...pairs]).all('www-authenticate'), others, `${status}`)
    }
})

t.test('Via names the version of the response (RFC 9110 7.6.3)', async t => {
  t.same(responseHeaders([], 200, null, '1.0').pairs, ['Via', '1.0 boltgate'])
  t.same(responseHeaders([], 200, null, '1.1').pairs, ['Via', '1.1 boltgate'])
})
