import type { Clock } from '../../../platform/system/clock.ts'
import { unusableResponse, requireResponse } from '../../provider-calls/errors.ts'
import type { CallProvider } from '../../provider-calls/provider-call.ts'
import type { SettledCharge, SettledList } from '../../provider-calls/provider.ts'
import { ClnInvoiceState } from './responses.ts'
import { CLN_CODES, rpc } from './rpc.ts'

/**
 * The poller's position at a node, kept as JSON per account. While `search` is set, bisects for the first paid invoice
 * that may be ours.
 */
interface Place {
  readonly node: string
  /** Count after which news begin. */
  readonly index: number
  /** Hash of the invoice paid at that count; shows that the node's counts still hold. */
  readonly hash: string | null
  readonly search: { readonly newer: number | null; readonly step: number } | null
  /** When the current part of the list was begun; null between lists. */
  readonly began: number | null
}

/** Above every count. */
export const NO_COUNT = Number.MAX_SAFE_INTEGER
/** Seconds for which the node holds a call open. */
const WAIT = 60
const MAX_CALLS = 10
/** First step of a search from the oldest; each doubles the one before. */
const FIRST_STEP = 64

/**
 * Payments at a node, in order. `waitanyinvoice` returns the first invoice paid after a count and every payment has its
 * own count, so that no payment is skipped and no list is read in full. On first contact, bisection finds the first invoice that may
 * be ours.
 */
export async function paidAtNode(
  call: CallProvider,
  node: string,
  clock: Clock,
  since: number,
  position: string | null
): Promise<SettledList> {
  const spent = { calls: 0 }
  const next = async (after: number): Promise<ClnInvoiceState | null> => {
    spent.calls++
    return await paidAfter(call, after, 0)
  }
  let place = readPlace(position, node)
  const asOf = place.began ?? clock.now()
  if (place.search === null && place.hash !== null && place.began === null) {
    const marked = await next(place.index - 1)
    // A deleted invoice leaves later ones behind; a rebuilt node knows none.
    const isKnown = marked !== null && (marked.paymentHash === place.hash || marked.payIndex > place.index)
    if (!isKnown) place = beginning(node)
  }
  while (place.search !== null && spent.calls < MAX_CALLS) place = await searched(place, place.search, since, next)
  const charges: SettledCharge[] = []
  while (place.search === null && spent.calls < MAX_CALLS) {
    const paid = await next(place.index)
    if (paid === null)
      return { charges, reach: 'whole', asOf, position: JSON.stringify({ ...place, began: null } satisfies Place) }
    charges.push({ chargeId: paid.paymentHash, state: paid.state })
    place = { ...place, index: paid.payIndex, hash: paid.paymentHash }
  }
  return { charges, reach: 'more', asOf, position: JSON.stringify({ ...place, began: asOf } satisfies Place) }
}

/** One bisection step: counts and times rise together. */
async function searched(
  place: Place,
  { newer, step }: NonNullable<Place['search']>,
  since: number,
  next: (after: number) => Promise<ClnInvoiceState | null>
): Promise<Place> {
  const probe = place.hash === null ? 0 : newer === null ? place.index + step : Math.floor((place.index + newer) / 2)
  const paid = await next(probe)
  const isOld = paid !== null && (paid.state.settledAt ?? Infinity) < Math.floor(since / 1000) * 1000
  if (isOld) {
    const found = { ...place, index: paid.payIndex, hash: paid.paymentHash }
    const isFound = newer !== null && newer - paid.payIndex <= 1
    return {
      ...found,
      search: isFound ? null : { newer, step: newer === null && place.hash !== null ? step * 2 : step }
    }
  }
  // Nothing older follows: the target is the first payment after a lower count.
  if (probe <= place.index || probe - place.index <= 1) return { ...place, search: null }
  return { ...place, search: { newer: probe, step } }
}

/**
 * Reports each payment from now on, by long polls. Behind a count not yet reached, the node returns the next payment.
 * @throws ProviderRefused, ProviderUnavailable
 */
export async function followPaid(
  call: CallProvider,
  clock: Clock,
  given: (paid: ClnInvoiceState) => void
): Promise<void> {
  for (let after = NO_COUNT; ;) {
    const begun = clock.monotonic()
    const paid = await paidAfter(call, after, WAIT)
    // A node that ends calls early would be polled without pause.
    if (paid === null && clock.monotonic() - begun < (WAIT * 1000) / 2) throw unusableResponse('no wait for a payment')
    if (paid === null) continue
    after = paid.payIndex
    given(paid)
  }
}

/** The first invoice paid after a count, within the node's wait; null for none. */
export async function paidAfter(call: CallProvider, after: number, seconds: number): Promise<ClnInvoiceState | null> {
  const parameters = { lastpay_index: after, timeout: seconds }
  const response = await rpc(call, 'waitanyinvoice', parameters, [CLN_CODES.nothingPaid])
  if (response.status >= 400) return null
  const paid = requireResponse(ClnInvoiceState, response.body)
  if (paid.state.status !== 'paid' || (after !== NO_COUNT && paid.payIndex <= after))
    throw unusableResponse('no invoice that was paid later')
  return paid
}

function beginning(node: string): Place {
  return { node, index: 0, hash: null, search: { newer: null, step: FIRST_STEP }, began: null }
}

function readPlace(position: string | null, node: string): Place {
  // Written by this file alone.
  const place = position === null ? null : (JSON.parse(position) as Place)
  return place?.node === node ? place : beginning(node)
}
