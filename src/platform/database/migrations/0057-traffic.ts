import type { Migration } from '../migrations.ts'

/**
 * What went through the gateway: by minute, and the sums of longer times, which are written with each
 * minute. The empty route is all of them together. Processes add to the same rows; `traffic_processes` says up to which
 * of its writes each has, so that one whose answer was lost is sent again and counted once.
 *
 * `buckets` are numbers of parts of latencies (platform/telemetry/latency.ts) and `counts` what fell into each, so that
 * percentiles of any time, route and number of processes are those of the sums. A release with other bounds has to
 * delete what was counted with these.
 */
export const traffic: Migration = {
  name: '0057-traffic',
  async up(sql) {
    // A month of minutes is the most of it: narrow columns. Of sums a day may hold more.
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
