import * as fc from 'fast-check'
import t from 'tap'
import { ShortError } from '../../../src/engine/operations/errors.ts'
import { webhookAddress } from '../../../src/accounts/merchants/webhook-address.ts'

const production = { production: true }
const development = { production: false }
const badFormat = { status: 400, message: /^Invalid webhook URL format: / }
const notAllowed = { status: 400, message: /^Webhook URL not allowed: / }

t.test('public https addresses are kept unchanged, a query and a path too', async t => {
  for (const url of [
    'https://shop.example/hook',
    'https://shop.example:8443/a/b?key=1&x=%20',
    'https://shop.example/',
    'https://xn--bcher-kva.example/h'
  ]) {
    t.equal(webhookAddress(url, production), url)
  }
  t.equal(
    webhookAddress('https://Bücher.example/h', production),
    'https://xn--bcher-kva.example/h',
    'stored as it will be called'
  )
})

for (const text of [
  'shop.example/hook',
  'not a url',
  'https://',
  'https:shop.example',
  '//shop.example/x',
  'http://shop.example/hook',
  'ftp://shop.example/',
  'javascript:alert(1)',
  'https://user:pass@shop.example/',
  'https://@shop.example/',
  'https://shop.example/#part',
  ' https://shop.example/',
  'https://shop.example/a\\b',
  'https://shop.example/\n',
  `https://shop.example/${'a'.repeat(2048)}`,
  ' '
]) {
  t.test(
    `the webhookUrl is validated for format (400 on bad format): ${JSON.stringify(text.slice(0, 40))}`,
    async t => {
      t.throws(() => webhookAddress(text, production), badFormat)
      t.throws(() => webhookAddress(text, development), badFormat)
    }
  )
}

for (const text of [
  'https://metadata.google.internal/',
  'https://metadata.google.com/',
  'https://169.254.169.254/latest/meta-data',
  'https://[fd00:ec2::254]/',
  'https://10.0.0.1/',
  'https://8.8.8.8/',
  'https://kubernetes.default.svc.cluster.local/',
  'https://redis.internal/',
  'https://printer.local/',
  'https://api/',
  'https://shop.example./',
  'https://0x7f000001.example.localhost/',
  'https://100.100.100.200/',
  'https://2852039166/'
]) {
  t.test(`blocked hostnames (cloud metadata, cluster-internal names) are refused: ${text}`, async t => {
    t.throws(() => webhookAddress(text, production), notAllowed)
    t.throws(() => webhookAddress(text, development), notAllowed)
  })
}

for (const text of [
  'https://localhost/hook',
  'https://localhost:8443/',
  'https://127.0.0.1/',
  'https://[::1]/',
  'https://127.1/'
]) {
  t.test(`localhost is refused in production and allowed outside (decision 162): ${text}`, async t => {
    t.throws(() => webhookAddress(text, production), notAllowed)
    t.type(webhookAddress(text, development), 'string')
  })
}

t.test('HTTPS is required in production (HTTP allowed for localhost)', async t => {
  t.equal(webhookAddress('http://localhost:3000/hook', development), 'http://localhost:3000/hook')
  t.throws(() => webhookAddress('http://localhost:3000/hook', production), badFormat)
  t.throws(() => webhookAddress('http://shop.example/hook', development), badFormat)
})

for (const port of [
  22, 23, 25, 110, 135, 139, 143, 389, 445, 1433, 1521, 2049, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 5984, 6379,
  6443, 8500, 9042, 9200, 10250, 11211, 27017
]) {
  t.test(`common internal service ports are refused: ${port} (decision 164)`, async t => {
    t.throws(() => webhookAddress(`https://shop.example:${port}/hook`, production), notAllowed)
    t.throws(() => webhookAddress(`http://localhost:${port}/hook`, development), notAllowed)
  })
}

t.test('whatever is sent, the answer is an address that reads the same again, or a 400', async () => {
  const text = fc.oneof(
    fc.string(),
    fc.webUrl({ withQueryParameters: true, withFragments: true }),
    fc.webUrl().map(url => url.replace('http://', 'https://'))
  )
  fc.assert(
    fc.property(text, fc.boolean(), (given, isProduction) => {
      try {
        const stored = webhookAddress(given, { production: isProduction })
        return webhookAddress(stored, { production: isProduction }) === stored && new URL(stored).href === stored
      } catch (error) {
        return error instanceof ShortError && error.status === 400
      }
    })
  )
})
