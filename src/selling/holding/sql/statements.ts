import { overRows, type OverRows } from '../../../platform/database/given-rows.ts'
import type {
  Bond,
  ClaimCondition,
  ClaimScheme,
  GivenBack,
  LeaseKey,
  NewChallenge,
  NewLease,
  OutstandingQuery,
  Challenge,
  ClaimIn,
  ClaimedChallenge,
  OnPaid
} from '../challenge.ts'
import { Batch } from '../../../platform/database/batch.ts'
import type { Database } from '../../../platform/database/database.ts'
import type { Row } from '../../../platform/database/rows.ts'
import { challengeRows, claimCounts, sales } from './rows.ts'

/** A claim that does not use the payment up. Times in milliseconds since the epoch, here and below. */
export interface ClaimRow {
  readonly paymentHash: string
  readonly scheme: ClaimScheme
  readonly condition?: ClaimCondition | null
  readonly now: number
}

export interface LeaseRow extends NewLease {
  readonly gateway: string
  readonly until: number
  readonly now: number
  readonly bond?: Bond | null
}

export interface ConsumeRow extends LeaseKey {
  readonly gateway: string
  readonly now: number
}

const SUMMARY_COLUMNS = 'merchant_id, source, amount_sats, asked, created_at, client_key, verifications, client_gone'

export const claimRows = (columns: string): OverRows<ClaimRow> =>
  overRows(
    {
      hash: ['text', row => row.paymentHash],
      by: ['text', row => row.scheme],
      at: ['timestamptz', row => row.now],
      charge: ['text', row => row.condition?.chargeId ?? null],
      token: ['text', row => row.condition?.tokenId ?? null],
      sold_at: ['text', row => row.condition?.price ?? null],
      issued: ['text', row => row.condition?.issuedPath ?? null],
      issued_after: ['timestamptz', row => row.condition?.issuedAfter ?? null]
    },
    given => `
      update challenges set scheme = given.by, paid_at = coalesce(paid_at, given.at), verifications = verifications + 1,
        token_id = coalesce(given.token, token_id),
        resource = case when token_id <> given.token then given.issued else resource end,
        path = case when token_id <> given.token then given.issued else path end,
        caveat_path = case when token_id <> given.token then null else caveat_path end
      from ${given}
      where payment_hash = given.hash and (scheme is null or scheme = given.by)
        and (given.charge is null or charge_id = given.charge)
        and (given.token is null or (price is not distinct from given.sold_at
          and (token_id = given.token or (scheme is null and given.issued is not null))))
        and (given.issued_after is null or created_at > given.issued_after)
      returning given.nth, ${columns}`,
    { locks: true }
  )

const LEASABLE = `payment_hash = given.hash and (scheme is null or scheme = given.by)
        and (state = 'unspent' or (state = 'leased' and lease_until < given.at and not lease_final))`

export const leaseRows = (columns: string): OverRows<LeaseRow> =>
  overRows(
    {
      hash: ['text', row => row.paymentHash],
      lease: ['text', row => row.leaseId],
      gateway: ['text', row => row.gateway],
      final: ['integer', row => (row.isFinal === true ? 1 : 0)],
      by: ['text', row => row.scheme ?? 'payment'],
      until: ['timestamptz', row => row.until],
      at: ['timestamptz', row => row.now],
      payment: ['text', ({ bond }) => bond?.paymentId ?? null],
      merchant: ['text', ({ bond }) => bond?.merchantId ?? null],
      sold_by: ['text', ({ bond }) => bond?.service ?? null],
      sold_method: ['text', ({ bond }) => bond?.method ?? null],
      sold_path: ['text', ({ bond }) => bond?.path ?? null],
      sold_query: ['text', ({ bond }) => bond?.query ?? null],
      price: ['bigint', ({ bond }) => bond?.amountSats ?? null],
      issued_after: ['timestamptz', ({ bond }) => bond?.issuedAfter ?? null]
    },
    given => `
      update challenges
      set state = 'leased', lease_id = given.lease, lease_gateway = given.gateway, lease_until = given.until,
        lease_final = given.final = 1, scheme = given.by, paid_at = coalesce(paid_at, given.at), verifications = verifications + 1
      from ${given}
      where ${LEASABLE}
        and (given.payment is null or (
          payment_id = given.payment and digest is null and merchant_id is not distinct from given.merchant
          and service = given.sold_by and method = given.sold_method and path = given.sold_path and query = given.sold_query
          and amount_sats = given.price and (given.issued_after is null or created_at > given.issued_after)))
      returning given.nth, ${columns}`,
    { locks: true }
  )

export const consumeRows = (columns: string): OverRows<ConsumeRow> =>
  overRows(
    {
      hash: ['text', row => row.paymentHash],
      lease: ['text', row => row.leaseId],
      gateway: ['text', row => row.gateway],
      by: ['text', () => 'payment'],
      at: ['timestamptz', row => row.now]
    },
    given => `
    update challenges
    set state = 'spent', spent_at = given.at, lease_id = given.lease, lease_gateway = given.gateway, lease_until = null,
      scheme = given.by, paid_at = coalesce(paid_at, given.at), verifications = verifications + 1
    from ${given}
    where ${LEASABLE}
    returning given.nth, ${columns}`,
    { locks: true }
  )

export interface ExtendRow extends LeaseKey {
  readonly gateway: string
  readonly until: number
}

export const EXTEND_LEASES = overRows<ExtendRow>(
  {
    hash: ['text', row => row.paymentHash],
    lease: ['text', row => row.leaseId],
    gateway: ['text', row => row.gateway],
    until: ['timestamptz', row => row.until]
  },
  given => `
    update challenges set lease_until = given.until
    from ${given}
    where payment_hash = given.hash and lease_id = given.lease and lease_gateway = given.gateway and state = 'leased'
    returning given.nth`,
  { locks: true }
)

export const SPEND_LEASES = overRows<LeaseKey & { readonly now: number }>(
  { hash: ['text', row => row.paymentHash], lease: ['text', row => row.leaseId], at: ['timestamptz', row => row.now] },
  given => `
    update challenges set state = 'spent', spent_at = coalesce(spent_at, given.at), lease_until = null
    from ${given}
    where payment_hash = given.hash and lease_id = given.lease and state in ('leased', 'spent')
    returning given.nth, lease_id`,
  { locks: true }
)

export const RELEASE_LEASES = overRows<GivenBack>(
  {
    hash: ['text', row => row.paymentHash],
    lease: ['text', row => row.leaseId],
    counted: ['integer', row => (row.isCounted === true ? 1 : 0)]
  },
  given => `
    update challenges set state = 'unspent', spent_at = null, lease_id = null, lease_gateway = null, lease_until = null,
      client_gone = client_gone + given.counted
    from ${given}
    where payment_hash = given.hash and lease_id = given.lease and state in ('leased', 'spent')
    returning given.nth`,
  { locks: true }
)

export const INSERT_CHALLENGES = overRows<NewChallenge>(
  {
    payment_hash: ['text', row => row.paymentHash],
    source: ['text', row => row.source],
    service: ['text', row => row.service],
    merchant_id: ['text', row => row.merchantId],
    proxy_id: ['text', row => row.proxyId],
    place: ['text', row => row.place],
    resource: ['text', row => row.resource],
    path: ['text', row => row.path],
    method: ['text', row => row.method],
    query: ['text', row => row.query],
    amount_sats: ['bigint', row => row.amountSats],
    price: ['text', row => row.price],
    asked: ['text', row => row.asked],
    digest: ['text', row => row.digest],
    binding: ['text', row => row.binding],
    payment_id: ['text', ({ payment }) => payment?.id ?? null],
    realm: ['text', ({ payment }) => payment?.realm ?? null],
    payment_expires: ['text', ({ payment }) => payment?.expires ?? null],
    request: ['text', ({ wording }) => ('macaroon' in wording ? wording.request : '')],
    macaroon: ['text', ({ wording }) => ('macaroon' in wording ? wording.macaroon : '')],
    macaroon_location: ['text', ({ wording }) => ('macaroon' in wording ? null : wording.location)],
    caveat_path: ['text', ({ wording }) => ('macaroon' in wording ? null : wording.caveatPath)],
    token_id: ['text', row => row.tokenId],
    invoice: ['text', row => row.invoice],
    network: ['text', row => row.network],
    charge_id: ['text', row => row.chargeId],
    provider_slot: ['text', row => row.providerSlot],
    provider_kind: ['text', row => row.providerKind],
    client_key: ['text', row => row.clientKey],
    idempotency_key: ['text', row => row.idempotencyKey],
    description: ['text', row => row.description],
    created_at: ['timestamptz', row => row.createdAt],
    expires_at: ['timestamptz', row => row.expiresAt],
    token_expires_at: ['timestamptz', row => row.tokenExpiresAt]
  },
  (given, columns) => `insert into challenges (${columns}) select ${columns} from ${given}`
)

export const FIND_CHALLENGES = overRows<string>(
  { hash: ['text', hash => hash] },
  given => `select given.nth, challenges.* from ${given} join challenges on payment_hash = given.hash`
)

// `num_nulls` matches the index (migration 0016), which looks up each client separately. Grouped outside: inside, each
// client would start a sort of its own.
export const OPEN_INVOICES = overRows<OutstandingQuery>(
  {
    client: ['text', query => query.clientKey],
    spot: ['text', query => query.place],
    bound: ['text', query => query.binding],
    at: ['timestamptz', query => query.now],
    since: ['timestamptz', query => query.since],
    most: ['integer', query => query.placeLimit]
  },
  given => `
    select given.nth, case when created_at >= given.since then payment_hash end as payment_hash,
      binding = given.bound as is_bound, count(*)::integer as invoices, min(expires_at) as first_expiry
    from ${given} cross join lateral (
      select payment_hash, binding, created_at, expires_at from challenges
      where client_key = given.client and place = given.spot and num_nulls(scheme, settled_at) >= 2 and expires_at > given.at
      order by expires_at
      limit given.most) as invoice
    group by 1, 2, 3`
)

/** The claims of one statement: batched on their own, or batched with what listeners write for first payments. */
export class Claiming<R extends { readonly paymentHash: string }> {
  readonly #database: Database
  readonly #brief: OverRows<R>
  readonly #batch: Batch<R, Row | null>
  readonly #paid: Batch<{ readonly row: R; readonly onPaid: OnPaid }, Row | null>

  /** `statement` returns the given columns. Rows are wide: reading a whole one costs as much as the claim. */
  constructor(database: Database, statement: (columns: string) => OverRows<R>) {
    this.#database = database
    this.#brief = statement(SUMMARY_COLUMNS)
    const whole = statement('challenges.*')
    this.#batch = new Batch({ key: row => row.paymentHash, write: rows => this.#brief.one(database.sql, rows) })
    this.#paid = new Batch({
      key: ({ row }) => row.paymentHash,
      write: given =>
        database.transaction(async tx => {
          const found = await whole.one(
            tx,
            given.map(({ row }) => row)
          )
          const byCallback = new Map<OnPaid, Challenge[]>()
          for (const [at, { onPaid }] of given.entries()) {
            const row = found[at] ?? null
            if (row === null || claimCounts.read(row).verifications > 1) continue
            const others = byCallback.get(onPaid)
            if (others === undefined) byCallback.set(onPaid, [challengeRows.read(row)])
            else others.push(challengeRows.read(row))
          }
          for (const [onPaid, firsts] of byCallback) await onPaid(tx, firsts)
          return found
        })
    })
  }

  async claim(where: ClaimIn, row: R): Promise<ClaimedChallenge | null> {
    const found =
      'onPaid' in where
        ? await this.#paid.add({ row, onPaid: where.onPaid })
        : where === this.#database.sql
          ? await this.#batch.add(row)
          : (await this.#brief.one(where, [row]))[0]
    if (found === null || found === undefined) return null
    // Outside the batch: the claims are committed, and an unreadable row must not repeat them.
    const { verifications, returns } = claimCounts.read(found)
    return { challenge: sales.read(found), first: verifications === 1, returns }
  }

  async drained(): Promise<void> {
    await Promise.all([this.#batch.drained(), this.#paid.drained()])
  }
}
