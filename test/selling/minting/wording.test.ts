import t from 'tap'
import type { Offer } from '../../../src/selling/offers/offer.ts'
import { paymentLine } from '../../../src/selling/minting/replies.ts'
import type { MintRequest } from '../../../src/selling/minting/minting.ts'
import type { SentChallenge } from '../../../src/selling/holding/challenge.ts'
import { TokenKeyRing } from '../../../src/lightning/l402/root-key.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { fixtureOn, freshAddress, master, offer, settings, type Fixture } from '../challenges/fixture.ts'

const request = (changes: Partial<MintRequest> = {}) => ({
  clientKey: freshAddress(),
  digest: null,
  ...changes
})

/** What a challenge shows to a client. */
const said = (challenge: SentChallenge) => [
  challenge.macaroon,
  paymentLine(challenge),
  challenge.invoice,
  challenge.expiresAt
]

const next = Buffer.from('the next master secret, thirty-two bytes at least')

/** One open invoice for each client and request, so that the second comes from its row. */
const one = (f: Fixture) => {
  f.selling.configure({ settings: { ...settings, maxPerClient: 1 }, keys: f.keys })
  return f
}

const offers: ReadonlyArray<readonly [string, Partial<Offer>]> = [
  ['a path', {}],
  ['a pattern', { path: '/v1/quote', tokenPath: '/v1/*', wildcard: true }],
  ['a pattern, asked for by its own letters', { path: '/v1/*', tokenPath: '/v1/*', wildcard: true }],
  ['a path that ends like a pattern', { path: '/v1/*', tokenPath: '/v1/*', wildcard: false }],
  ['a path beyond ASCII', { path: '/v1/ä%20|"\\', tokenPath: '/v1/ä%20|"\\' }],
  ['a proxy', { source: 'proxy', merchantId: '7', proxyId: 'p-1', place: 'proxy:p-1', payee: 'merchant' }],
  ['an expensive one', { amountSats: 1_234_567_890 }]
]

await eachDatabase(
  t,
  'a challenge that is handed out again is the one that was sent, byte for byte',
  async (t, database) => {
    const f = one(fixtureOn(t, database, new ManualClock()))
    for (const [name, changes] of offers)
      for (const digest of [null, `sha-256=:${'A'.repeat(43)}=:`]) {
        const requests = request({ digest })
        const first = await f.selling.minting.mint(offer(changes), requests)
        const again = await f.selling.minting.mint(offer(changes), requests)
        t.same([first.again, again.again], [false, true], name)
        t.same(said(again.challenge), said(first.challenge), name)
        const [row] = await database.sql`
        select macaroon, request from challenges where payment_hash = ${first.challenge.paymentHash}`
        t.same(row, { macaroon: '', request: '' }, 'neither is in its row')
      }
  }
)

await eachDatabase(
  t,
  'and is so after a new master secret, location and realm, as long as its keys are live',
  async (t, database) => {
    const f = one(fixtureOn(t, database, new ManualClock()))
    const requests = request()
    const first = await f.selling.minting.mint(offer(), requests)
    const changed = { ...settings, maxPerClient: 1, macaroonLocation: 'elsewhere', realm: 'other.example.com' }
    f.selling.configure({ settings: changed, keys: new TokenKeyRing(next, [master]) })
    const again = await f.selling.minting.mint(offer(), requests)
    t.equal(again.again, true)
    t.same(said(again.challenge), said(first.challenge))
    f.selling.configure({ settings: changed, keys: new TokenKeyRing(next) })
    const fresh = await f.selling.minting.mint(offer(), requests)
    t.equal(fresh.again, false, 'no client pays for what cannot be verified')
    t.not(fresh.challenge.paymentHash, first.challenge.paymentHash)
  }
)

await eachDatabase(t, 'a row of the version before is handed out unchanged', async (t, database) => {
  const f = one(fixtureOn(t, database, new ManualClock()))
  const requests = request()
  const { challenge } = await f.selling.minting.mint(offer(), requests)
  const { paymentHash, macaroon, payment } = challenge
  await database.sql`
    update challenges set macaroon = ${macaroon}, request = ${payment?.request ?? null}, macaroon_location = null
    where payment_hash = ${paymentHash}`
  f.selling.configure({ settings: { ...settings, maxPerClient: 1, macaroonLocation: 'elsewhere' }, keys: f.keys })
  const again = await f.selling.minting.mint(offer(), requests)
  t.same([again.again, ...said(again.challenge)], [true, ...said(challenge)])
})

await eachDatabase(t, 'an invoice that would be refused once paid is not handed out', async (t, database) => {
  const f = one(fixtureOn(t, database, new ManualClock()))
  const requests = request()
  const { challenge } = await f.selling.minting.mint(offer(), requests)
  await database.sql`update challenges set realm = 'other' where payment_hash = ${challenge.paymentHash}`
  t.match(await f.selling.minting.mint(offer(), requests), { again: false })
})

await eachDatabase(
  t,
  'a worker of the version before can serve what this one sold, and hands none of it out empty',
  async (t, database) => {
    const f = one(fixtureOn(t, database, new ManualClock()))
    const plain = await f.selling.minting.mint(offer(), request())
    const keyed = await f.selling.minting.mint(offer(), request({ idempotencyKey: 'k', uncapped: true }))
    const rows = await database.sql`
    select payment_hash, macaroon, request, num_nulls(payment_id, realm, request, payment_expires) as missing,
      length(binding) as binding
    from challenges where payment_hash in (${plain.challenge.paymentHash}, ${keyed.challenge.paymentHash})`
    const rowOf = ({ challenge }: { readonly challenge: SentChallenge }) =>
      rows.find(row => row['payment_hash'] === challenge.paymentHash)
    // It takes a row in which one of the four is null for one without a Payment challenge, and refuses what was paid.
    t.match(rowOf(plain), { macaroon: '', missing: 0 })
    t.not(rowOf(plain)?.['binding'], 43, 'it looks for open invoices by a binding of 43 characters')
    t.match(
      rowOf(keyed),
      { macaroon: keyed.challenge.macaroon, request: keyed.challenge.payment?.request },
      'it hands out the row of a key unchanged'
    )
  }
)
