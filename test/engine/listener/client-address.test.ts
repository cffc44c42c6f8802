import t from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { clientNetwork, normalAddress } from '../../../src/engine/message/addresses.ts'
import {
  TrustedProxies,
  acceptedCorrelationId,
  offeredCorrelation
} from '../../../src/engine/listener/client-address.ts'

const proxies = new TrustedProxies(['10.0.0.0/8', '192.0.2.1', '2001:db8::/32'])

t.test('a counter is kept for each IPv4 address and each IPv6 /64', async t => {
  const cases: readonly (readonly [string, string])[] = [
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::ffff:c000:207', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::1', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0003::1', '2001:db8:1:3::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['', '']
  ]
  for (const [address, key] of cases) t.equal(clientNetwork(address), key, address)
})

t.test('an address has one spelling', async t => {
  t.equal(normalAddress('::ffff:10.1.2.3'), '10.1.2.3')
  t.equal(normalAddress('2001:0db8:0:0::1'), '2001:db8::1')
  t.equal(normalAddress('no address'), 'no address')
})

t.test('a proxy is trusted by address and by range', async t => {
  for (const address of ['10.9.8.7', '::ffff:10.9.8.7', '192.0.2.1', '2001:db8::7']) t.ok(proxies.has(address), address)
  for (const address of ['11.0.0.1', '192.0.2.2', '2001:db9::7', '::1', '']) t.notOk(proxies.has(address), address)
  t.notOk(new TrustedProxies([]).has('10.0.0.1'))
})

t.test('an entry that is no address or range is named in the error', async t => {
  for (const entry of [
    'example.com',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/x',
    '2001:db8::/129',
    '10.1',
    '0x7f.1',
    ''
  ]) {
    t.throws(
      () => new TrustedProxies([entry]),
      {
        name: 'TypeError',
        message: `${JSON.stringify(entry)} is no trusted proxy; it must be an address or a range such as 10.0.0.0/8`
      },
      entry
    )
  }
})

t.test('X-Forwarded-For is read from right to left past the trusted proxies', async t => {
  const cases: readonly (readonly [readonly string[], string])[] = [
    [[], '10.0.0.1'],
    [['203.0.113.9'], '203.0.113.9'],
    [['198.51.100.1, 203.0.113.9'], '203.0.113.9'],
    [['203.0.113.9, 10.2.2.2'], '203.0.113.9'],
    [['198.51.100.1', '203.0.113.9, 10.2.2.2, 192.0.2.1'], '203.0.113.9'],
    [['10.3.3.3, 10.2.2.2'], '10.3.3.3'],
    [['203.0.113.9, unknown, 10.2.2.2'], '10.2.2.2'],
    [['nonsense'], '10.0.0.1'],
    [[''], '10.0.0.1'],
    [['203.0.113.9:4711'], '203.0.113.9'],
    [['[2001:db9::1]:4711'], '2001:db9::1'],
    [['2001:db9::1'], '2001:db9::1'],
    [['::ffff:203.0.113.9'], '203.0.113.9'],
    [['0x7f.1'], '10.0.0.1'],
    [['203.0.113.9, 203.0.113'], '10.0.0.1']
  ]
  for (const [lines, expected] of cases) {
    const headers = new HeaderList(lines.flatMap(line => ['X-Forwarded-For', line]))
    t.equal(proxies.client('10.0.0.1', headers, false).address, expected, JSON.stringify(lines))
  }
})

t.test('Forwarded counts only where there is no X-Forwarded-For', async t => {
  const forwarded = new HeaderList([
    'Forwarded',
    'for=198.51.100.1;proto=http, for="[2001:db9::1]:80";proto=https, for=10.2.2.2'
  ])
  t.strictSame(proxies.client('10.0.0.1', forwarded, false), { address: '2001:db9::1', secure: true })
  const both = new HeaderList(['Forwarded', 'for=198.51.100.1;proto=https', 'X-Forwarded-For', '203.0.113.9'])
  t.strictSame(proxies.client('10.0.0.1', both, false), { address: '203.0.113.9', secure: false })
  t.equal(proxies.client('10.0.0.1', new HeaderList(['Forwarded', 'for=_hidden']), false).address, '10.0.0.1')
})

t.test('the scheme is what the outermost trusted proxy saw', async t => {
  const secure = (proto: string, addresses = '203.0.113.9') =>
    proxies.client('10.0.0.1', new HeaderList(['X-Forwarded-For', addresses, 'X-Forwarded-Proto', proto]), false).secure
  t.ok(secure('https'))
  t.ok(secure('WSS'))
  t.notOk(secure('http'))
  t.notOk(secure('https, http'), 'headers of the client itself are ignored')
  t.ok(secure('https, http', '203.0.113.9, 10.2.2.2'), 'two trusted proxies, TLS ends at the outer one')
  t.notOk(secure('https, http, http', '203.0.113.9, 10.2.2.2'))
})

t.test('a correlation id is taken when it is harmless, else made', async t => {
  const fresh = () => 'fresh'
  for (const id of ['a', 'A-Za.z0:9_', 'x'.repeat(128)]) t.equal(acceptedCorrelationId(id, fresh), id)
  for (const id of [null, '', 'x'.repeat(129), 'a b', 'a"b', 'a\nb', 'ä', 'a,b'])
    t.equal(acceptedCorrelationId(id, fresh), 'fresh')
  t.equal(offeredCorrelation(['X-A', 'b', 'x-correlation-ID', 'c']), 'c')
  t.equal(
    offeredCorrelation(['X-Correlation-Id', 'b', 'X-Correlation-Id', 'c']),
    null,
    'two different ones are ambiguous'
  )
})
