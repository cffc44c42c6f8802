import t from 'tap'
import { responseHeaders } from '../../src/upstream/header-policy.ts'

t.test(
  'a head full of names in Connection is looked at as often as it has names and lines, not as their product',
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
    const { pairs } = responseHeaders(head, 200, false)
    const count = looks().length
    looks.restore()
    t.ok(count <= 5 * (names.length + lines.length), `${count} looks`)
    t.same(
      pairs.filter(text => /gone|stays/.test(text)),
      ['stays']
    )
    t.ok(pairs.length >= lines.length, 'what is not named stays')
  }
)

const TOLD = [
  'X-Accel-Redirect',
  '/internal/secret',
  'X-Sendfile',
  '/etc/passwd',
  'NEL',
  '{}',
  'Report-To',
  '{}',
  'Reporting-Endpoints',
  'a="https://merchant.example"',
  'Clear-Site-Data',
  '"cookies"',
  'strict-transport-security',
  'max-age=0',
  'Alt-Svc',
  'h3=":443"',
  'Service-Worker-Allowed',
  '/'
]

t.test('a target that is not trusted steers neither the proxy in front nor a browser beyond its own page', async t => {
  const kept = ['X-Accel-Buffering', 'no', 'Content-Type', 'text/plain']
  for (const status of [101, 103, 200])
    t.same(
      responseHeaders([...TOLD, ...kept], status, true).pairs.filter(text => text !== 'Via' && text !== '1.1 boltgate'),
      kept,
      `${status}`
    )
  t.same(responseHeaders([...TOLD, ...kept], 103, false).pairs, [...TOLD, ...kept], "an operator's own upstream may")
})

t.test("nobody's upstream says what the gateway says of balances, free calls and replays", async t => {
  const said = [
    'X-Charged-Msat',
    '0',
    'X-Balance-Msat',
    '9',
    'X-Free-Calls-Remaining',
    '99',
    'X-Idempotency-Replayed',
    'true'
  ]
  t.same(responseHeaders([...said, 'X-Kept', '1'], 103, false).pairs, ['X-Kept', '1'])
})

t.test('Via names the version of the response (RFC 9110 7.6.3)', async t => {
  t.same(responseHeaders([], 200, false, '1.0').pairs, ['Via', '1.0 boltgate'])
  t.same(responseHeaders([], 200, false, '1.1').pairs, ['Via', '1.1 boltgate'])
})
