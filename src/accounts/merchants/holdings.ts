import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { Sql } from '../../platform/database/database.ts'

export interface ProxyCounts {
  readonly count: number
  readonly active: number
}

export async function countProxies(sql: Sql, merchantId: number): Promise<ProxyCounts> {
  const [row] = await sql<ProxyCounts[]>`
    select count(*)::int as count, (count(*) filter (where is_active))::int as active
    from proxies where merchant_id = ${merchantId} and deleted_at is null`
  return row ?? { count: 0, active: 0 }
}

export function isProxyId(text: string): boolean {
  return /^[a-z0-9-]{1,64}$/.test(text)
}

export async function ownerOfProxy(sql: Sql, proxyId: string): Promise<number | null> {
  if (!isProxyId(proxyId)) return null
  const [row] = await sql<Array<{ owner: number }>>`
    select merchant_id as owner from proxies where proxy_id = ${proxyId} and deleted_at is null`
  return row?.owner ?? null
}

/** Includes demo payments (decision 74). */
export async function hasPaidPayment(sql: Sql, merchantId: number): Promise<boolean> {
  // The second condition enables the index of migration 0042.
  const [row] = await sql`
    select 1 from payments where merchant_id = ${merchantId} and paid_at is not null and coalesce(sold_at, paid_at) is not null limit 1`
  return row !== undefined
}

/** Active resources of the producer API, which share the cap with proxies (decision 84). */
export async function countEndpoints(sql: Sql, merchantId: number): Promise<number> {
  const [row] = await sql<{ held: number }[]>`
    select count(*)::int as held from producer_endpoints where merchant_id = ${String(merchantId)} and retired_at is null`
  return row?.held ?? 0
}

export async function hasChallenge(sql: Sql, merchantId: number): Promise<boolean> {
  const [row] = await sql`select 1 from producer_endpoints where merchant_id = ${String(merchantId)} limit 1`
  return row !== undefined
}

/**
 * Whether merchants have sold here. Their refunds, deliveries and mails continue in a gateway that no longer serves
 * them.
 */
export async function haveMerchantsSold(sql: Sql): Promise<boolean> {
  const [row] = await sql<Array<{ sold: boolean }>>`
    select exists (select from payments) or exists (select from storefront_orders) or exists (select from producer_endpoints) as sold`
  return row?.sold === true
}

export function proxyNotFound(): LongError {
  return new LongError(RESOURCE_NOT_FOUND, 'Proxy not found', 'There is no such proxy.')
}
