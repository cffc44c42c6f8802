import t from 'tap'
import { paymentRequired, type DepositChallenge } from '../../../src/selling/minting/replies.ts'
import type { SentChallenge } from '../../../src/selling/holding/challenge.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { newChallenge, settings } from '../challenges/fixture.ts'

t.test('the body of a 402 offers a session only where a line does, which networks without a name have not', async t => {
  const sent = (payment: SentChallenge['payment']): SentChallenge => ({
    ...newChallenge(),
    state: 'unspent',
    scheme: null,
    paidAt: null,
    settledAt: null,
    leaseId: null,
    leaseUntil: null,
    leaseIsFinal: false,
    macaroon: 'AAAA',
    payment
  })
  const offered = (payment: SentChallenge['payment']): { lines: number; member: boolean } => {
    const deposit: DepositChallenge = {
      challenge: sent(payment),
      terms: { unitSats: 2, unitType: 'chunk', idleSeconds: 300, description: null }
    }
    const reply = paymentRequired(sent(payment), { kind: 'none' }, new HeaderList([]), settings, null, deposit)
    const lines = reply.headers.filter(value => value.includes('intent="session"')).length
    return { lines, member: String(reply.body).includes('"session":') }
  }
  t.same(offered({ id: 'i', realm: 'r', expires: '2026-11-21T00:10:00Z', request: 'e30' }), { lines: 1, member: true })
  t.same(offered(null), { lines: 0, member: false })
})
