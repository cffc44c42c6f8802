import { blink } from '../../../../src/lightning/kinds/blink/blink.ts'
import { btcpay } from '../../../../src/lightning/kinds/btcpay/btcpay.ts'
import { cln } from '../../../../src/lightning/kinds/cln/cln.ts'
import type { ProviderKind } from '../../../../src/lightning/kinds/kind.ts'
import { lnbits } from '../../../../src/lightning/kinds/lnbits/lnbits.ts'
import { lnd } from '../../../../src/lightning/kinds/lnd/lnd.ts'
import { lnurl } from '../../../../src/lightning/kinds/lnurl/lnurl.ts'
import { nwc } from '../../../../src/lightning/kinds/nwc/nwc.ts'
import { opennode } from '../../../../src/lightning/kinds/opennode/opennode.ts'
import { phoenixd } from '../../../../src/lightning/kinds/phoenixd/phoenixd.ts'
import { SandboxProvider, sandbox } from '../../../../src/lightning/kinds/sandbox/sandbox.ts'
import { strike } from '../../../../src/lightning/kinds/strike/strike.ts'
import { startFakeBlink } from '../../../fakes/blink.ts'
import { startFakeBtcpay } from '../../../fakes/btcpay.ts'
import { startFakeCln } from '../../../fakes/cln.ts'
import { startFakeLnbits } from '../../../fakes/lnbits.ts'
import { startFakeLnd } from '../../../fakes/lnd.ts'
import { startFakeLnurl } from '../../../fakes/lnurl.ts'
import type { NodeServer } from '../../../fakes/node-server.ts'
import type { NodeWallet } from '../../../fakes/node-wallet.ts'
import { startFakeNwc } from '../../../fakes/nwc.ts'
import { startFakeOpenNode } from '../../../fakes/opennode.ts'
import { startFakePhoenixd } from '../../../fakes/phoenixd.ts'
import { startFakeStrike } from '../../../fakes/strike.ts'
import type { ManualClock } from '../../../support/manual-clock.ts'
import { openKind, startKind, TIMEOUT } from '../../open-kind.ts'
import { secret, type Paying, type Subject, type SubjectKind, type Wire } from './subject.ts'

interface NodeFake extends Omit<NodeServer, 'url' | 'requests'> {
  readonly url?: string
  readonly requests: { readonly length: number }
  readonly wallet: NodeWallet
  key(): string
}

/** A kind over a fake with `NodeWallet`. */
function node<F extends NodeFake>(
  kind: ProviderKind,
  start: (options: { readonly clock: ManualClock }) => Promise<F>,
  wanted: {
    readonly on: Wire['on']
    /** The secret of the key or its parameter; the whole key where absent. */
    readonly secretIn?: string
    /** An unknown one instead. */
    readonly foreign: string
    /** A key that may only receive, and the scope it lacks; null for kinds without payouts. */
    readonly receiveOnly: readonly [keyOf: (fake: F) => string, scope: string] | null
    readonly pays?: Partial<Pick<Paying, 'paysAmountless' | 'failsAtEnd'>>
    readonly wire?: Pick<Wire, 'tellsNoHash'>
    readonly more?: Pick<Subject, 'foreignIsSilence'>
    readonly prepare?: (fake: F) => void
  }
): SubjectKind {
  const { on, secretIn, receiveOnly, pays, wire, more, prepare } = wanted
  return {
    kind,
    start: async (t, parts) => {
      const { clock, fake, provider, key } = await startKind(t, kind, start, parts)
      prepare?.(fake)
      const text = key.reveal()
      const hidden = secretIn === undefined ? text : (new URL(text).searchParams.get(secretIn) ?? secretIn)
      const { wallet } = fake
      return {
        provider,
        clock,
        key,
        foreign: secret(text.replace(hidden, wanted.foreign)),
        secrets: [hidden, Buffer.from(`:${hidden}`).toString('base64')],
        ...more,
        wire: {
          ...wireOf(fake, on, what => {
            wallet.lie = what
          }),
          tooMuch: wallet.largest + 1,
          ...wire
        },
        settle: async charge => wallet.settle(charge.paymentHash),
        pays: receiveOnly && {
          outcome: next => {
            wallet.outcome = next
          },
          sendings: () => wallet.sendings,
          receiveOnly: { key: secret(receiveOnly[0](fake)), scope: receiveOnly[1], isToldByCheck: true },
          paysAmountless: true,
          ...pays
        }
      }
    }
  }
}

function wireOf(
  fake: {
    readonly requests: { readonly length: number }
    fail(...fault: Parameters<Wire['fail']>): void
    close(): Promise<void>
  },
  on: Wire['on'],
  lie: Wire['lie']
): Wire {
  return {
    requests: () => fake.requests.length,
    fail: (fault, where) => {
      fake.fail(fault, where)
    },
    stop: () => fake.close(),
    on,
    lie,
    tooMuch: null
  }
}

/** A public service whose fake has an account. */
function service<
  F extends Parameters<typeof wireOf>[0] & {
    readonly url: string
    readonly account: { lie: 'amount' | 'hash' | 'network' | null }
    onHang: () => void
    key(): string
  }
>(
  kind: ProviderKind,
  start: (options: { readonly clock: ManualClock }) => Promise<F>,
  on: Wire['on'],
  settle: (fake: F, ...charge: Parameters<Subject['settle']>) => Promise<unknown>,
  wire: Pick<Wire, 'tellsNoHash'> = {}
): SubjectKind {
  return {
    kind,
    start: async (t, parts) => {
      const { clock, fake, provider, key } = await startKind(t, kind, start, parts)
      const lie: Wire['lie'] = what => {
        fake.account.lie = what
      }
      return {
        provider,
        clock,
        key,
        foreign: secret('a-foreign-key'),
        secrets: [key.reveal()],
        wire: { ...wireOf(fake, on, lie), ...wire },
        settle: charge => settle(fake, charge),
        pays: null
      }
    }
  }
}

/** At a host of their owner's, but for lnd. */
export const nodes: readonly SubjectKind[] = [
  node(phoenixd, startFakePhoenixd, {
    on: { create: /createinvoice/, lookUp: /payments\/incoming/, pay: /payinvoice/, find: /outgoingbyhash/ },
    secretIn: 'password',
    foreign: 'nobody-knows-it',
    receiveOnly: [fake => fake.key('limited'), 'http-password']
  }),
  node(cln, startFakeCln, {
    on: { create: /v1\/invoice$/, lookUp: /listinvoices/, pay: /xpay/, find: /listpays/ },
    secretIn: 'rune',
    foreign: 'nobody-knows-it',
    receiveOnly: [fake => fake.key(['invoice', 'listinvoices', 'waitanyinvoice', 'getinfo', 'listpays']), 'method=xpay']
  }),
  node(lnbits, startFakeLnbits, {
    on: {
      create: /POST .*payments$/,
      lookUp: /GET .*payments\/[0-9a-f]/,
      pay: /POST .*payments$/,
      find: /GET .*payments\/[0-9a-f]/
    },
    secretIn: 'key',
    foreign: 'c'.repeat(32),
    receiveOnly: [fake => fake.key('invoice'), 'Admin key'],
    pays: { paysAmountless: false }
  })
]

/** Wallets of a hosted service. */
export const wallets: readonly SubjectKind[] = [
  node(lnurl, startFakeLnurl, {
    on: { create: /callback/, lookUp: /verify/, pay: /nothing/, find: /nothing/ },
    secretIn: '/shop',
    foreign: '/nobody',
    receiveOnly: null,
    prepare: fake => {
      fake.expirySeconds = 600
    }
  }),
  node(btcpay, startFakeBtcpay, {
    on: {
      create: /POST .*stores\/\w+\/invoices$/,
      lookUp: /GET .*stores\/\w+\/invoices\/\w+$/,
      pay: /invoices\/pay$/,
      find: /GET .*BTC\/payments/
    },
    secretIn: 'key',
    foreign: 'nobodyknowsit',
    receiveOnly: [
      fake => fake.key(['btcpay.store.cancreateinvoice', 'btcpay.store.canviewinvoices']),
      'btcpay.store.canuselightningnode'
    ],
    wire: { tellsNoHash: true }
  }),
  node(nwc, startFakeNwc, {
    on: { create: /make_invoice/, lookUp: /lookup_invoice/, pay: /pay_invoice/, find: /lookup_invoice/ },
    secretIn: 'secret',
    foreign: 'c'.repeat(64),
    receiveOnly: [fake => fake.key(['get_info', 'make_invoice', 'lookup_invoice', 'list_transactions']), 'pay_invoice'],
    pays: { failsAtEnd: true },
    more: { foreignIsSilence: true }
  }),
  node(blink, startFakeBlink, {
    on: { create: /LnInvoiceCreate/, lookUp: /ChargeByHash/, pay: /LnInvoicePaymentSend/, find: /PaymentsByHash/ },
    foreign: 'blink_nobody_knows_it',
    receiveOnly: [fake => fake.key(['READ', 'RECEIVE']), 'WRITE']
  })
]

export const services: readonly SubjectKind[] = [
  {
    kind: sandbox,
    start: async (t, parts) => {
      const provider = openKind(t, sandbox, parts)
      if (!(provider instanceof SandboxProvider)) throw new Error('the sandbox is none')
      return {
        provider,
        clock: parts.clock,
        key: secret('sandbox-key'),
        foreign: secret('sandbox-invalid'),
        secrets: [],
        wire: null,
        settle: charge => provider.settle(charge.invoice),
        pays: null
      }
    }
  },
  service(
    strike,
    startFakeStrike,
    { create: /POST .*receive-requests/, lookUp: /GET/, pay: /PATCH/, find: /GET/ },
    async (fake, charge) => fake.pay(charge.chargeId)
  ),
  service(
    opennode,
    startFakeOpenNode,
    { create: /POST .*charges/, lookUp: /GET/, pay: /POST .*withdrawals/, find: /GET/ },
    (fake, charge) => fake.pay(charge.invoice),
    { tellsNoHash: true }
  ),
  {
    kind: lnd,
    start: async (t, parts) => {
      const { clock, fake, provider, key } = await startKind(t, lnd, startFakeLnd, parts)
      // Streams that stay open with what they have to say are no hanging; one that says nothing is.
      let isHanging = false
      fake.onHang = () => {
        const isSilent = isHanging || fake.requests.at(-1)?.path.includes('/router/send') === true
        isHanging = false
        clock.advance(isSilent ? TIMEOUT : 300)
      }
      const foreign = fake.key()
      fake.revoke(foreign)
      const macaroon = new URL(key.reveal()).searchParams.get('macaroon') ?? ''
      const outcomes = { paid: 'SUCCEEDED', failed: 'FAILURE_REASON_NO_ROUTE', pending: 'IN_FLIGHT' } as const
      const wire = wireOf(
        fake,
        { create: /POST \/v1\/invoices/, lookUp: /GET \/v1\/invoice\//, pay: /router\/send/, find: /router\/track/ },
        what => {
          fake.wallet.lie = what
        }
      )
      return {
        provider,
        clock,
        key,
        foreign: secret(foreign),
        secrets: [Buffer.from(macaroon, 'base64url').toString('hex')],
        wire: {
          ...wire,
          fail: (fault, on) => {
            isHanging = fault.startsWith('hang')
            fake.fail(fault, on)
          }
        },
        settle: async charge => fake.wallet.settle(charge.paymentHash),
        listsFromStream: true,
        pays: {
          outcome: next => {
            fake.wallet.outcome = outcomes[next]
          },
          sendings: () => [...fake.wallet.payments.values()].filter(({ status }) => status !== 'FAILED').length,
          receiveOnly: {
            key: secret(fake.key(['invoices:read', 'invoices:write', 'offchain:read'])),
            scope: 'offchain:write',
            isToldByCheck: true
          },
          paysAmountless: true
        }
      }
    }
  }
]
