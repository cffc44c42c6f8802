import type { CountCell, Metrics } from '../platform/metrics.ts'
import type { ChallengeSource } from './offer.ts'
import type { ClaimScheme } from './store.ts'

/** What was sold: what a challenge is made for, and a merchant's own payment. */
export type SaleSource = ChallengeSource | 'payment'
/** By a credential, or `invoice`: what is sold without one, whichever way it was learnt that its invoice was paid. */
export type SaleScheme = ClaimScheme | 'invoice'

/** What pay-per-request counts. Labels are from fixed lists, never from requests. */
export interface ChallengeCounters {
  /** A 402 was sent; `again` when an open invoice was handed out once more. */
  challenge (source: ChallengeSource, again: boolean): void
  /** A 402 would have been sent, were it not only observed. */
  observed (source: ChallengeSource): void
  /** Something was sold: once for each invoice, whichever way it was learnt. */
  payment (source: SaleSource, scheme: SaleScheme, amountSats: number): void
  /** A credential was judged: `ok` or the reason of its refusal. */
  verified (scheme: ClaimScheme, result: string): void
}

/** Counts nothing. */
export const noCounters: ChallengeCounters = { challenge: () => {}, observed: () => {}, payment: () => {}, verified: () => {} }

/** Counts in the gateway's measurements. */
export function challengeCounters (metrics: Metrics): ChallengeCounters {
  const challenges = metrics.counter('boltgate_challenges_total', 'Payment challenges answered with 402, by what is sold.', ['source', 'invoice'])
  const observed = metrics.counter('boltgate_challenges_observed_total', 'Requests that would have been answered with 402, in chains that only observe; no invoice was made.', ['source'])
  const payments = metrics.counter('boltgate_payments_total', 'Sales: credentials claimed for the first time, store orders, merchants\' payments and months of plans that were paid.', ['source', 'scheme'])
  const satoshis = metrics.counter('boltgate_satoshis_earned_total', 'Satoshis of these sales.', ['source', 'scheme'])
  const verified = metrics.counts('boltgate_verifications_total', 'Credentials judged, by result.', ['scheme', 'result'])
  // Good ones are counted on every paid request: their cells are looked up once.
  const good: Record<ClaimScheme, CountCell> = {
    l402: verified.cell({ scheme: 'l402', result: 'ok' }),
    payment: verified.cell({ scheme: 'payment', result: 'ok' }),
    'payment-legacy': verified.cell({ scheme: 'payment-legacy', result: 'ok' })
  }
  return {
    challenge: (source, again) => { challenges.inc({ source, invoice: again ? 'again' : 'new' }) },
    observed: source => { observed.inc({ source }) },
    payment: (source, scheme, amountSats) => {
      payments.inc({ source, scheme })
      satoshis.inc({ source, scheme }, amountSats)
    },
    verified: (scheme, result) => {
      if (result === 'ok') good[scheme].add(1)
      else verified.cell({ scheme, result }).add(1)
    }
  }
}
