import t, { type Test as T } from 'tap'
import { messageOf } from '../../src/web/mail/mail.ts'
import { systemClock } from '../../src/platform/system/clock.ts'
import { BODY, claimBody, openShop, type Shop } from './fixture.ts'
import { MUG } from './test-platform.ts'

/** The mail about a paid order; the shop may be changed, or the order claimed, before the provider reports it. */
async function mailOf(t: T, change: (shop: Shop) => void, isClaimed = false) {
  const shop = await openShop(t)
  change(shop)
  const order = await shop.unpaid({ ...BODY, items: [{ variantId: MUG, quantity: 2 }], email: 'ada@example.org' })
  if (isClaimed) await shop.claim(claimBody(null), { authorization: order.pay() })
  await shop.settle(order.paymentHash)
  const [mail, ...none] = shop.mails
  t.same(none, [])
  if (mail === undefined) throw new Error('there is no mail')
  const url = /https:\/\/gateway\.example\/storefront\/\S+/.exec(mail.text)?.[0] ?? ''
  return { mail, url, order, both: [mail.text, mail.html ?? ''] }
}

/** A shop that sells mugs by this name, at $10 each. */
function selling(title: string, variant: string) {
  return ({ platform }: Shop) => {
    const variants = [{ variantId: MUG, title: variant, priceCents: 1000, available: true }]
    platform.goods = { storeName: 'x', products: [{ productId: 1, title, description: '', imageUrl: null, variants }] }
  }
}

t.test(
  'if an email was given at checkout, the buyer is sent the claim URL, with what was bought and until when',
  async t => {
    const { mail, url, order, both } = await mailOf(t, selling('Coin mug', 'Default Title'))
    t.match(mail, {
      to: 'ada@example.org',
      subject: 'Your order at Corner shop: enter your shipping address',
      id: `claim.${order.orderId}`
    })
    t.match(url, /claim\?claimToken=[A-Za-z0-9_-]{43}$/)
    for (const text of both) {
      for (const words of [url, 'Corner shop', '2 × Coin mug', '$20.00', '$26.13', 'Enter it by', order.orderId])
        t.ok(text.includes(words), words)
      t.notMatch(text, 'Default Title')
      t.notMatch(text, order.paymentHash)
    }
    t.ok(mail.text.split('\n').includes(url), 'on a line of its own, so that no mail program cuts it')
    t.match(mail.html, `href="${url}"`)
  }
)

t.test('a buyer whose order the shop has by then need not repeat an address', async t => {
  const { mail, url, both } = await mailOf(t, () => {}, true)
  t.equal(mail.subject, 'Your order #1001 at Corner shop')
  for (const text of both) {
    t.match(text, '#1001')
    t.notMatch(text, /where should|your shipping address\./i)
    t.ok(text.includes(url), 'it is the way to see how far the order is')
    t.match(text, /Corner shop has received your payment/)
  }
})

t.test('texts of shops stay texts: no markup, no forged lines, no header lines', async t => {
  const title = '<img src=x onerror=alert(1)>\r\n\r\nhttps://evil.example/claim\u2028'
  const { mail, url } = await mailOf(t, selling(title, '"><script>'))
  t.notMatch(mail.html, /<img|<script/)
  t.match(mail.html, '&lt;img src=x')
  t.notMatch(mail.text, /[\u2028\u202e\r]/)
  t.same(
    mail.text.split('\n').filter(line => line.startsWith('https://')),
    [url],
    'the only address that begins a line is ours'
  )
  const shop = await openShop(t)
  await shop.change(store => ({ ...store, shopName: `Evil\r\nBcc: x@example.com\u202e<b>${'x'.repeat(5000)}` }))
  await shop.settle((await shop.unpaid({ ...BODY, email: 'ada@example.org' })).paymentHash)
  const [named] = shop.mails
  t.notMatch(named?.subject, /[\r\n\u202e]/)
  t.ok([...(named?.subject ?? '')].length <= 201)
  t.notMatch(named?.html, '<b>')
  t.doesNotThrow(() => messageOf(named ?? mail, { name: '', address: 'no-reply@example.com' }, systemClock))
})
