import { openDatabase } from './src/database/database.ts'
import { systemClock } from './src/system/clock.ts'
import { silentLog } from './src/telemetry/log.ts'
import { makeImage } from './src/image-making.ts'
import { readFileSync } from 'node:fs'
const image = await makeImage()
import { PgliteServer } from './src/database/pglite/pglite.ts'
let pid = 0
const start = PgliteServer.start
PgliteServer.start = async (...a) => { const s = await start.apply(PgliteServer, a); pid = s.pid ?? 0; return s }
const cpuOf = () => { const f = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' '); return (Number(f[11]) + Number(f[12])) * 10 }
const db = await openDatabase({ url: 'pglite:memory', dataDir: '/tmp', log: silentLog, clock: systemClock, image })
console.log('start cpu', cpuOf())
const m = async (name: string, n: number, run: () => Promise<unknown>) => { const a = cpuOf(), t = performance.now(); let r; for (let i = 0; i < n; i++) r = await run(); console.log(name, 'cpu per', (cpuOf() - a) / n, 'wall', (performance.now() - t) / n); return r as any }
const tables = (await db.sql`select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('public', 'boltgate_jobs') and tablename not in ('schema_migrations', 'version')`).map(r => r['name'])
console.log(tables.length)
for (const t of await db.sql`select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('public', 'boltgate_jobs')`) { const [{ n }] = await db.sql.unsafe(`select count(*)::int as n from ${t['name']}`) as any; if (n > 0) console.log('rows in', t['name'], n) }
await m('truncate all', 5, () => db.sql.unsafe(`truncate ${tables.join(', ')} restart identity cascade`))
await m('delete all', 5, () => db.sql.unsafe(`set session_replication_role = replica; ${tables.map((t: string) => `delete from ${t}`).join(';')}; reset session_replication_role`))
await m('madeOf', 5, () => db.sql`
    with kept as (select oid from pg_namespace where nspname in ('public', 'boltgate_jobs'))
    select (select string_agg(format('%s %s %s', oid, relname, relnatts), ',' order by oid) from pg_class where relnamespace in (table kept)) as tables,
      (select string_agg(oid::text, ',' order by oid) from pg_constraint where connamespace in (table kept)) as constraints,
      (select string_agg(format('%s %s', oid, tgenabled), ',' order by oid) from pg_trigger) as triggers,
      (select string_agg(oid::text, ',' order by oid) from pg_proc where pronamespace in (table kept)) as functions`)
await m('discard all', 5, () => db.sql.unsafe(`discard all`))
console.log(await db.sql`select schemaname, sequencename, last_value from pg_sequences where last_value is not null`)
console.log((await db.sql`select count(*)::int as n from pg_sequences`)[0])
await m('analyze', 2, () => db.sql.unsafe(`analyze`))
await db.close()
