import type { CounterCell, Metrics } from '../../platform/telemetry/metrics.ts'
import type { ChallengeSource, ClaimScheme } from './challenge.ts'

/** A challenge's source, or a merchant's own payment. */
export type SaleSource = ChallengeSource | 'payment'
/** By a credential, or `invoice` without one. */
type SaleScheme = ClaimScheme | 'invoice'

/** Metrics of pay-per-request. Labels come from fixed lists, never from requests. */
export interface ChallengeCounters {
  /** A 402 was sent; `again`: an open invoice was reused. */
  challenge(source: ChallengeSource, again: boolean): void
  /** An observing chain would have sent a 402; null satoshis without a rate. */
  observed(source: ChallengeSource, amountSats: number | null): void
  free(source: ChallengeSource): void
  payment(source: SaleSource, scheme: SaleScheme, amountSats: number): void
  /** `ok`, or the reason of the refusal. */
  verified(scheme: ClaimScheme, result: string): void
  /** A client with a single-use credential left before the head. */
  clientGone(credential: 'returned' | 'spent'): void
  ahead(result: 'hit' | 'miss' | 'unused', count: number): void
  /** Leases of dead gateways, now spent (decision 183). */
  ambiguous(count: number): void
}

export function challengeCounters(metrics: Metrics): ChallengeCounters {
  const challenges = metrics.counter(
    'boltgate_challenges_total',
    'Payment challenges answered with 402, by what is sold.',
    ['source', 'invoice']
  )
  const observed = metrics.counter(
    'boltgate_challenges_observed_total',
    'Requests that would have been answered with 402, in chains that only observe; no invoice was made.',
    ['source']
  )
  const would = metrics.counter(
    'boltgate_satoshis_observed_total',
    'Satoshis that those requests would have been asked for.',
    ['source']
  )
  const free = metrics.counter('boltgate_free_calls_total', 'Requests that were served as free calls of a route.', [
    'source'
  ])
  const payments = metrics.counter(
    'boltgate_payments_total',
    "Sales: credentials claimed for the first time, store orders, merchants' payments and months of plans that were paid.",
    ['source', 'scheme']
  )
  const satoshis = metrics.counter('boltgate_satoshis_earned_total', 'Satoshis of these sales.', ['source', 'scheme'])
  const verified = metrics.counterCells('boltgate_verifications_total', 'Credentials judged, by result.', [
    'scheme',
    'result'
  ])
  const gone = metrics.counter(
    'boltgate_clients_gone_total',
    'Clients that left before the head of what a single-use credential was to buy, by what became of the credential.',
    ['credential']
  )
  const ahead = metrics.counter(
    'boltgate_invoices_ahead_total',
    '402s that an invoice made ahead could serve: hit or miss; and invoices that were made ahead and not used: unused.',
    ['result']
  )
  const ambiguous = metrics.counter(
    'boltgate_ambiguous_leases_total',
    'Single-use credentials that were spent because their gateway died with the request in flight.',
    []
  )
  // Looked up once: they count on every paid request.
  const good: Record<ClaimScheme, CounterCell> = {
    l402: verified.cell({ scheme: 'l402', result: 'ok' }),
    payment: verified.cell({ scheme: 'payment', result: 'ok' }),
    'payment-legacy': verified.cell({ scheme: 'payment-legacy', result: 'ok' }),
    x402: verified.cell({ scheme: 'x402', result: 'ok' })
  }
  return {
    challenge: (source, again) => {
      challenges.inc({ source, invoice: again ? 'again' : 'new' })
    },
    observed: (source, amountSats) => {
      observed.inc({ source })
      if (amountSats !== null) would.inc({ source }, amountSats)
    },
    free: source => {
      free.inc({ source })
    },
    payment: (source, scheme, amountSats) => {
      payments.inc({ source, scheme })
      satoshis.inc({ source, scheme }, amountSats)
    },
    clientGone: credential => {
      gone.inc({ credential })
    },
    ahead: (result, count) => {
      ahead.inc({ result }, count)
    },
    ambiguous: count => {
      ambiguous.inc({}, count)
    },
    verified: (scheme, result) => {
      if (result === 'ok') good[scheme].add(1)
      else verified.cell({ scheme, result }).add(1)
    }
  }
}
