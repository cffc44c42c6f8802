/** Which of several proofs of payment a claim goes by. */
import t from 'tap'
import { challengeLines } from '../../src/selling/minting/replies.ts'
import { readChallengeLine } from '../../src/app/commands/mint.ts'
import { offer } from '../selling/challenges/fixture.ts'
import { credentialOf } from '../support/gateway.ts'
import { claimBody, openShop } from './fixture.ts'

t.test(
  'Storefront claim | 401 | credential for a disabled protocol only: a claim token beside it counts on its own',
  async t => {
    const shop = await openShop(t, { schemes: ['l402'] })
    const { orderId, claimToken } = await shop.paid()
    const disabled = `Payment method="lightning", preimage="${'ab'.repeat(32)}"`
    t.equal(
      (await shop.claim(claimBody('a'.repeat(43)), { authorization: disabled })).status,
      404,
      'an unknown one is reported as such'
    )
    const answer = await shop.claim(claimBody(claimToken), { authorization: disabled })
    t.equal(answer.status, 200)
    t.match(answer.data, { orderId, status: /^PaidWithDetails$/ })
    t.equal(
      (await shop.claim(claimBody(null), { authorization: disabled })).status,
      401,
      'without a token it is all there is'
    )
    t.equal(
      (await shop.unpaid().then(order => shop.claim(claimBody(claimToken), { authorization: `${order.pay()}0` })))
        .status,
      400,
      'a credential of an enabled scheme is still judged'
    )
  }
)

t.test(
  'purchases elsewhere of the same merchant, at a proxy or a producer named as the store is, buy nothing in it',
  async t => {
    const shop = await openShop(t)
    const { slug, merchantId } = shop.integration
    for (const source of ['proxy', 'producer'] as const) {
      const bought = offer({
        source,
        service: `${slug}:0`,
        merchantId: String(merchantId),
        proxyId: slug,
        place: `${source}:${slug}`,
        path: `${shop.base}/*`,
        tokenPath: `${shop.base}/*`,
        wildcard: true,
        method: 'POST',
        payee: 'merchant',
        amountSats: 1
      })
      const { challenge } = await shop.selling.minting.mint(bought, { clientKey: source, digest: null })
      const preimage = shop.payee.pay(challenge.invoice)
      const lines = challengeLines(challenge, ['l402', 'payment'], shop.selling.settings())
      const credentials = lines
        .flatMap((text, index) => (index % 2 === 1 ? (readChallengeLine(text) ?? []) : []))
        .map(line => credentialOf(line, preimage))
      t.equal(credentials.length, 2)
      for (const authorization of [...credentials, `Payment method="lightning", preimage="${preimage}"`]) {
        t.equal(
          (await shop.checkout({ headers: { authorization } })).status,
          authorization.startsWith('Payment ey') ? 401 : 404,
          `${source}: ${authorization.slice(0, 12)}`
        )
        t.ok([400, 404].includes((await shop.claim(claimBody(null), { authorization })).status))
      }
    }
    t.equal(shop.platform.made.length, 0)
  }
)
