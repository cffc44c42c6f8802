import { blink } from '../../../../src/lightning/kinds/blink/blink.ts'
import { btcpay } from '../../../../src/lightning/kinds/btcpay/btcpay.ts'
import { lnurl } from '../../../../src/lightning/kinds/lnurl/lnurl.ts'
import { nwc } from '../../../../src/lightning/kinds/nwc/nwc.ts'
import { startFakeBlink } from '../../../fakes/blink.ts'
import { startFakeBtcpay } from '../../../fakes/btcpay.ts'
import { startFakeLnurl } from '../../../fakes/lnurl.ts'
import { startFakeNwc } from '../../../fakes/nwc.ts'
import { ofNode, openKind, secret, TIMEOUT, type SubjectKind } from './subject.ts'

/** The kinds that are wallets of a hosted service. */
export const wallets: readonly SubjectKind[] = [
  {
    kind: lnurl,
    start: async (t, parts) => {
      const fake = await startFakeLnurl({ clock: parts.clock })
      t.teardown(() => fake.close())
      fake.expirySeconds = 600
      fake.onHang = () => {
        parts.clock.advance(TIMEOUT)
      }
      const text = fake.key()
      const { wire, settle } = ofNode(
        fake,
        { create: /callback/, lookUp: /verify/, pay: /nothing/, find: /nothing/ },
        { receiveOnly: null, paysAmountless: false }
      )
      return {
        provider: openKind(t, lnurl, parts, null),
        clock: parts.clock,
        key: secret(text),
        foreign: secret(text.replace('/shop', '/nobody')),
        secrets: [],
        wire,
        settle,
        pays: null
      }
    }
  },
  {
    kind: btcpay,
    start: async (t, parts) => {
      const fake = await startFakeBtcpay({ clock: parts.clock })
      t.teardown(() => fake.close())
      fake.onHang = () => {
        parts.clock.advance(TIMEOUT)
      }
      const text = fake.key()
      const apiKey = new URL(text).searchParams.get('key') ?? ''
      const receiving = fake.key(['btcpay.store.cancreateinvoice', 'btcpay.store.canviewinvoices'])
      const { wire, ...node } = ofNode(
        fake,
        {
          create: /POST .*stores\/\w+\/invoices$/,
          lookUp: /GET .*stores\/\w+\/invoices\/\w+$/,
          pay: /invoices\/pay$/,
          find: /GET .*BTC\/payments/
        },
        {
          receiveOnly: { key: secret(receiving), scope: 'btcpay.store.canuselightningnode', isToldByCheck: true },
          paysAmountless: true
        }
      )
      return {
        provider: openKind(t, btcpay, parts, null),
        clock: parts.clock,
        key: secret(text),
        foreign: secret(text.replace(apiKey, 'nobodyknowsit')),
        secrets: [apiKey],
        wire: wire === null ? null : { ...wire, tellsNoHash: true },
        ...node
      }
    }
  },
  {
    kind: nwc,
    start: async (t, parts) => {
      const fake = await startFakeNwc({ clock: parts.clock })
      t.teardown(() => fake.close())
      fake.onHang = () => {
        parts.clock.advance(TIMEOUT)
      }
      const text = fake.key()
      const connection = new URL(text).searchParams.get('secret') ?? ''
      const receiving = fake.key(['get_info', 'make_invoice', 'lookup_invoice', 'list_transactions'])
      return {
        provider: openKind(t, nwc, parts, null),
        clock: parts.clock,
        key: secret(text),
        foreign: secret(text.replace(connection, 'c'.repeat(64))),
        foreignIsSilence: true,
        secrets: [connection],
        ...ofNode(
          fake,
          { create: /make_invoice/, lookUp: /lookup_invoice/, pay: /pay_invoice/, find: /lookup_invoice/ },
          {
            receiveOnly: { key: secret(receiving), scope: 'pay_invoice', isToldByCheck: true },
            paysAmountless: true,
            failsAtEnd: true
          }
        )
      }
    }
  },
  {
    kind: blink,
    start: async (t, parts) => {
      const fake = await startFakeBlink({ clock: parts.clock })
      t.teardown(() => fake.close())
      fake.onHang = () => {
        parts.clock.advance(TIMEOUT)
      }
      const text = fake.key()
      return {
        provider: openKind(t, blink, parts, fake.url),
        clock: parts.clock,
        key: secret(text),
        foreign: secret('blink_nobody_knows_it'),
        secrets: [text],
        ...ofNode(
          fake,
          {
            create: /LnInvoiceCreate/,
            lookUp: /ChargeByHash/,
            pay: /LnInvoicePaymentSend/,
            find: /PaymentsByHash/
          },
          {
            receiveOnly: { key: secret(fake.key(['READ', 'RECEIVE'])), scope: 'WRITE', isToldByCheck: true },
            paysAmountless: true
          }
        )
      }
    }
  }
]
