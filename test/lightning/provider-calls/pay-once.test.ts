import t from 'tap'
import {
  NothingSent,
  PayoutUncertain,
  ProviderRefused,
  ProviderUnavailable
} from '../../../src/lightning/provider-calls/errors.ts'
import { payOnce, type Sending } from '../../../src/lightning/provider-calls/pay-once.ts'
import type { Payout } from '../../../src/lightning/provider-calls/provider.ts'

const payment = (status: Payout['status']) => ({
  payout: { payoutId: 'p', status, feeSats: 1, transactionHash: null, processedAt: null },
  reason: status === 'failed' ? 'no route' : null
})
const lost = new ProviderUnavailable('lost', 5, undefined, 'network')
const away = new NothingSent('away', 5, undefined, 'network')
const limited = new ProviderUnavailable('slower', 5, undefined, 'rate')
const noKey = new ProviderRefused('scope', 'may not')
const sent = (status: Payout['status']): Sending => ({ outcome: 'sent', payment: payment(status) })
const refused = (isBefore: boolean): Sending => ({ outcome: 'refused', message: 'too dear', isBefore })
const unclear: Sending = { outcome: 'unclear', cause: lost }

type Found = Payout['status'] | 'none' | Error
type Ending = Payout['status'] | Readonly<{ name: string; message?: string | RegExp }>

const uncertain = { name: 'PayoutUncertain' }
const rows: ReadonlyArray<
  readonly [before: Found, sending: Sending | Error, after: Found, ending: Ending, sends: number]
> = [
  ['confirmed', sent('confirmed'), 'none', 'confirmed', 0],
  ['processing', sent('confirmed'), 'none', 'processing', 0],
  ['pending', sent('confirmed'), 'none', 'pending', 0],
  [lost, sent('confirmed'), 'none', { name: 'ProviderUnavailable' }, 0],
  [noKey, sent('confirmed'), 'none', { name: 'ProviderRefused' }, 0],
  ['none', sent('confirmed'), 'none', 'confirmed', 1],
  ['none', sent('processing'), 'none', 'processing', 1],
  ['none', sent('failed'), 'none', { name: 'ProviderRefused', message: 'no route' }, 1],
  ['failed', sent('confirmed'), 'none', 'confirmed', 1],
  ['none', refused(true), 'none', { name: 'ProviderRefused', message: 'too dear' }, 1],
  ['none', refused(false), 'none', uncertain, 1],
  ['none', refused(true), 'confirmed', 'confirmed', 1],
  ['none', refused(false), 'confirmed', 'confirmed', 1],
  ['none', refused(false), 'processing', 'processing', 1],
  ['none', refused(false), 'failed', { name: 'ProviderRefused', message: 'no route' }, 1],
  ['failed', refused(false), 'failed', { name: 'ProviderRefused' }, 1],
  ['none', refused(true), lost, uncertain, 1],
  ['none', unclear, 'none', uncertain, 1],
  ['none', unclear, 'confirmed', 'confirmed', 1],
  ['none', unclear, 'failed', { name: 'ProviderRefused' }, 1],
  ['failed', unclear, 'failed', uncertain, 1],
  ['none', lost, 'none', uncertain, 1],
  ['failed', lost, 'failed', uncertain, 1],
  ['none', away, 'none', { name: 'NothingSent' }, 1],
  ['none', limited, 'none', { name: 'ProviderUnavailable' }, 1],
  ['none', noKey, 'none', { name: 'ProviderRefused', message: 'may not' }, 1]
]

for (const [before, sending, after, ending, sends] of rows) {
  const told = (what: Found | Sending) =>
    what instanceof Error ? what.name : typeof what === 'string' ? what : what.outcome
  t.test(
    `found ${told(before)}, then ${told(sending instanceof Error ? sending : sending)}, then ${told(after)}`,
    async t => {
      let requests = 0
      let polls = 0
      const paying = payOnce({
        find: async () => {
          const found = polls++ === 0 ? before : after
          if (found instanceof Error) throw found
          return found === 'none' ? null : payment(found)
        },
        send: async () => {
          requests++
          if (sending instanceof Error) throw sending
          return sending
        }
      })
      if (typeof ending === 'string') t.match(await paying, { status: ending })
      else await t.rejects(paying, ending)
      t.equal(requests, sends)
    }
  )
}

t.test('an uncertain payout keeps its reason', async t => {
  const error: unknown = await payOnce({ find: async () => null, send: () => Promise.reject(lost) }).catch(
    (caught: unknown) => caught
  )
  t.ok(error instanceof PayoutUncertain)
  t.equal((error as Error).cause, lost)
})
