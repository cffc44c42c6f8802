import t from 'tap'
import {
  AddressGuard,
  AddressRefused,
  checkTargetUrl,
  NameUnresolved,
  publicAddress,
  type AddressFault,
  type TargetRules
} from '../../../src/engine/upstream/guard.ts'
import { guardedConnector } from '../../../src/engine/upstream/connector.ts'
import { RawUpstream } from '../../support/raw-upstream.ts'

const PRODUCTION: TargetRules = { production: true }
const DEVELOPMENT: TargetRules = { production: false }

function reason(text: string, rules: TargetRules) {
  try {
    checkTargetUrl(text, rules)
    return null
  } catch (error) {
    if (error instanceof AddressRefused) return error.reason
    throw error
  }
}

/** Why a promise was refused, or null. */
async function refusal(promise: Promise<unknown>) {
  const error: unknown = await promise.then(
    () => null,
    (error: unknown) => error
  )
  return error instanceof AddressRefused ? error.reason : null
}

t.test('public https addresses are taken', async t => {
  for (const text of [
    'https://api.example.com',
    'https://api.example.com/',
    'https://api.example.com/v1/',
    'https://api.example.com:8443/x',
    'https://API.Example.com',
    'https://xn--bcher-kva.example',
    'https://bücher.example'
  ]) {
    for (const rules of [PRODUCTION, DEVELOPMENT]) t.equal(reason(text, rules), null, text)
  }
})

const REFUSED: ReadonlyArray<readonly [text: string, reason: AddressFault]> = [
  ['', 'malformed'],
  ['api.example.com', 'malformed'],
  ['https:api.example.com', 'malformed'],
  ['https://', 'malformed'],
  ['https://api.example.com/a b', 'malformed'],
  ['https://api.example.com\\@evil.example', 'malformed'],
  ['https://api.exa\tmple.com', 'malformed'],
  [' https://api.example.com', 'malformed'],
  ['https://api.example.com/\u0000', 'malformed'],
  [`https://api.example.com/${'a'.repeat(2048)}`, 'malformed'],
  ['http://api.example.com', 'scheme'],
  ['ftp://api.example.com', 'scheme'],
  ['file:///etc/passwd', 'scheme'],
  ['ws://api.example.com', 'scheme'],
  ['gopher://api.example.com', 'scheme'],
  ['https://user@api.example.com', 'userinfo'],
  ['https://user:pass@api.example.com', 'userinfo'],
  ['https://:@api.example.com', 'userinfo'],
  ['https://@api.example.com', 'userinfo'],
  ['https://api.example.com/?a=1', 'query'],
  ['https://api.example.com?', 'query'],
  ['https://api.example.com/#a', 'fragment'],
  ['https://api.example.com/#', 'fragment'],
  ['https://api.example.com.', 'host'],
  ['https://intranet', 'host'],
  ['https://foo.localhost', 'host'],
  ['https://printer.local', 'host'],
  ['https://db.internal', 'host'],
  ['https://metadata.google.internal', 'host'],
  ['https://metadata.azure.com', 'host'],
  ['https://router.home.arpa', 'host'],
  ['https://vault.default.svc', 'host'],
  ['https://10-1-2-3.default.pod', 'host'],
  ['https://vault.service.consul', 'host'],
  ['https://METADATA.goog', 'host'],
  ['https://nas.lan', 'host'],
  ['https://wiki.corp', 'host'],
  ['https://printer.home', 'host'],
  ['https://wiki.intranet', 'host'],
  ['https://db.private', 'host'],
  ['https://8.8.8.8', 'host'],
  ['https://10.0.0.1', 'host'],
  ['https://134744072', 'host'],
  ['https://0x08080808', 'host'],
  ['https://[2606:4700::1]', 'host'],
  ['https://[fd00::1]', 'host'],
  ['https://0', 'host'],
  ['https://api.example.com:22', 'port'],
  ['https://api.example.com:80', 'port'],
  ['https://api.example.com:6379', 'port'],
  ['https://api.example.com:10250', 'port'],
  ['https://api.example.com:1', 'port'],
  ['https://api.example.com:5432', 'port']
]

t.test('addresses that could reach inside are refused, with the reason', async t => {
  for (const [text, expected] of REFUSED) {
    for (const rules of [PRODUCTION, DEVELOPMENT]) t.equal(reason(text, rules), expected, JSON.stringify(text))
  }
})

t.test('the machine itself may be called outside production only, by plain HTTP too', async t => {
  for (const text of [
    'http://localhost:3000',
    'http://127.0.0.1:3000/x',
    'https://localhost:3000',
    'http://[::1]:3000',
    'http://localhost',
    'http://0x7f000001:3000'
  ]) {
    t.equal(reason(text, DEVELOPMENT), null, text)
    t.ok(['scheme', 'host'].includes(String(reason(text, PRODUCTION))), `${text} in production`)
  }
  t.equal(reason('http://localhost:6379', DEVELOPMENT), 'port', 'services of the machine stay closed')
  t.equal(reason('http://192.168.1.5:3000', DEVELOPMENT), 'scheme', 'other private addresses stay closed')
  t.equal(reason('https://192.168.1.5:3000', DEVELOPMENT), 'host')
})

t.test('a callback address may have a query where the caller allows it', async t => {
  t.equal(reason('https://api.example.com/hook?id=1', { production: true, query: true }), null)
  t.equal(reason('https://api.example.com/hook?id=1#x', { production: true, query: true }), 'fragment')
})

const ADDRESSES: ReadonlyArray<readonly [address: string, open: boolean]> = [
  ['8.8.8.8', true],
  ['93.184.215.14', true],
  ['2606:4700::1111', true],
  ['0.0.0.0', false],
  ['0.1.2.3', false],
  ['10.1.2.3', false],
  ['100.64.0.1', false],
  ['127.0.0.1', false],
  ['127.8.8.8', false],
  ['169.254.169.254', false],
  ['172.16.0.1', false],
  ['172.31.255.255', false],
  ['192.0.0.192', false],
  ['192.0.2.1', false],
  ['192.88.99.1', false],
  ['192.168.0.1', false],
  ['198.18.0.1', false],
  ['198.51.100.1', false],
  ['203.0.113.1', false],
  ['224.0.0.1', false],
  ['240.0.0.1', false],
  ['255.255.255.255', false],
  ['168.63.129.16', false],
  ['::', false],
  ['::1', false],
  ['::ffff:127.0.0.1', false],
  ['::ffff:8.8.8.8', false],
  ['::127.0.0.1', false],
  ['::7f00:1', false],
  ['::ffff:0:7f00:1', false],
  ['64:ff9b::7f00:1', false],
  ['64:ff9b::8.8.8.8', false],
  ['64:ff9b:1::1', false],
  ['100::1', false],
  ['100:0:0:1::1', false],
  ['2001::1', false],
  ['2001:db8::1', false],
  ['2002:7f00:1::', false],
  ['fc00::1', false],
  ['fd00:ec2::254', false],
  ['fe80::1', false],
  ['fe80::1%eth0', false],
  ['fec0::1', false],
  ['ff02::1', false],
  ['3fff::1', false],
  ['5f00::1', false],
  ['2130706433', false],
  ['0x7f.1', false],
  ['example.com', false],
  ['', false]
]

t.test('only plain unicast addresses are public', async t => {
  for (const [address, open] of ADDRESSES) t.equal(publicAddress(address), open, address)
})

t.test('a name passes only when all of its addresses do', async t => {
  const answers: Record<string, readonly string[]> = {
    'good.example.com': ['93.184.215.14', '2606:4700::1111'],
    'mixed.example.com': ['93.184.215.14', '10.0.0.1'],
    'mapped.example.com': ['::ffff:10.0.0.1'],
    'empty.example.com': []
  }
  const guard = new AddressGuard({ production: true, resolve: async name => answers[name] ?? [] })
  t.same(await guard.addresses('good.example.com'), ['93.184.215.14', '2606:4700::1111'])
  await t.rejects(guard.addresses('mixed.example.com'), AddressRefused)
  await t.rejects(guard.addresses('mapped.example.com'), AddressRefused)
  await t.rejects(guard.addresses('empty.example.com'), NameUnresolved)
  await t.rejects(guard.addresses('db.internal'), AddressRefused, 'the rules for names hold at connect too')
  await t.rejects(guard.addresses('intranet'), AddressRefused)
  await t.rejects(guard.addresses('169.254.169.254'), AddressRefused)
  await t.rejects(guard.addresses('[::ffff:127.0.0.1]'), AddressRefused)
  await t.rejects(guard.addresses('localhost'), AddressRefused)
  await t.rejects(guard.addresses('127.0.0.1'), AddressRefused)
  t.same(await guard.addresses('8.8.8.8'), ['8.8.8.8'])
})

t.test('outside production localhost is the machine itself, and no other name is', async t => {
  const guard = new AddressGuard({ production: false, resolve: async () => ['127.0.0.1'] })
  t.same(await guard.addresses('localhost'), ['127.0.0.1', '::1'])
  t.same(await guard.addresses('[::1]'), ['::1'])
  await t.rejects(guard.addresses('rebound.example.com'), AddressRefused)
})

t.test('scheme and port are checked again at connect', async t => {
  const guard = new AddressGuard({ production: true, resolve: async () => ['93.184.215.14'] })
  t.same(await guard.connectable('https://api.example.com'), ['93.184.215.14'])
  t.equal(await refusal(guard.connectable('http://api.example.com')), 'scheme')
  t.equal(await refusal(guard.connectable('https://api.example.com:6379')), 'port')
  const lax = new AddressGuard({ production: false })
  t.same(await lax.connectable('http://127.0.0.1:3000'), ['127.0.0.1'])
  t.equal(await refusal(lax.connectable('http://[::1]:22')), 'port')
})

t.test('the message of a refusal reveals no address', async t => {
  const guard = new AddressGuard({ production: true, resolve: async () => ['10.77.1.2'] })
  const error: unknown = await guard.addresses('inside.example.com').catch((error: unknown) => error)
  t.type(error, AddressRefused)
  t.notMatch(String(error), /10\.77/)
})

t.test('a name that turns private between two connections is refused at the second', async t => {
  const upstream = await new RawUpstream(() => {
    /* only accepts */
  }).listen()
  t.teardown(async () => {
    await upstream.close()
  })
  let calls = 0
  const guard = new AddressGuard({
    production: true,
    resolve: async () => (++calls === 1 ? ['93.184.215.14'] : ['127.0.0.1'])
  })
  t.same(await guard.addresses('rebind.example.com'), ['93.184.215.14'])
  const connect = guardedConnector(guard, { tls: null, timeout: 1000 })
  const error = await new Promise<Error | null>(resolve => {
    connect({ hostname: 'rebind.example.com', protocol: 'https:', port: String(upstream.port) }, (...result) => {
      resolve(result[0])
    })
  })
  t.type(error, AddressRefused)
  t.equal(upstream.connections.length, 0, 'nothing was opened')
})

t.test('the connection goes to the checked address, without resolving again', async t => {
  const upstream = await new RawUpstream(() => {
    /* only accepts */
  }).listen()
  t.teardown(async () => {
    await upstream.close()
  })
  const guard = new AddressGuard({
    production: false,
    resolve: async () => {
      throw new Error('not asked')
    }
  })
  const connect = guardedConnector(guard, { tls: null, timeout: 1000 })
  const address = await new Promise<string | undefined>((resolve, reject) => {
    connect({ hostname: 'localhost', protocol: 'http:', port: String(upstream.port) }, (...result) => {
      const [error, socket] = result
      if (error !== null) {
        reject(error)
        return
      }
      resolve(socket.remoteAddress)
      socket.destroy()
    })
  })
  t.equal(address, '127.0.0.1')
})
