import type { Migration } from '../migrations.ts'
import { from0001 } from './from-0001.ts'
import { from0009 } from './from-0009.ts'
import { from0017 } from './from-0017.ts'
import { from0040 } from './from-0040.ts'
import { from0057 } from './from-0057.ts'

/** Cost of requests at a price list's prices, and its sums by day and model up to an entry. */
const margins: Migration = {
  name: '0095-margins',
  async up(sql) {
    await sql`alter table balance_entries add column cost_msat bigint`
    await sql`
      create table model_sums (
        at timestamptz not null, model text not null, requests bigint not null, msat bigint not null, cost_msat bigint not null,
        primary key (at, model))`
    await sql`
      create table model_sums_until (
        id integer primary key check (id = 1), entry bigint not null, seen bigint not null, seen_at timestamptz not null)`
    await sql`
      insert into model_sums_until select 1, coalesce(max(id), 0), coalesce(max(id), 0), to_timestamp(0) from balance_entries`
  }
}

const proxyApis: Migration = {
  name: '0096-proxy-apis',
  sql: 'alter table proxies add column openapi text'
}

/** 402 responses that are no demand. */
const probes: Migration = {
  name: '0097-probes',
  sql: 'alter table traffic_minutes add column probes integer not null default 0'
}
const probeSums: Migration = {
  name: '0098-probe-sums',
  sql: 'alter table traffic_sums add column probes bigint not null default 0'
}

/** In the order in which they run. Imported by name, so that the built package has them too. */
export const migrations: readonly Migration[] = [
  ...from0001,
  ...from0009,
  ...from0017,
  ...from0040,
  ...from0057,
  margins,
  proxyApis,
  probes,
  probeSums
]
