import type { Migration } from '../migrations.ts'

/** Two addresses may issue the same invoice: each is checked at its own. */
const lnurlCharges: Migration = {
  name: '0040-lnurl-charges',
  async up(sql) {
    await sql`
      create table lnurl_charges (
        account text not null,
        payment_hash text not null,
        verify text not null,
        expires_at timestamptz not null,
        settled_at timestamptz,
        primary key (account, payment_hash)
      )`
    await sql`create index lnurl_charges_expires_at on lnurl_charges (expires_at)`
  }
}

/** A row per provider of a slot for its poller position and notification registration, by the name in invoices. */
const providersOfASlot: Migration = {
  name: '0041-providers-of-a-slot',
  async up(sql) {
    await sql`alter table provider_polls add column kind text`
    await sql`update provider_polls set kind = state ->> 'kind'`
    await sql`delete from provider_polls where kind is null`
    await sql`alter table provider_polls alter column kind set not null`
    await sql`alter table provider_polls drop constraint provider_polls_pkey`
    await sql`alter table provider_polls add primary key (slot, kind)`
    await sql`alter table provider_subscriptions drop constraint provider_subscriptions_merchant_id_slot_key`
    await sql`alter table provider_subscriptions add unique nulls not distinct (merchant_id, slot, kind)`
  }
}

/**
 * A challenge is sold when first known to be paid; a payment when its status is written as paid, perhaps later than the
 * provider's time. Payments of earlier versions have only the provider's.
 *
 * `earnings` has the sums of sales before `earnings_until`: per owner (a merchant's id, empty for the gateway, `*` for
 * all) by hour, day and month, for each dimension. None of the indexed columns changes with a spend, a release or a
 * heartbeat, as migration 0016 requires.
 */
const soldRows: Migration = {
  name: '0042-sales',
  async up(sql) {
    await sql`alter table payments add column sold_at timestamptz`
    await sql`
      create index payments_sold on payments (coalesce(sold_at, paid_at)) where coalesce(sold_at, paid_at) is not null`
    await sql`
      create index payments_sold_of_merchant on payments (merchant_id, coalesce(sold_at, paid_at))
      where coalesce(sold_at, paid_at) is not null`
    await sql`
      create index challenges_sales on challenges (least(paid_at, settled_at), payment_hash)
      where least(paid_at, settled_at) is not null`
    await sql`
      create index challenges_sales_of_merchant on challenges (merchant_id, least(paid_at, settled_at), payment_hash)
      where least(paid_at, settled_at) is not null`
    await sql`
      create table earnings (
        owner text not null,
        dimension text not null,
        grain text not null,
        at timestamptz not null,
        key text not null,
        sales bigint not null,
        sats bigint not null,
        primary key (owner, dimension, grain, at, key) include (sales, sats)
      )`
    await sql`create table earnings_until (id boolean primary key default true check (id), at timestamptz not null)`
    await sql`create index payments_newest on payments (created_at, invoice_id)`
  }
}

/**
 * Keys besides an account's first one, which stays in its own row (contract, Authentication). Last uses are in separate
 * rows, since payments lock those of accounts.
 */
const apiKeys: Migration = {
  name: '0043-api-keys',
  async up(sql) {
    await sql`
      create table api_keys (
        key_id text primary key,
        merchant_id integer not null references merchants (id),
        key_digest bytea not null check (octet_length(key_digest) = 32),
        name text not null,
        is_read_only boolean not null,
        created_at timestamptz not null,
        -- null for one that is good until it is removed
        ends_at timestamptz
      )`
    await sql`create index api_keys_of_merchant on api_keys (merchant_id, created_at)`
    await sql`create table api_key_uses (key_id text primary key, used_at timestamptz not null) with (fillfactor = 50)`
  }
}

/**
 * Endpoints besides an account's first one (null). Webhooks keep their endpoint's id after its deletion, so there is no
 * foreign key.
 */
const webhookEndpoints: Migration = {
  name: '0046-webhook-endpoints',
  async up(sql) {
    await sql`
      create table webhook_endpoints (
        id uuid primary key,
        merchant_id integer not null references merchants (id),
        url text not null,
        secret text not null,
        -- null for all, those of later versions too
        events text[],
        is_active boolean not null,
        created_at timestamptz not null
      )`
    await sql`create index webhook_endpoints_of_merchant on webhook_endpoints (merchant_id, created_at, id)`
    await sql`alter table webhook_deliveries add column endpoint_id uuid`
    await sql`create index webhook_deliveries_of_endpoint on webhook_deliveries (endpoint_id, created_at desc, id desc) where endpoint_id is not null`
  }
}

const merchantColour: Migration = {
  name: '0047-merchant-colour',
  async up(sql) {
    await sql`alter table merchants add column colour text`
  }
}

/**
 * Indexes with random keys grow with a table: each new row dirties another page of each of them, written whole to the
 * log once per checkpoint, and read again once memory is full. A hash index stores four bytes instead of up to 64
 * characters: a third of the pages, or less.
 *
 * Payment hashes stay unique by an exclusion constraint, which a hash index supports. Foreign keys cannot reference it,
 * so two are dropped; only the deletion of orders removes their targets, and both slowed each purge. The planner does
 * not consider it unique, so it is given the number of values. That takes effect from the first ANALYZE with a row on,
 * which must not wait until the table is large.
 *
 * Pay tokens are 256 random bits and need no unique index.
 */
const smallIndexes: Migration = {
  name: '0048-small-indexes',
  async up(sql) {
    await sql`alter table producer_keys drop constraint producer_keys_payment_hash_fkey`
    await sql`alter table storefront_orders drop constraint storefront_orders_payment_hash_fkey`
    await sql`drop index producer_keys_of_challenge`
    await sql`
      alter table challenges
        drop constraint challenges_pkey,
        alter column payment_hash set not null,
        alter column payment_hash set (n_distinct = -1),
        add constraint challenges_payment_hash exclude using hash (payment_hash with =)`
    await sql`
      insert into challenges (
        payment_hash, source, service, place, resource, path, method, query, amount_sats, binding, macaroon, token_id,
        invoice, network, charge_id, provider_slot, provider_kind, client_key, description, created_at, expires_at,
        token_expires_at)
      values ('', 'none', '', '', '', '', '', '', 1, '', '', '', '', '', '', '', '', '', '', now(), now(), now())`
    await sql`analyze challenges (payment_hash)`
    await sql`delete from challenges where payment_hash = ''`
    await sql`create index challenges_by_charge on challenges using hash (charge_id)`
    await sql`drop index challenges_of_charge`
    await sql`
      alter table payments
        drop constraint payments_payment_hash_key,
        drop constraint payments_pay_token_key,
        add constraint payments_payment_hash exclude using hash (payment_hash with =)`
    await sql`create index payments_by_pay_token on payments using hash (pay_token)`
    await sql`create index payments_by_charge on payments using hash (charge_id)`
    await sql`drop index payments_of_charge`
  }
}

/**
 * People, their roles in accounts, and sessions (decision 322). Ends existing sessions, which had no person.
 *
 * A trigger makes the person of each account's address an owner. A membership's end also ends its sessions and links.
 */
const members: Migration = {
  name: '0050-members',
  async up(sql) {
    await sql`
      create table people (
        id integer generated by default as identity primary key,
        email text not null unique check (email = lower(email)),
        created_at timestamptz not null
      )`
    await sql`
      create table members (
        merchant_id integer not null references merchants (id) on delete cascade,
        person_id integer not null references people (id),
        role text not null check (role in ('viewer', 'editor', 'owner')),
        created_at timestamptz not null,
        joined_at timestamptz,
        primary key (merchant_id, person_id)
      )`
    await sql`create index members_of_person on members (person_id)`
    await sql`insert into people (email, created_at) select email, created_at from merchants`
    await sql`
      insert into members (merchant_id, person_id, role, created_at)
      select m.id, p.id, 'owner', m.created_at from merchants m join people p on p.email = m.email`
    await sql`
      create function own_account () returns trigger language plpgsql as $$
      begin
        if tg_op = 'UPDATE' then
          delete from members where merchant_id = new.id and person_id = (select id from people where email = old.email);
        end if;
        insert into people (email, created_at) values (new.email, new.updated_at) on conflict (email) do nothing;
        insert into members (merchant_id, person_id, role, created_at)
        select new.id, id, 'owner', new.updated_at from people where email = new.email
        on conflict (merchant_id, person_id) do update set role = 'owner';
        return null;
      end $$`
    await sql`create trigger merchants_owned after insert on merchants for each row execute function own_account()`
    await sql`
      create trigger merchants_owned_anew after update of email on merchants
      for each row when (old.email <> new.email) execute function own_account()`
    await sql`drop table sign_in_links`
    await sql`drop table sign_in_sessions`
    await sql`
      create table sign_in_links (
        digest bytea primary key check (octet_length(digest) = 32),
        request_id text not null unique,
        person_id integer not null references people (id),
        merchant_id integer,
        created_at timestamptz not null,
        expires_at timestamptz not null,
        used_at timestamptz,
        foreign key (merchant_id, person_id) references members (merchant_id, person_id) on delete cascade
      )`
    await sql`create index sign_in_links_of_person on sign_in_links (person_id, created_at)`
    await sql`create index sign_in_links_of_merchant on sign_in_links (merchant_id)`
    await sql`
      create table sign_in_sessions (
        id text primary key,
        digest bytea not null unique check (octet_length(digest) = 32),
        person_id integer references people (id),
        merchant_id integer references merchants (id) on delete cascade,
        key_id text,
        admin_mark text,
        browser text not null,
        created_at timestamptz not null,
        seen_at timestamptz not null,
        expires_at timestamptz not null,
        foreign key (merchant_id, person_id) references members (merchant_id, person_id) on delete cascade,
        check (num_nonnulls(person_id, key_id, admin_mark) = 1),
        check (key_id is null or merchant_id is not null),
        check (admin_mark is null or merchant_id is null)
      )`
    await sql`create index sign_in_sessions_of_merchant on sign_in_sessions (merchant_id)`
    await sql`create index sign_in_sessions_of_person on sign_in_sessions (person_id)`
    await sql`create index sign_in_sessions_end on sign_in_sessions (expires_at)`
  }
}

/**
 * A row is written before the change and gets its status afterwards, so that no change lacks one; it outlives its
 * account.
 */
const audit: Migration = {
  name: '0051-audit',
  async up(sql) {
    await sql`
      create table audit (
        id text primary key,
        at timestamptz not null,
        merchant_id integer,
        actor_kind text not null check (actor_kind in ('key', 'member', 'admin', 'operator')),
        actor text not null,
        operation text not null,
        target jsonb not null,
        change jsonb not null,
        status smallint
      )`
    await sql`create index audit_of_merchant on audit (merchant_id, at desc, id desc)`
    await sql`create index audit_by_time on audit (at desc, id desc)`
  }
}

/** Accounts made for a subscription whose owner has not fetched the first API key. */
const firstKeys: Migration = {
  name: '0052-first-keys',
  async up(sql) {
    await sql`
      create table first_keys (
        merchant_id integer primary key references merchants (id) on delete cascade,
        key_id text not null
      )`
  }
}

/**
 * When a session's refund was last requested: one unknown to the provider is resent where that cannot pay twice. Null
 * in older rows, and from gateways without the column.
 */
const refundsAskedAgain: Migration = {
  name: '0053-refunds-asked-again',
  async up(sql) {
    await sql`alter table sessions add column refund_asked_at timestamptz`
  }
}

const proxyPrices: Migration = {
  name: '0054-proxy-prices',
  async up(sql) {
    await sql`alter table proxies add column default_price jsonb`
  }
}

/**
 * A statement that reserves an order id may wait for a reservation that is dropped as its payment is written, and would
 * not see the payment. A trigger checks again after the insert.
 */
const reservedOrders: Migration = {
  name: '0055-reserved-orders',
  async up(sql) {
    await sql`
      create function refuse_used_order () returns trigger language plpgsql as $$
      begin
        if exists (select from payments where merchant_id = new.merchant_id and order_id = new.order_id) then
          raise unique_violation using
            constraint = 'payments_merchant_id_order_id_key', message = 'the order id has a payment';
        end if;
        return null;
      end $$`
    await sql`
      create trigger payment_reservations_free after insert on payment_reservations
      for each row execute function refuse_used_order()`
  }
}

export const from0040: readonly Migration[] = [
  lnurlCharges,
  providersOfASlot,
  soldRows,
  apiKeys,
  webhookEndpoints,
  merchantColour,
  smallIndexes,
  members,
  audit,
  firstKeys,
  refundsAskedAgain,
  proxyPrices,
  reservedOrders
]
