import type { Metrics } from '../../platform/telemetry/metrics.ts'

export interface BalanceCounters {
  /** Charge of a metered request and the loss beyond its balance, in millisatoshis. */
  readonly settled: (chargedMsat: number, unpaidMsat: number) => void
}

export function balanceCounters(metrics: Metrics): BalanceCounters {
  const requests = metrics
    .counterCells('boltgate_metered_requests_total', 'Metered requests that were settled.', [])
    .cell({})
  const charged = metrics
    .counterCells('boltgate_metered_msat_total', 'Millisatoshis that metered requests took from their balances.', [])
    .cell({})
  const unpaid = metrics
    .counterCells(
      'boltgate_metered_unpaid_msat_total',
      'Millisatoshis of usage beyond what was reserved, which the balance could not bear: the seller bears them.',
      []
    )
    .cell({})
  return {
    settled: (chargedMsat, unpaidMsat) => {
      requests.add(1)
      charged.add(chargedMsat)
      unpaid.add(unpaidMsat)
    }
  }
}
