/** How long a gateway's slices are its own, in milliseconds. */
export interface LeaseTimes {
  /** Nobody sweeps a slice for so long after a write. */
  readonly kept: number
  /** Its holder trusts it for so long after a write. */
  readonly trusted: number
  /** How often slices in use are extended. */
  readonly beat: number
  /** A slice that nobody uses for so long goes back. */
  readonly idle: number
}

/** `timeout`: milliseconds of `payment.leaseTimeout`; twice as long after its last write a dead gateway's slice is swept. */
export function leaseTimes(timeout: number): LeaseTimes {
  return {
    kept: timeout * 2,
    trusted: Math.floor((timeout * 4) / 3),
    beat: Math.floor(timeout / 3),
    idle: Math.floor(timeout / 10)
  }
}
