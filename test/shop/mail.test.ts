import t from 'tap'
import { messageOf } from '../../src/web/mail/mail.ts'
import { systemClock } from '../../src/platform/system/clock.ts'
import { claimMail } from '../../src/shop/orders/claim-mail.ts'
import type { Order } from '../../src/shop/schema.ts'
import { anOrder } from './page-world.ts'

const claimPageUrl = `https://gateway.example/storefront/mugs/claim?claimToken=${'T'.repeat(43)}`

function mailOf(more: Partial<Order> = {}, shopName = 'Corner Mugs') {
  const order = anOrder(more)
  const mail = claimMail({ order, shopName, claimPageUrl, claimExpiresAt: order.claimExpiresAt })
  if (mail === null) throw new Error('there is no mail')
  return mail
}

t.test(
  'if an email was given at checkout, the buyer is sent the claim URL, with what was bought and until when',
  async t => {
    const mail = mailOf()
    t.match(mail, {
      to: 'ada@example.org',
      subject: 'Your order at Corner Mugs: enter your shipping address',
      id: 'claim.ord_00000000000000a1'
    })
    for (const text of [mail.text, mail.html ?? '']) {
      for (const words of [
        claimPageUrl,
        'Corner Mugs',
        'Coin mug, Small',
        '$25.00',
        'Sticker pack',
        '$36.68',
        '36,680',
        'December 21, 2026',
        'ord_00000000000000a1'
      ])
        t.ok(text.includes(words), words)
      t.notMatch(text, 'Default Title')
      t.notMatch(text, 'ab'.repeat(32))
    }
    t.ok(mail.text.split('\n').includes(claimPageUrl), 'on a line of its own, so that no mail program cuts it')
    t.match(mail.html, `href="${claimPageUrl}"`)
    t.match(mailOf({ shippingCents: 0 }).text, /Shipping +free/)
  }
)

t.test('a buyer whose order the shop has by then need not repeat an address', async t => {
  const mail = mailOf({
    status: 'PaidWithDetails',
    claimedAt: Date.parse('2026-11-21T09:05:00Z'),
    orderNumber: '#1001'
  })
  t.equal(mail.subject, 'Your order #1001 at Corner Mugs')
  for (const text of [mail.subject, mail.text, mail.html ?? '']) {
    t.match(text, '#1001')
    t.notMatch(text, /where should|missing|your address:|my address|by December/i)
  }
  for (const text of [mail.text, mail.html ?? '']) {
    t.ok(text.includes(claimPageUrl), 'it is the way to see how far the order is')
    t.match(text, /Corner Mugs has received your payment/)
  }
})

t.test('without an address there is no mail', async t => {
  const order = anOrder({ email: null })
  t.equal(claimMail({ order, shopName: 'A', claimPageUrl, claimExpiresAt: order.claimExpiresAt }), null)
})

t.test('texts of shops stay texts: no markup, no forged lines, no header lines', async t => {
  const title = '<img src=x onerror=alert(1)>\r\n\r\nhttps://evil.example/claim\u2028'
  const mail = mailOf(
    {
      items: [
        {
          variantId: 1,
          productTitle: title,
          variantTitle: '"><script>',
          quantity: 1,
          priceCents: 1,
          requiresShipping: true
        }
      ]
    },
    'Evil\r\nBcc: x@example.com\u202e<b>'
  )
  t.notMatch(mail.html, /<img|<script|<b>/)
  t.match(mail.html, '&lt;img src=x')
  t.notMatch(mail.subject, /[\r\n\u202e]/)
  t.notMatch(mail.text, /[\u2028\u202e\r]/)
  t.same(
    mail.text.split('\n').filter(line => line.startsWith('https://')),
    [claimPageUrl],
    'the only address that begins a line is ours'
  )
  t.ok([...mailOf({}, 'x'.repeat(5000)).subject].length <= 201)
  t.doesNotThrow(() => messageOf(mail, { name: '', address: 'no-reply@example.com' }, systemClock))
})
