import type { Migration } from '../migrations.ts'

/**
 * How a proxy answers a classic token that is no longer good: as its route does, as the contract says, or with 402
 * (decision 177).
 */
export const proxyRenewal: Migration = {
  name: '0022-proxy-renewal',
  async up(sql) {
    await sql`alter table proxies add column renewal text not null default 'default' check (renewal in ('default', 'contract', '402'))`
  }
}
