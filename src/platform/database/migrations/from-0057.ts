import type { Migration } from '../migrations.ts'

/**
 * Traffic by minute, with sums of longer periods. The empty route is the total. `traffic_processes` records each
 * process's last write, so that a repetition after a lost answer counts once.
 *
 * `buckets` are latency buckets (platform/telemetry/latency.ts) and `counts` their counts. A release with other bounds
 * must delete these rows.
 */
const traffic: Migration = {
  name: '0057-traffic',
  async up(sql) {
    // A month of minutes is most of the data: narrow columns. Sums of a day may be larger.
    for (const [table, count, grain, key] of [
      ['traffic_minutes', 'integer', '', 'at, route'],
      ['traffic_sums', 'bigint', "grain text not null check (grain in ('quarter', 'hour', 'day')),", 'grain, route, at']
    ] as const)
      await sql.unsafe(`
        create table ${table} (
          ${grain}
          at timestamptz not null,
          sats bigint not null,
          requests ${count} not null,
          asked ${count} not null,
          paid_requests ${count} not null,
          sales ${count} not null,
          client_errors ${count} not null,
          server_errors ${count} not null,
          upstream_failures ${count} not null,
          unfinished ${count} not null,
          route text not null,
          buckets smallint[] not null,
          counts ${count}[] not null,
          primary key (${key})
        )`)
    await sql`create index traffic_minutes_of_all on traffic_minutes (at) where route = ''`
    await sql`
      create table traffic_processes (
        id text primary key,
        pid integer not null,
        host text not null,
        generation integer not null,
        started_at timestamptz not null,
        seen_at timestamptz not null,
        written bigint not null,
        lost_minutes integer not null
      )`
    await sql`
      create table route_faults (
        route text not null,
        status smallint not null,
        message text not null,
        times bigint not null,
        first_at timestamptz not null,
        last_at timestamptz not null,
        correlation_id text not null,
        primary key (route, status, message)
      )`
    await sql`create index route_faults_newest on route_faults (route, last_at desc)`
  }
}

/** Passkeys, pending ceremonies, and the passkey of each session. Deleting a passkey ends its sessions. */
const passkeys: Migration = {
  name: '0060-passkeys',
  async up(sql) {
    // The authenticators' user handle: reveals no address, and is shared by all passkeys of a person.
    await sql`alter table people add column handle uuid not null default gen_random_uuid()`
    await sql`
      create table passkeys (
        id text primary key,
        person_id integer not null references people (id),
        credential_id text not null unique,
        public_key bytea not null,
        counter bigint not null,
        transports text[] not null,
        is_synced boolean not null,
        name text not null,
        created_at timestamptz not null,
        used_at timestamptz
      )`
    await sql`create index passkeys_of_person on passkeys (person_id)`
    await sql`
      create table passkey_ceremonies (
        digest bytea primary key check (octet_length(digest) = 32),
        person_id integer references people (id),
        expires_at timestamptz not null
      )`
    await sql`create index passkey_ceremonies_end on passkey_ceremonies (expires_at)`
    await sql`alter table sign_in_sessions add column passkey_id text references passkeys (id) on delete cascade`
    await sql`create index sign_in_sessions_of_passkey on sign_in_sessions (passkey_id) where passkey_id is not null`
  }
}

/** By hour and by day, written and read like `traffic_sums`. The moment has its own index for deletion by age. */
const proxyTraffic: Migration = {
  name: '0061-proxy-traffic',
  async up(sql) {
    await sql`
      create table proxy_traffic (
        at timestamptz not null,
        requests bigint not null,
        asked bigint not null,
        paid_requests bigint not null,
        client_errors bigint not null,
        server_errors bigint not null,
        upstream_failures bigint not null,
        unfinished bigint not null,
        grain text not null check (grain in ('hour', 'day')),
        proxy_id text not null,
        buckets smallint[] not null,
        counts bigint[] not null,
        primary key (proxy_id, grain, at)
      )`
    await sql`create index proxy_traffic_by_age on proxy_traffic (at)`
  }
}

/**
 * One row per write of a slice instead of one per request, since a row costs as much as serving one: the first entry is
 * in the columns, the others in `more`. Earlier gateways write and read rows with one entry.
 */
const entriesTogether: Migration = {
  name: '0062-entries-together',
  async up(sql) {
    await sql`alter table balance_entries add column more text`
  }
}

/**
 * `balance_entries.more` by column: half as long, and uncompressed, since random ids do not compress. `after` is in
 * milliseconds.
 */
const entriesByColumn: Migration = {
  name: '0063-entries-by-column',
  async up(sql) {
    await sql`alter table balance_entries alter column more set storage external`
    await sql`
      update balance_entries set more = (
        select jsonb_build_object(
          'after', jsonb_agg((entry->>0)::numeric - floor(extract(epoch from made_at) * 1000)),
          'request', jsonb_agg(entry->1), 'model', jsonb_agg(entry->2), 'input', jsonb_agg(entry->3),
          'output', jsonb_agg(entry->4), 'msat', jsonb_agg(entry->5), 'unpaid', jsonb_agg(entry->6),
          'basis', jsonb_agg(entry->7))::text
        from jsonb_array_elements(more::jsonb) as entry)
      where more is not null`
  }
}

/**
 * Migration 0048 analyzes `challenges` while almost empty. The planner then assumes one page and prefers a full scan:
 * some thousand challenges later each 402 scanned all. For a table never analyzed it assumes ten pages, enough to
 * choose an index.
 */
const unknownSize: Migration = {
  name: '0067-unknown-size',
  async up(sql) {
    await sql`
      do $$ begin
        if exists (select from challenges) then return; end if;
        lock table challenges in access exclusive mode;
        if exists (select from challenges) then return; end if;
        -- Any change for which the table is written anew. Not TRUNCATE: where the table was made by the same transaction
        -- the planner still knows what it knew.
        alter table challenges alter column verifications type integer using verifications + 0;
      end $$`
  }
}

/**
 * The indexes of sales repeated each payment hash twice as a tiebreaker. Writing them was an eighth of a redemption's
 * cost in PostgreSQL, a sixth of a claim's. Lists sort ties.
 */
const salesByTime: Migration = {
  name: '0068-sales-by-time',
  async up(sql) {
    await sql`
      create index challenges_sold_at on challenges (least(paid_at, settled_at))
      where least(paid_at, settled_at) is not null`
    await sql`
      create index challenges_sold_at_of_merchant on challenges (merchant_id, least(paid_at, settled_at))
      where least(paid_at, settled_at) is not null`
    await sql`drop index challenges_sales`
    await sql`drop index challenges_sales_of_merchant`
  }
}

/** A refund certainly not sent has no status and a `refund_check_at`, the earliest next attempt. */
const sessionRetries: Migration = {
  name: '0070-session-retries',
  async up(sql) {
    await sql`alter table sessions add column refund_refusals integer not null default 0`
  }
}

/**
 * When an endpoint was last quick, and last slow or silent, by its group of jobs: the merchant's id for the first
 * endpoint, else the endpoint's.
 */
const webhookPaces: Migration = {
  name: '0076-webhook-paces',
  async up(sql) {
    await sql`create table webhook_paces (endpoint text primary key, quick_at timestamptz, slow_at timestamptz)`
  }
}

/** Whether saving a provider key selected the account's provider; deleting the key then reverts the choice. */
const choiceByKey: Migration = {
  name: '0077-choice-by-key',
  async up(sql) {
    await sql`alter table merchants add column choice_by_key boolean not null default false`
  }
}

const providerStreams: Migration = {
  name: '0078-provider-streams',
  async up(sql) {
    await sql`
      create table provider_streams (
        seat text not null, account text not null, holder text not null, until timestamptz not null,
        primary key (seat, account))`
  }
}

/** A value sealed with the master secret, so that a start with another secret is refused (`master-check.ts`). */
const masterCheck: Migration = {
  name: '0079-master-check',
  async up(sql) {
    await sql`create table master_check (id integer primary key check (id = 1), sealed text not null)`
  }
}

/** Lets the audit log hold failed sign-ins, whose actor is unknown. Not validated: that would scan the whole log. */
const failedSignIns: Migration = {
  name: '0084-failed-sign-ins',
  async up(sql) {
    await sql`
      alter table audit drop constraint audit_actor_kind_check, add constraint audit_actor_kind_check
        check (actor_kind in ('key', 'member', 'admin', 'operator', 'unknown')) not valid`
  }
}

/**
 * Gateways of the version before continue to use pg-boss's schema `boltgate_jobs`, so `platform/jobs/former-jobs.ts`
 * moves its jobs, not this migration.
 */
const jobs: Migration = {
  name: '0085-jobs',
  async up(sql) {
    await sql`
      create table jobs (
        id uuid primary key default gen_random_uuid(),
        queue text not null,
        state text not null default 'waiting' check (state in ('waiting', 'running', 'done', 'failed')),
        data jsonb not null default '{}',
        group_id text,
        pace smallint not null default 0,
        key text,
        runs integer not null default 0,
        reason text,
        created_at timestamptz not null default now(),
        due_at timestamptz not null default now(),
        next_at timestamptz not null default now(),
        started_at timestamptz,
        ended_at timestamptz
      )`
    await sql`create unique index jobs_keys on jobs (queue, key) where key is not null`
    await sql`create index jobs_claims on jobs (queue, pace desc, created_at, next_at) where ended_at is null`
    await sql`create index jobs_next on jobs (next_at) where ended_at is null`
    await sql`create index jobs_groups on jobs (queue, group_id) where state = 'running' and group_id is not null`
  }
}

/** `amount` is null where the payer chooses it. */
const paymentLinks: Migration = {
  name: '0086-payment-links',
  async up(sql) {
    await sql`
      create table payment_links (
        link_id text primary key,
        merchant_id integer not null,
        amount text,
        currency text not null,
        description text,
        created_at timestamptz not null
      )`
    await sql`create index payment_links_of_merchant on payment_links (merchant_id, created_at desc)`
  }
}

const refundAddresses: Migration = {
  name: '0087-refund-addresses',
  sql: 'alter table refunds add column lightning_address text'
}

const listedProxies: Migration = {
  name: '0088-listed-proxies',
  sql: "alter table proxies add column is_listed boolean not null default false, add column examples jsonb not null default '[]'"
}

/** Unlogged: a crash may lose the log, and nothing else waits for its writes. */
const proxyRequests: Migration = {
  name: '0089-proxy-requests',
  async up(sql) {
    await sql`
      create unlogged table proxy_requests (
        id bigint generated always as identity,
        at timestamptz not null,
        latency_ms integer not null,
        status smallint not null,
        is_paid boolean not null,
        proxy_id text not null,
        method text not null,
        path text not null,
        correlation_id text not null,
        primary key (proxy_id, id)
      )`
    await sql`create index proxy_requests_age on proxy_requests using brin (at)`
  }
}

const noticesOff: Migration = {
  name: '0090-notices-off',
  sql: 'create table notices_off (merchant_id integer not null, name text not null, primary key (merchant_id, name))'
}

const testSessions: Migration = {
  name: '0091-test-sessions',
  sql: 'alter table sign_in_sessions add column is_test boolean not null default false'
}

const accountLimits: Migration = {
  name: '0092-account-limits',
  sql: 'alter table merchants add column caps jsonb'
}

/** Lets x402 lease and spend a challenge. Not validated: that would scan them all. */
const x402Scheme: Migration = {
  name: '0093-x402-scheme',
  async up(sql) {
    await sql`
      alter table challenges drop constraint challenges_states, add constraint challenges_states check (
        state = 'unspent'
        or coalesce(scheme, '') in ('payment', 'x402')
          and (state = 'spent' or state = 'leased' and num_nulls(lease_id, lease_gateway, lease_until) = 0)
      ) not valid`
  }
}

const receiptNote: Migration = {
  name: '0094-receipt-note',
  sql: 'alter table merchants add column receipt_note text'
}

export const from0057: readonly Migration[] = [
  traffic,
  passkeys,
  proxyTraffic,
  entriesTogether,
  entriesByColumn,
  unknownSize,
  salesByTime,
  sessionRetries,
  webhookPaces,
  choiceByKey,
  providerStreams,
  masterCheck,
  failedSignIns,
  jobs,
  paymentLinks,
  refundAddresses,
  listedProxies,
  proxyRequests,
  noticesOff,
  testSessions,
  accountLimits,
  x402Scheme,
  receiptNote
]
