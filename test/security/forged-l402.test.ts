import { randomBytes } from 'node:crypto'
import t from 'tap'
import {
  addCaveat,
  decodeIdentifier,
  decodeMacaroonBase64,
  encodeIdentifier,
  macaroonToBase64,
  mintMacaroon,
  type Macaroon
} from '../../src/lightning/l402/macaroon.ts'
import { paymentHashOf } from '../../src/lightning/codecs/hmac.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { buy, use } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { openShop, refuses, shopYaml, type Expected } from './shop.ts'

/** A bought credential, taken apart. */
function take(credential: string) {
  const [token = '', preimage = ''] = credential.replace(/^L402 /, '').split(':')
  const macaroon = decodeMacaroonBase64(token)
  return { macaroon, preimage, caveats: macaroon.caveats.map(caveat => Buffer.from(caveat).toString()) }
}

function join(macaroon: Macaroon, preimage: string) {
  return `L402 ${macaroonToBase64(macaroon)}:${preimage}`
}

const invalid = (detail: string | RegExp) => ({
  status: 401,
  body: { error: 'Unauthorized', message: 'Invalid L402 credential', detail },
  l402Error: detail
})
const unsigned = invalid('Invalid macaroon signature')
const malformed = (message: RegExp) => ({
  status: 400,
  body: { error: 'Bad Request', message },
  l402Error: message
})
const otherPath = (allowed: string, requested: string) => ({
  status: 403,
  body: { error: 'Forbidden', message: 'Token not valid for this path', allowed, requested },
  l402Error: 'Token not valid for this path'
})
const forbidden = (message: string) => ({
  status: 403,
  body: { error: 'Forbidden', message },
  l402Error: message
})

t.test('forged and misused L402 tokens', async t => {
  const shop = await openShop(t)
  const { gateway, upstream, keys } = shop
  const path = '/paid/item'
  const bought = await buy(gateway, path)
  const { macaroon, preimage, caveats } = take(bought)
  const { paymentHash, tokenId } = decodeIdentifier(macaroon.identifier)
  const text = (caveats: readonly string[], other: Partial<Macaroon> = {}) => ({
    ...macaroon,
    caveats: caveats.map(caveat => Buffer.from(caveat)),
    ...other
  })
  // What a token of ours would say, genuinely signed: only caveats are judged.
  const signed = (caveats: readonly string[]) => {
    const root = keys.rootKey(tokenId)
    if (root === null) throw new Error("the shop's keys are the gateway's")
    return join(mintMacaroon(root, 'l402', macaroon.identifier, caveats), preimage)
  }
  const edit = (name: string, value: string) =>
    caveats.map(caveat => (caveat.startsWith(`${name}=`) ? `${name}=${value}` : caveat))
  const own = randomBytes(32).toString('hex')
  const foreignKey = randomBytes(32)
  const now = Math.floor(Date.now() / 1000)

  t.match(
    caveats,
    [/^services=boltgate:0$/, /^path=\/paid\/item$/, /^charge_id=/, /^amount_sats=7$/, /^expires=\d+$/],
    'forged below'
  )

  const rows: Array<[name: string, authorization: string, expected: Expected, path?: string]> = [
    [
      'unsigned JSON instead of the macaroon',
      `L402 ${Buffer.from(JSON.stringify({ paymentHash, caveats })).toString('base64')}:${preimage}`,
      invalid(/^The macaroon cannot be read: /)
    ],
    ['an empty macaroon', `L402 :${preimage}`, invalid(/^The macaroon cannot be read: /)],
    ['a macaroon without its signature', join(text(caveats, { signature: new Uint8Array(32) }), preimage), unsigned],
    [
      'own preimage with the bought macaroon',
      `L402 ${macaroonToBase64(macaroon)}:${own}`,
      invalid('Preimage does not match payment hash')
    ],
    [
      'the payment hash instead of the preimage',
      `L402 ${macaroonToBase64(macaroon)}:${paymentHash}`,
      invalid('Preimage does not match payment hash')
    ],
    [
      'own preimage with own hash, under the bought signature',
      join(text(caveats, { identifier: encodeIdentifier(paymentHashOf(own), tokenId) }), own),
      unsigned
    ],
    [
      'own preimage with own hash, signed with another key',
      join(mintMacaroon(foreignKey, 'l402', encodeIdentifier(paymentHashOf(own), tokenId), caveats), own),
      unsigned
    ],
    [
      'own preimage with own hash and a token id of no generation',
      join(mintMacaroon(foreignKey, 'l402', encodeIdentifier(paymentHashOf(own), randomBytes(32)), caveats), own),
      unsigned
    ],
    [
      'the bought identifier signed with another key',
      join(mintMacaroon(foreignKey, 'l402', macaroon.identifier, caveats), preimage),
      unsigned
    ],
    [
      'signed with an empty key',
      join(mintMacaroon(new Uint8Array(32), 'l402', macaroon.identifier, caveats), preimage),
      unsigned
    ],
    ...caveats.map((caveat, index): [string, string, Expected] => {
      const name = caveat.slice(0, caveat.indexOf('='))
      return [
        `caveat ${name} edited`,
        join(text(caveats.map((other, at) => (at === index ? `${other}9` : other))), preimage),
        unsigned
      ]
    }),
    ...caveats.map((caveat, index): [string, string, Expected] => [
      `caveat ${caveat.slice(0, caveat.indexOf('='))} removed`,
      join(text(caveats.filter((_, at) => at !== index)), preimage),
      unsigned
    ]),
    [
      'two caveats exchanged',
      join(text([caveats[1] ?? '', caveats[0] ?? '', ...caveats.slice(2)]), preimage),
      unsigned
    ],
    ['all caveats removed', join(text([]), preimage), unsigned],
    ['an unknown caveat added', join(addCaveat(macaroon, 'ip=10.0.0.1'), preimage), invalid('Unknown caveat: ip')],
    [
      'an unknown caveat without a value added',
      join(addCaveat(macaroon, 'admin'), preimage),
      invalid('Unknown caveat: admin')
    ],
    [
      'a caveat with a space before its name added',
      join(addCaveat(macaroon, ' expires=1'), preimage),
      invalid(/^Unknown caveat: /)
    ],
    [
      'another preimage in its preimage caveat',
      join(addCaveat(macaroon, `preimage=${own}`), preimage),
      invalid(/preimage caveat/)
    ],
    ['widened by a second path', join(addCaveat(macaroon, 'path=/paid/*'), preimage), invalid(/^Repeated caveat path/)],
    [
      'widened by a later expiry',
      join(addCaveat(macaroon, `expires=${now + 10_000_000}`), preimage),
      invalid(/^Repeated caveat expires/)
    ],
    [
      'given another price by a second caveat',
      join(addCaveat(macaroon, 'amount_sats=1'), preimage),
      invalid(/^Repeated caveat amount_sats/)
    ],
    [
      'given another service by a second caveat',
      join(addCaveat(macaroon, 'services=other:0'), preimage),
      invalid(/^Repeated caveat services/)
    ],
    [
      'given another charge by a second caveat',
      join(addCaveat(macaroon, 'charge_id=other'), preimage),
      invalid(/^Repeated caveat charge_id/)
    ],
    [
      'given a merchant by a caveat of the holder',
      join(addCaveat(macaroon, 'merchant_id=1'), preimage),
      forbidden('Token requires merchant context but none was provided')
    ],
    [
      'narrowed to the past',
      join(addCaveat(macaroon, 'expires=1000'), preimage),
      {
        status: 403,
        body: { error: 'Forbidden', message: 'Token expired', details: /1970-01-01T00:16:40.000Z/ },
        l402Error: 'Token expired'
      }
    ],
    [
      'signed by us, expiry missing',
      signed(caveats.filter(caveat => !caveat.startsWith('expires='))),
      invalid(/expires/)
    ],
    ['signed by us, path missing', signed(caveats.filter(caveat => !caveat.startsWith('path='))), invalid(/path/)],
    [
      'signed by us, price missing',
      signed(caveats.filter(caveat => !caveat.startsWith('amount_sats='))),
      invalid(/amount_sats/)
    ],
    [
      'signed by us, charge missing',
      signed(caveats.filter(caveat => !caveat.startsWith('charge_id='))),
      invalid(/charge/)
    ],
    [
      'signed by us, service missing',
      signed(caveats.filter(caveat => !caveat.startsWith('services='))),
      invalid(/services/)
    ],
    [
      'signed by us for another service',
      signed(edit('services', 'storefront:0')),
      invalid('Token not valid for this service')
    ],
    [
      'signed by us for another charge',
      signed(edit('charge_id', 'sbx_other')),
      invalid('Token not valid for this charge')
    ],
    [
      'signed by us for another price',
      signed(edit('amount_sats', '8')),
      invalid('Token price does not match the current price')
    ],
    ['signed by us with a price in another spelling', signed(edit('amount_sats', '07')), invalid(/amount_sats/)],
    ['signed by us with an expiry that is no number', signed(edit('expires', '9e99')), invalid(/expires/)],
    [
      'signed by us for an invoice that was never recorded',
      join(
        mintMacaroon(
          keys.rootKey(tokenId) ?? foreignKey,
          'l402',
          encodeIdentifier(paymentHashOf(own), tokenId),
          caveats
        ),
        own
      ),
      invalid('The payment of this token is not known')
    ],
    ['another path', bought, otherPath(path, '/paid/other'), '/paid/other'],
    ['a path below', bought, otherPath(path, '/paid/item/'), '/paid/item/'],
    ['the path in another case', bought, otherPath(path, '/paid/Item'), '/paid/Item'],
    ['the path with a letter encoded', bought, otherPath(path, '/paid/it%65m'), '/paid/it%65m'],
    ['the path with an encoded slash', bought, otherPath(path, '/paid%2Fitem'), '/paid/x%2Fitem'],
    ['the path with a parameter', bought, otherPath(path, '/paid/item;v=1'), '/paid/item;v=1'],
    ['the path with two slashes', bought, otherPath(path, '/paid//item'), '/paid//item'],
    ['the path with an encoded NUL', bought, otherPath(path, '/paid/item%00'), '/paid/item%00'],
    [
      'a preimage in upper case',
      `L402 ${macaroonToBase64(macaroon)}:${preimage.toUpperCase()}`,
      malformed(/64 lower-case hex/)
    ],
    ['a preimage with 0x', `L402 ${macaroonToBase64(macaroon)}:0x${preimage}`, malformed(/64 lower-case hex/)],
    [
      'a preimage cut short',
      `L402 ${macaroonToBase64(macaroon)}:${preimage.slice(0, 62)}`,
      malformed(/64 lower-case hex/)
    ],
    ['no preimage', `L402 ${macaroonToBase64(macaroon)}`, malformed(/<macaroon>:<preimage>/)],
    ['an empty preimage', `L402 ${macaroonToBase64(macaroon)}:`, malformed(/64 lower-case hex/)],
    ['nothing after the scheme', 'L402', malformed(/<macaroon>:<preimage>/)],
    [
      'a macaroon cut short',
      `L402 ${macaroonToBase64(macaroon).slice(0, 100)}:${preimage}`,
      invalid(/^The macaroon cannot be read: /)
    ],
    [
      'bytes after the macaroon',
      `L402 ${Buffer.concat([Buffer.from(macaroonToBase64(macaroon), 'base64'), Buffer.from([0])]).toString('base64')}:${preimage}`,
      invalid(/^The macaroon cannot be read: /)
    ],
    [
      'a macaroon of 20 KB',
      `L402 ${Buffer.alloc(20_000).toString('base64')}:${preimage}`,
      invalid(/^The macaroon cannot be read: /)
    ],
    ['a credential above 64 KB', `L402 ${'A'.repeat(66_000)}:${preimage}`, malformed(/longer than 65536/)]
  ]
  for (const [name, authorization, expected, at = path] of rows) {
    await t.test(`${name} is refused with ${expected.status}`, async t => {
      const requested = name === 'the path with an encoded slash' ? otherPath(path, '/paid/x%2Fitem') : expected
      await refuses(t, shop, name, authorization, requested, at)
    })
  }

  await t.test('after all of this the genuine token works, and may be narrowed by its holder', async t => {
    const good: Array<[string, string]> = [
      ['as bought', bought],
      [
        'in the url-safe alphabet, without padding',
        `L402 ${macaroonToBase64(macaroon).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')}:${preimage}`
      ],
      ['under the old scheme name', bought.replace('L402', 'lsat')],
      ['narrowed in time', join(addCaveat(macaroon, `expires=${now + 60}`), preimage)],
      ['narrowed to the same path', join(addCaveat(macaroon, `path=${path}`), preimage)],
      ['with the same price again', join(addCaveat(macaroon, 'amount_sats=7'), preimage)],
      ['with its preimage as a caveat', join(addCaveat(macaroon, `preimage=${preimage}`), preimage)]
    ]
    for (const [name, authorization] of good) {
      const before = upstream.hits.length
      const answer = await use(gateway, path, authorization)
      t.equal(answer.status, 200, `${name}: ${answer.text}`)
      t.equal(upstream.hits.length, before + 1, `${name}: one request upstream`)
    }
    t.equal((await use(gateway, `${path}?page=2`, bought)).status, 200, 'a token is for a path, not for a query')
    t.equal(
      (await gateway.send('POST', path, { headers: { authorization: bought }, body: { a: 1 } })).status,
      200,
      'nor for a method'
    )
    t.notOk(
      upstream.requests.some(request => request.headers.authorization !== undefined),
      'no credential goes upstream'
    )
  })
})

t.test('a token after what it was bought for has changed', async t => {
  const clock = new ManualClock()
  const shop = await openShop(t, { clock })
  const { gateway, upstream } = shop
  const path = '/paid/item'

  await t.test(
    'an old price is refused after a reload, known or not, and accepted again with the old price',
    async t => {
      const known = await buy(gateway, path)
      const fresh = await buy(gateway, path)
      t.equal((await use(gateway, path, known)).status, 200)
      await gateway.reload(shopYaml(upstream.origin, { price: 8 }))
      for (const [name, authorization] of [
        ['known', known],
        ['fresh', fresh]
      ] as const) {
        await refuses(t, shop, name, authorization, invalid('Token price does not match the current price'))
      }
      await gateway.reload(shopYaml(upstream.origin))
      t.equal((await use(gateway, path, fresh)).status, 200)
    }
  )

  await t.test('an old price of a proxy is refused after PUT /api/proxy', async t => {
    const proxy = await shop.proxy()
    const authorization = await buy(gateway, `${proxy.path}/a`)
    t.equal((await use(gateway, `${proxy.path}/a`, authorization)).status, 200)
    t.equal((await gateway.merchantSend('PUT', `/api/proxy/${proxy.id}`, { defaultPriceSats: 6 })).status, 200)
    await refuses(
      t,
      shop,
      'proxy',
      authorization,
      invalid('Token price does not match the current price'),
      `${proxy.path}/a`
    )
  })

  await t.test('an expired token is refused from the second after its expiry, known or not', async t => {
    const known = await buy(gateway, path)
    const fresh = await buy(gateway, path)
    t.equal((await use(gateway, path, known)).status, 200)
    clock.advance(3_600_000)
    t.equal((await shop.alone('GET', path, { authorization: known })).status, 200, 'the last moment')
    clock.advance(1_000)
    for (const [name, authorization] of [
      ['known', known],
      ['fresh', fresh]
    ] as const) {
      await refuses(
        t,
        shop,
        name,
        authorization,
        {
          status: 403,
          body: { error: 'Forbidden', message: 'Token expired', details: /^The token was valid until 20/ },
          l402Error: 'Token expired'
        },
        path,
        { isAlone: true }
      )
    }
  })
})

t.test('tokens of one seller at another', async t => {
  const shop = await openShop(t)
  const { gateway } = shop
  const other = await shop.otherMerchant()
  const mine = await shop.proxy()
  const sibling = await shop.proxy()
  const theirs = await shop.proxy({}, other.apiKey)
  const tokens = {
    operator: await buy(gateway, '/paid/item'),
    ping: await buy(gateway, '/l402/test/ping'),
    mine: await buy(gateway, `${mine.path}/item`),
    theirs: await buy(gateway, `${theirs.path}/item`),
    // As the producer API issues them, for a resource that reads like a proxy's path.
    producer: ''
  }
  const { macaroon, preimage, caveats } = take(tokens.mine)
  const root = shop.keys.rootKey(decodeIdentifier(macaroon.identifier).tokenId)
  if (root === null) throw new Error("the shop's keys are the gateway's")
  tokens.producer = join(
    mintMacaroon(root, 'l402', macaroon.identifier, ['services=producer:0', ...caveats.slice(1)]),
    preimage
  )
  const rows: Array<[keyof typeof tokens, string, Expected]> = [
    ['mine', `${theirs.path}/item`, forbidden('Token not valid for this merchant')],
    ['theirs', `${mine.path}/item`, forbidden('Token not valid for this merchant')],
    ['mine', '/paid/item', forbidden('Token requires merchant context but none was provided')],
    ['theirs', '/l402/test/ping', forbidden('Token requires merchant context but none was provided')],
    ['producer', '/paid/item', forbidden('Token requires merchant context but none was provided')],
    ['operator', `${mine.path}/item`, forbidden('Token missing required merchant_id caveat')],
    ['ping', `${theirs.path}/item`, forbidden('Token missing required merchant_id caveat')],
    ['mine', `${sibling.path}/item`, otherPath(`${mine.path}/item`, `${sibling.path}/item`)],
    ['mine', `${mine.path}/other`, otherPath(`${mine.path}/item`, `${mine.path}/other`)],
    ['producer', `${mine.path}/item`, invalid('Token not valid for this service')],
    ['operator', '/l402/test/ping', otherPath('/paid/item', '/l402/test/ping')],
    ['operator', '/demo/quote', otherPath('/paid/item', '/demo/quote')],
    ['ping', '/paid/item', otherPath('/l402/test/ping', '/paid/item')]
  ]
  for (const [name, path, expected] of rows) {
    await t.test(
      `the token ${name} at ${path.replace(/-[0-9a-f]{8}/, '')} is refused: ${expected.l402Error}`,
      async t => {
        await refuses(t, shop, name, tokens[name], expected, path)
      }
    )
  }
  await t.test('each works where it was bought', async t => {
    for (const [name, path] of [
      ['operator', '/paid/item'],
      ['ping', '/l402/test/ping'],
      ['mine', `${mine.path}/item`],
      ['theirs', `${theirs.path}/item`]
    ] as const) {
      t.equal((await use(gateway, path, tokens[name])).status, 200, name)
    }
  })
  await t.test('a malformed credential gets the same error at a proxy', async t => {
    await refuses(t, shop, 'preimage', tokens.mine.slice(0, -1), malformed(/64 lower-case hex/), `${mine.path}/item`)
    await refuses(
      t,
      shop,
      'hash',
      tokens.mine.replace(/.{64}$/, '0'.repeat(64)),
      invalid('Preimage does not match payment hash'),
      `${mine.path}/item`
    )
  })
  await t.test('a deactivated seller sells nothing more', async t => {
    await shop.merchants.deactivate(other.id)
    // The directory follows other accounts by reading them again.
    await eventually('the proxy is gone', async () => (await gateway.send('GET', `${theirs.path}/item`)).status === 404)
    await refuses(
      t,
      shop,
      'deactivated',
      tokens.theirs,
      { status: 404, body: { error: 'Proxy not found' } },
      `${theirs.path}/item`
    )
  })
})
