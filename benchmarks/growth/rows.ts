import type { Sql } from '../../src/platform/database/database.ts'

/** Rows that a gateway at work would have, made by SQL. Sizes are those of the sandbox; times are before `now`. */
export interface Filling {
  readonly table: 'challenges' | 'payments'
  /** The statement that writes the rows numbered from $1 to $2, as seen at the moment $3. */
  readonly insert: string
}

/** Rows of one statement. */
const CHUNK = 250_000

/** The merchant whose lists are read: it has as many rows however many there are in all. */
export const LISTED = { merchantId: 1, rows: 1_000 } as const
/** Other merchants. */
export const MERCHANTS = 1_000

// `h` and `h2` are hashes of the row's number, instead of random values; `offset 0` has each made once.
const challenges = `
  insert into challenges (
    payment_hash, source, service, merchant_id, proxy_id, place, resource, path, method, query, amount_sats, binding,
    payment_id, realm, request, payment_expires, macaroon, macaroon_location, token_id, invoice, network, charge_id,
    provider_slot, provider_kind, client_key, description, created_at, expires_at, token_expires_at,
    state, scheme, verifications, paid_at, spent_at)
  select
    h || h2, case when i <= ${LISTED.rows} then 'producer' else 'route' end, 'boltgate:0',
    case when i <= ${LISTED.rows} then '${LISTED.merchantId}' end, null,
    case when i <= ${LISTED.rows} then 'producer:${LISTED.merchantId}' else 'route:quotes' end,
    '/v1/quote', '/v1/quote', 'GET', '', 10, left(h2, 22), h2 || left(h, 11), 'api.example.com', '',
    to_char(made at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '', 'l402', h2 || h,
    'lnbcrt100n1' || left(h || h2 || h || h2 || h || h2 || h || h2 || h || h2, 289), 'regtest', 'sbx_' || left(h, 8),
    'primary', 'sandbox', '203.0.' || i % 250 || '.' || i / 250 % 250, 'A quote', made, made + interval '1 hour',
    made + interval '1 hour', case when i % 20 = 0 then 'spent' else 'unspent' end,
    case when i % 20 = 0 then 'payment' end, case when i % 20 = 0 then 1 else 0 end,
    case when i % 20 = 0 then made end, case when i % 20 = 0 then made end
  from (
    select i, md5(i::text) as h, md5('b' || i) as h2, $3::timestamptz - (i % 86400) * interval '1 second' as made
    from generate_series($1::bigint, $2::bigint) as i offset 0) as numbered`

const payments = `
  insert into payments (
    invoice_id, merchant_id, order_id, status, amount, currency, description, pay_token, provider_slot, provider_kind,
    charge_id, invoice, payment_hash, network, amount_sats, received_sats, created_at, expires_at, paid_at, updated_at)
  select
    (100000000000000 + i * 7919 * 5003 % 900000000000000)::text,
    case when i <= ${LISTED.rows} then ${LISTED.merchantId} else 2 + i % ${MERCHANTS} end, 'order-' || i,
    case when i % 2 = 0 then 'paid' else 'expired' end, 0.0001, 'BTC', 'An order', h2 || left(h, 11), 'primary',
    'sandbox', 'sbx_' || left(h, 8),
    'lnbcrt100n1' || left(h || h2 || h || h2 || h || h2 || h || h2 || h || h2, 289), h || h2, 'regtest', 10000,
    case when i % 2 = 0 then 10000 end, made, made + interval '1 hour', case when i % 2 = 0 then made end, made
  from (
    select i, md5('p' || i) as h, md5('q' || i) as h2, $3::timestamptz - i * interval '50 milliseconds' as made
    from generate_series($1::bigint, $2::bigint) as i offset 0) as numbered`

export const FILLINGS: readonly Filling[] = [
  { table: 'challenges', insert: challenges },
  { table: 'payments', insert: payments }
]

/** Accounts that the payments belong to. */
export async function fillMerchants(sql: Sql, now: Date): Promise<void> {
  await sql`
    insert into merchants (name, email, key_id, key_digest, key_created_at, created_at, updated_at)
    select 'm' || i, 'm' || i || '@example.com', 'k' || i, sha256(i::text::bytea), ${now}, ${now}, ${now}
    from generate_series(1, ${MERCHANTS + 1}) as i`
}

/**
 * Fills a table. Its indexes are dropped first and made again with a quarter of each page left, as indexes of
 * random keys have it after a while; PostgreSQL's own tenth would be split by whatever came next.
 */
export async function fill(sql: Sql, { table, insert }: Filling, rows: number, now: Date): Promise<void> {
  const indexes = await sql<Array<{ name: string; definition: string; kind: string | null; method: string }>>`
    select c.relname as name, coalesce(case k.contype when 'x' then pg_get_constraintdef(k.oid) end, pg_get_indexdef(c.oid)) as definition,
      k.contype::text as kind, am.amname as method
    from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am am on am.oid = c.relam
      left join pg_constraint k on k.conindid = c.oid and k.contype in ('p', 'u', 'x')
    where i.indrelid = ${table}::regclass`
  const foreign = await sql<Array<{ name: string; of: string; definition: string }>>`
    select conname as name, conrelid::regclass::text as of, pg_get_constraintdef(oid) as definition
    from pg_constraint where confrelid = ${table}::regclass`
  const own = await sql<Array<{ name: string; definition: string }>>`
    select conname as name, pg_get_constraintdef(oid) as definition
    from pg_constraint where conrelid = ${table}::regclass and contype = 'f'`
  for (const { name, of } of foreign) await sql.unsafe(`alter table ${of} drop constraint ${name}`)
  for (const { name } of own) await sql.unsafe(`alter table ${table} drop constraint ${name}`)
  for (const { name, kind } of indexes)
    await sql.unsafe(kind === null ? `drop index ${name}` : `alter table ${table} drop constraint ${name}`)
  for (let from = 1; from <= rows; from += CHUNK)
    await sql.unsafe(insert, [from, Math.min(rows, from + CHUNK - 1), now])
  for (const { name, definition, kind, method } of indexes) {
    if (kind === 'x') {
      await sql.unsafe(`alter table ${table} add constraint ${name} ${definition}`)
      continue
    }
    const [, before = definition, where = ''] = /^(.*?)( WHERE .*)?$/.exec(definition) ?? []
    await sql.unsafe(`${before}${method === 'btree' ? ' with (fillfactor = 75)' : ''}${where}`)
    if (kind !== null)
      await sql.unsafe(
        `alter table ${table} add constraint ${name} ${kind === 'p' ? 'primary key' : 'unique'} using index ${name}`
      )
  }
  for (const { name, definition } of own) await sql.unsafe(`alter table ${table} add constraint ${name} ${definition}`)
  for (const { name, of, definition } of foreign)
    await sql.unsafe(`alter table ${of} add constraint ${name} ${definition}`)
  await sql.unsafe(`vacuum analyze ${table}`)
}
