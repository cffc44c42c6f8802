import { cln } from '../../../../src/lightning/kinds/cln/cln.ts'
import { lnbits } from '../../../../src/lightning/kinds/lnbits/lnbits.ts'
import { phoenixd } from '../../../../src/lightning/kinds/phoenixd/phoenixd.ts'
import { startFakeCln } from '../../../fakes/cln.ts'
import { startFakeLnbits } from '../../../fakes/lnbits.ts'
import { startFakePhoenixd } from '../../../fakes/phoenixd.ts'
import { ofNode, openKind, secret, TIMEOUT, type SubjectKind } from './subject.ts'

/** The kinds that are nodes and wallets at a host of their owner's, but for lnd. */
export const nodes: readonly SubjectKind[] = [
  {
    kind: phoenixd,
    start: async (t, parts) => {
      const fake = await startFakePhoenixd({ clock: parts.clock })
      t.teardown(() => fake.close())
      fake.onHang = () => {
        parts.clock.advance(TIMEOUT)
      }
      const text = fake.key()
      const password = new URL(text).searchParams.get('password') ?? ''
      return {
        provider: openKind(t, phoenixd, parts, null),
        clock: parts.clock,
        key: secret(text),
        foreign: secret(text.replace(password, 'nobody-knows-it')),
        secrets: [password, Buffer.from(`:${password}`).toString('base64')],
        ...ofNode(
          fake,
          {
            create: /createinvoice/,
            lookUp: /payments\/incoming/,
            pay: /payinvoice/,
            find: /outgoingbyhash/
          },
          {
            receiveOnly: { key: secret(fake.key('limited')), scope: 'http-password', isToldByCheck: true },
            paysAmountless: true
          }
        )
      }
    }
  },
  {
    kind: cln,
    start: async (t, parts) => {
      const fake = await startFakeCln({ clock: parts.clock })
      t.teardown(() => fake.close())
      fake.onHang = () => {
        parts.clock.advance(TIMEOUT)
      }
      const text = fake.key()
      const rune = new URL(text).searchParams.get('rune') ?? ''
      const receiving = fake.key(['invoice', 'listinvoices', 'waitanyinvoice', 'getinfo', 'listpays'])
      return {
        provider: openKind(t, cln, parts, null),
        clock: parts.clock,
        key: secret(text),
        foreign: secret(text.replace(rune, 'nobody-knows-it')),
        secrets: [rune],
        ...ofNode(
          fake,
          { create: /v1\/invoice$/, lookUp: /listinvoices/, pay: /xpay/, find: /listpays/ },
          { receiveOnly: { key: secret(receiving), scope: 'method=xpay', isToldByCheck: true }, paysAmountless: true }
        )
      }
    }
  },
  {
    kind: lnbits,
    start: async (t, parts) => {
      const fake = await startFakeLnbits({ clock: parts.clock })
      t.teardown(() => fake.close())
      fake.onHang = () => {
        parts.clock.advance(TIMEOUT)
      }
      const text = fake.key()
      const apiKey = new URL(text).searchParams.get('key') ?? ''
      return {
        provider: openKind(t, lnbits, parts, null),
        clock: parts.clock,
        key: secret(text),
        foreign: secret(text.replace(apiKey, 'c'.repeat(32))),
        secrets: [apiKey],
        ...ofNode(
          fake,
          {
            create: /POST .*payments$/,
            lookUp: /GET .*payments\/[0-9a-f]/,
            pay: /POST .*payments$/,
            find: /GET .*payments\/[0-9a-f]/
          },
          {
            receiveOnly: { key: secret(fake.key('invoice')), scope: 'Admin key', isToldByCheck: true },
            paysAmountless: false
          }
        )
      }
    }
  }
]
