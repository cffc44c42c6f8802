/** What a running gateway sends in a 402, read by libraries by other authors. */
import bolt11 from 'bolt11'
import lightBolt11 from 'light-bolt11-decoder'
import oracle from 'macaroon'
import { createHash } from 'node:crypto'
import t from 'tap'
import { decodeIdentifier } from '../../src/lightning/l402/macaroon.ts'
import { TokenKeyRing } from '../../src/lightning/l402/root-key.ts'
import { challengeOf } from '../support/gateway.ts'
import { MASTER, openShop } from './setting.ts'

const shop = await openShop(t)
const { gateway } = shop
const offers = [
  { path: shop.quote, price: 10 },
  { path: shop.operated, price: 7 },
  { path: shop.proxied, price: 5 }
]
const REGTEST = { bech32: 'bcrt', pubKeyHash: 0x6f, scriptHash: 0xc4, validWitnessVersions: [0, 1] }

t.test('bolt11 and light-bolt11-decoder read the invoice as the challenge says', async t => {
  for (const { path, price } of offers) {
    const answer = await gateway.send('GET', path)
    const invoice = challengeOf(answer, 'l402').parameters.get('invoice') ?? ''
    const { parameters } = challengeOf(answer, 'payment')
    t.equal(parameters.get('invoice'), invoice, 'one invoice for both schemes')
    const request = JSON.parse(Buffer.from(parameters.get('request') ?? '', 'base64url').toString()) as {
      amount: string
      methodDetails: { invoice: string; paymentHash: string }
    }
    t.match(request, { amount: String(price), methodDetails: { invoice } })
    const { paymentHash } = request.methodDetails

    const theirs = bolt11.decode(invoice, REGTEST)
    t.equal(theirs.complete, true, 'signed')
    t.equal(theirs.satoshis, price)
    t.equal(theirs.tagsObject.payment_hash, paymentHash)
    t.match(theirs.tagsObject.payment_secret, /^[0-9a-f]{64}$/)
    t.ok(
      Date.parse(parameters.get('expires') ?? '') / 1000 <= (theirs.timeExpireDate ?? 0),
      'the challenge ends no later than the invoice'
    )
    t.ok((theirs.timeExpireDate ?? 0) > Date.now() / 1000 + 500)

    const sections = new Map(
      lightBolt11.decode(invoice).sections.map(section => [section.name, 'value' in section ? section.value : null])
    )
    t.equal(sections.get('amount'), String(price * 1000), 'in millisatoshis')
    t.equal(sections.get('payment_hash'), paymentHash)
    t.match(sections.get('payment_secret'), /^[0-9a-f]{64}$/)

    const preimage = await gateway.pay(invoice)
    t.equal(
      createHash('sha256').update(Buffer.from(preimage, 'hex')).digest('hex'),
      paymentHash,
      "the preimage is the hash's"
    )
  }
})

t.test('npm macaroon verifies the token with the root key, and with no other', async t => {
  const keys = new TokenKeyRing(Buffer.from(MASTER))
  for (const { path, price } of offers) {
    const answer = await gateway.send('GET', path)
    const { parameters } = challengeOf(answer, 'l402')
    t.equal(parameters.get('token'), parameters.get('macaroon'), 'under its new and its old name')
    const theirs = oracle.importMacaroon(Buffer.from(parameters.get('macaroon') ?? '', 'base64'))
    t.equal(theirs.location, 'l402')
    t.equal(theirs.identifier.length, 66)
    const { tokenId, paymentHash } = decodeIdentifier(theirs.identifier)
    t.equal(
      bolt11.decode(parameters.get('invoice') ?? '', REGTEST).tagsObject.payment_hash,
      paymentHash,
      "the macaroon is the invoice's"
    )
    const rootKey = keys.rootKey(tokenId)
    if (rootKey === null) throw new Error('the token is of another key generation')
    const caveats: string[] = []
    theirs.verify(rootKey, caveat => {
      caveats.push(caveat)
      return null
    })
    const names = caveats.map(caveat => caveat.slice(0, caveat.indexOf('=')))
    const order = ['services', 'path', 'merchant_id', 'charge_id', 'amount_sats', 'expires']
    t.same(
      names,
      order.filter(name => names.includes(name)),
      "caveats in the contract's order"
    )
    t.equal(names.includes('merchant_id'), path === shop.proxied, "a merchant's token names the merchant")
    t.ok(caveats.includes(`amount_sats=${price}`))
    t.ok(caveats.includes(`path=${path.split('?')[0]}`), caveats.join(' '))
    t.throws(() => theirs.verify(Buffer.alloc(32, 1), () => null), 'another root key')
    t.throws(() => theirs.verify(rootKey, () => 'refused'), 'it does ask about caveats')
  }
})
