import { lnd } from '../../../../src/lightning/kinds/lnd/lnd.ts'
import { opennode } from '../../../../src/lightning/kinds/opennode/kind.ts'
import { SandboxProvider, sandbox } from '../../../../src/lightning/kinds/sandbox/sandbox.ts'
import { strike } from '../../../../src/lightning/kinds/strike/strike.ts'
import { startFakeLnd } from '../../../fakes/lnd.ts'
import { startFakeOpenNode } from '../../../fakes/opennode.ts'
import { startFakeStrike } from '../../../fakes/strike.ts'
import { openKind, secret, TIMEOUT, type SubjectKind } from './subject.ts'

/** The kinds that were there before nodes of all sorts were. */
export const services: readonly SubjectKind[] = [
  {
    kind: sandbox,
    start: async (t, parts) => {
      const provider = openKind(t, sandbox, parts, null)
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
  {
    kind: strike,
    start: async (t, parts) => {
      const fake = await startFakeStrike({ clock: parts.clock, key: 'strike-canary-51ab09' })
      t.teardown(() => fake.close())
      fake.onHang = () => {
        parts.clock.advance(TIMEOUT)
      }
      return {
        provider: openKind(t, strike, parts, fake.url),
        clock: parts.clock,
        key: secret('strike-canary-51ab09'),
        foreign: secret('strike-foreign-key'),
        secrets: ['strike-canary-51ab09'],
        wire: {
          requests: () => fake.requests.length,
          fail: (fault, on) => {
            fake.fail(fault, on)
          },
          stop: () => fake.close(),
          on: { create: /POST .*receive-requests/, lookUp: /GET/, pay: /PATCH/, find: /GET/ },
          lie: what => {
            fake.account.lie = what
          },
          tooMuch: null
        },
        settle: async charge => fake.pay(charge.chargeId),
        pays: null
      }
    }
  },
  {
    kind: opennode,
    start: async (t, parts) => {
      const fake = await startFakeOpenNode({ clock: parts.clock, key: 'opennode-canary-51ab09' })
      t.teardown(() => fake.close())
      fake.onHang = () => {
        parts.clock.advance(TIMEOUT)
      }
      return {
        provider: openKind(t, opennode, parts, fake.url),
        clock: parts.clock,
        key: secret('opennode-canary-51ab09'),
        foreign: secret('opennode-foreign-key'),
        secrets: ['opennode-canary-51ab09'],
        wire: {
          requests: () => fake.requests.length,
          fail: (fault, on) => {
            fake.fail(fault, on)
          },
          stop: () => fake.close(),
          on: { create: /POST .*charges/, lookUp: /GET/, pay: /POST .*withdrawals/, find: /GET/ },
          lie: what => {
            fake.account.lie = what
          },
          tellsNoHash: true,
          tooMuch: null
        },
        settle: charge => fake.pay(charge.invoice),
        pays: null
      }
    }
  },
  {
    kind: lnd,
    start: async (t, parts) => {
      const fake = await startFakeLnd({ clock: parts.clock })
      t.teardown(() => fake.close())
      // Streams that stay open with what they have to say are no hanging; one that says nothing is.
      let isHanging = false
      fake.onHang = () => {
        const isSilent = isHanging || fake.requests.at(-1)?.path.includes('/router/send') === true
        isHanging = false
        parts.clock.advance(isSilent ? TIMEOUT : 300)
      }
      const text = fake.key()
      const foreign = fake.key()
      fake.revoke(foreign)
      const macaroon = Buffer.from(new URL(text).searchParams.get('macaroon') ?? '', 'base64url').toString('hex')
      const outcomes = { paid: 'SUCCEEDED', failed: 'FAILURE_REASON_NO_ROUTE', pending: 'IN_FLIGHT' } as const
      return {
        provider: openKind(t, lnd, parts, null),
        clock: parts.clock,
        key: secret(text),
        foreign: secret(foreign),
        secrets: [macaroon],
        wire: {
          requests: () => fake.requests.length,
          fail: (fault, on) => {
            isHanging = fault.startsWith('hang')
            fake.fail(fault, on)
          },
          stop: () => fake.close(),
          on: {
            create: /POST \/v1\/invoices/,
            lookUp: /GET \/v1\/invoice\//,
            pay: /router\/send/,
            find: /router\/track/
          },
          lie: what => {
            fake.wallet.lie = what
          },
          tooMuch: null
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
