import t from 'tap'
import { PaymentFit } from '../../../src/selling/verifying/payment-fit.ts'
import type { Offer } from '../../../src/selling/offers/offer.ts'
import type { Revocations } from '../../../src/selling/verifying/revocations.ts'
import type { Challenge } from '../../../src/selling/holding/challenge.ts'
import { minted, fixture, offer } from '../challenges/fixture.ts'

t.test('the key to a balance is valid for its place, from its payment on and for as long as a token', async t => {
  const f = await fixture(t)
  const challenge = await minted(f)
  const meter = {
    unit: 'request',
    usage: 'requests',
    prices: 1,
    per: 1,
    bundle: 10_000,
    estimate: { else: 1 }
  } as const
  let revoked = ''
  const covers = ({ paymentHash }: Challenge) => paymentHash === revoked
  // No more of the revocations is asked for.
  const fit = new PaymentFit({ covers } as unknown as Revocations, f.clock)
  const why = (row: Partial<Challenge>, terms: Partial<Offer> = {}) =>
    fit.unbound({ ...challenge, ...row }, offer({ meter, ...terms }))?.reason
  const paid = { paidAt: f.clock.now(), tokenExpiresAt: f.clock.now() + 3_600_000 }

  t.equal(why({}), undefined, 'it may not have been shown yet')
  t.equal(why(paid, { method: 'POST', query: 'a=b', amountSats: 11 }), undefined, 'for any request of the place')
  t.equal(why(paid, { path: '/v1/other' }), undefined, 'also at another path')
  t.equal(why(paid, { place: 'route:other' }), undefined, 'a path that became another place keeps its keys')
  t.equal(why(paid, { path: '/v1/other', place: 'route:other' }), 'path')
  t.equal(why(paid, { merchantId: 'other' }), 'merchant')
  t.equal(why(paid, { service: 'other:0' }), 'service')
  f.clock.advance(3_599_999)
  t.equal(why({}), 'expired', 'a payment that was not shown in time')
  t.equal(why(paid), undefined)
  revoked = challenge.paymentHash
  t.equal(why(paid), 'revoked')
  f.clock.advance(1)
  t.equal(why(paid), 'expired')
})
