import type { Migration } from '../migrations.ts'

/**
 * What requests of each merchant's proxy came to, by hour and by day, written and read like `traffic_sums`. The moment has
 * an index of its own for what is deleted by age; all rows of an hour have the same.
 */
export const proxyTraffic: Migration = {
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
