import { fitting } from '../../../engine/formats/response-schema.ts'
import type { Clock } from '../../../platform/system/clock.ts'
import { InvoiceLines, LndInvoices, readInvoice, type InvoiceState } from './responses.ts'
import { ask, ok } from './calls.ts'
import { OversizedResponse, StreamSilent, type CallProvider } from '../../provider-calls/provider-call.ts'
import { requireResponse } from '../../provider-calls/errors.ts'
import type { SettledCharge, SettledList, SettledSince } from '../../provider-calls/provider.ts'

/** A settled invoice after which the node is asked for news. */
interface Mark {
  /** lnd's settle index; at least 2. */
  readonly index: number
  readonly hash: string
}

interface Scan {
  readonly wants: 'mark' | 'all'
  /** lnd's add index before which the next page ends; 0 for the newest. */
  readonly offset: number
  readonly began: number
}

/** The poller's position, kept as JSON per account. */
interface Place {
  /** `https://host:port`: another node has its own counts. */
  readonly node: string
  /** Valid once no scan is left. */
  readonly mark: Mark | null
  readonly scan: Scan | null
  readonly silences: number
  /** No stream is tried before this time (ms since the epoch), since a proxy buffers them. */
  readonly deafUntil: number
}

/** Invoices per page; fewer where they are large. */
const PAGE = 200
const SMALLEST_PAGE = 8
const MAX_PAGES = 5
/** Milliseconds until a stream's first line, and the silence after which it counts as read. */
const FIRST_LINE = 3_000
const QUIET = 250
/** Bytes of a stream that are read; below the response limit. */
const MOST_BYTES = 512 * 1024
/** Milliseconds before retrying a stream that did not arrive. */
const FULL_SCAN_FOR = 3_600_000

/**
 * Settled invoices in order of settlement. lnd numbers them and its stream starts after any number, so that no
 * invoice is skipped, however many unpaid ones lie between. The stream starts with the invoice read last, which shows that numbers still
 * hold. Otherwise, or where a proxy buffers streams, all invoices that may be ours are rescanned.
 *
 * lnd cannot be asked for the number itself. So the first run looks for a settled invoice as the mark and then reads
 * everything once; a node with fewer than two is read whole each time.
 */
export async function settledAtNode(
  call: CallProvider,
  node: string,
  clock: Clock,
  wanted: SettledSince
): Promise<SettledList> {
  const place = readPlace(wanted.position, node)
  if (place.mark === null || place.scan !== null) return await scanned(call, place, clock, wanted)
  const asOf = clock.now()
  const streamed = await streamedFrom(call, place.mark, clock)
  if (streamed.type === 'news') {
    return {
      charges: chargesOf(streamed.settled, wanted.since),
      reach: streamed.isWhole ? 'whole' : 'more',
      asOf,
      position: written({ ...place, mark: streamed.mark, silences: 0 })
    }
  }
  // Once may mean a rebuilt node with fewer settlements than the mark; a new mark will show.
  const silences = streamed.type === 'silence' ? place.silences + 1 : 0
  return await scanned(
    call,
    { node, mark: null, scan: null, silences, deafUntil: silences > 1 ? asOf + FULL_SCAN_FOR : 0 },
    clock,
    wanted
  )
}

/** News, nothing, or another invoice than the mark. */
type Streamed =
  | { readonly type: 'news'; readonly settled: readonly InvoiceState[]; readonly mark: Mark; readonly isWhole: boolean }
  | { readonly type: 'silence' | 'other' }

async function streamedFrom(call: CallProvider, mark: Mark, clock: Clock): Promise<Streamed> {
  let body: unknown
  try {
    body = ok(
      await ask(call, {
        method: 'GET',
        path: `/v1/invoices/subscribe?settle_index=${mark.index - 1}`,
        scope: 'invoices:read',
        lines: { first: FIRST_LINE, quiet: QUIET, most: MOST_BYTES }
      })
    ).body
  } catch (error) {
    if (error instanceof StreamSilent) return { type: 'silence' }
    throw error
  }
  const stream = requireResponse(InvoiceLines, body)
  // Invoices added meanwhile shift pages.
  const [first, ...settled] = invoicesOf(
    stream.lines.map(({ result }) => result),
    clock
  ).filter(({ state, settleIndex }) => state.status === 'paid' && settleIndex >= mark.index)
  if (first?.settleIndex !== mark.index || first.paymentHash !== mark.hash) return { type: 'other' }
  const last = settled.at(-1) ?? first
  return { type: 'news', settled, mark: { index: last.settleIndex, hash: last.paymentHash }, isWhole: !stream.isCut }
}

async function scanned(
  call: CallProvider,
  place: Place,
  clock: Clock,
  { since, oldest }: SettledSince
): Promise<SettledList> {
  const began = clock.now()
  let scan: Scan = place.scan ?? { wants: place.deafUntil > began ? 'all' : 'mark', offset: 0, began }
  let { mark } = place
  const settled: InvoiceState[] = []
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await pageOf(call, scan, oldest, clock)
    settled.push(...page.invoices.filter(({ state }) => state.status === 'paid'))
    const newest = scan.wants === 'mark' ? newestMark(page.invoices) : null
    if (newest !== null) {
      mark = newest
      // Later settlements follow the mark; earlier ones are read now, these pages included.
      settled.length = 0
      scan = { wants: 'all', offset: 0, began: clock.now() }
    } else if (page.isLast || (scan.wants === 'all' && page.invoices.some(({ createdAt }) => createdAt < oldest))) {
      return {
        charges: chargesOf(settled, since),
        reach: 'whole',
        asOf: scan.began,
        position: written({ ...place, mark, scan: null })
      }
    } else {
      scan = { ...scan, offset: page.next }
    }
  }
  return {
    charges: chargesOf(settled, since),
    reach: 'more',
    asOf: scan.began,
    position: written({ ...place, mark, scan })
  }
}

async function pageOf(
  call: CallProvider,
  { wants, offset }: Scan,
  oldest: number,
  clock: Clock
): Promise<{
  readonly invoices: readonly InvoiceState[]
  readonly isLast: boolean
  readonly next: number
}> {
  const from = wants === 'all' ? `&creation_date_start=${Math.max(Math.floor(oldest / 1000), 0)}` : ''
  for (let size = PAGE; ; size = Math.ceil(size / 5)) {
    try {
      const path = `/v1/invoices?reversed=true&num_max_invoices=${size}&index_offset=${offset}${from}`
      const { body } = ok(await ask(call, { method: 'GET', path, scope: 'invoices:read' }))
      const { invoices, first_index_offset: next } = requireResponse(LndInvoices, body)
      return { invoices: invoicesOf(invoices, clock), isLast: next <= 1 || invoices.length < size, next }
    } catch (error) {
      if (!(error instanceof OversizedResponse) || size <= SMALLEST_PAGE) throw error
    }
  }
}

function invoicesOf(items: readonly unknown[], clock: Clock): InvoiceState[] {
  return fitting(items.map(item => readInvoice(item, clock.now())))
}

function newestMark(invoices: readonly InvoiceState[]): Mark | null {
  const [newest] = invoices
    .filter(({ state, settleIndex }) => state.status === 'paid' && settleIndex >= 2)
    .toSorted((one, other) => other.settleIndex - one.settleIndex)
  return newest === undefined ? null : { index: newest.settleIndex, hash: newest.paymentHash }
}

/** Newest first; lnd has whole seconds. */
function chargesOf(settled: readonly InvoiceState[], since: number): readonly SettledCharge[] {
  return settled
    .filter(({ state }) => (state.settledAt ?? Infinity) >= Math.floor(since / 1000) * 1000)
    .toSorted((one, other) => (other.state.settledAt ?? 0) - (one.state.settledAt ?? 0))
    .map(({ paymentHash, state }) => ({ chargeId: paymentHash, state }))
}

function written(place: Place): string {
  return JSON.stringify(place)
}

/** Starts over for another node. */
function readPlace(position: string | null, node: string): Place {
  // Written by this file alone.
  const place = position === null ? null : (JSON.parse(position) as Place)
  return place?.node === node ? place : { node, mark: null, scan: null, silences: 0, deafUntil: 0 }
}
