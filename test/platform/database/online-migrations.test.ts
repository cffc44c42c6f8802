import t from 'tap'
import { migrations } from '../../../src/platform/database/migrations/list.ts'

/** The last migration that was released before this rule. */
const BEFORE = '0068-sales-by-time'

/** Migrations that may break a rule, each with the reason why their table is small or unused. */
const EXCEPTIONS: Readonly<Record<string, string>> = {}

const text = (migration: (typeof migrations)[number]) =>
  'sql' in migration ? migration.sql : (migration.up.toString().match(/`(?:[^`\\]|\\.)*`/gs) ?? []).join(';\n')

/** What would lock out running gateways for as long as a large table takes, or break the version before. */
const FORBIDDEN: ReadonlyArray<readonly [what: string, pattern: RegExp, table?: number]> = [
  ['an index on a table in use locks out writes', /create\s+(?:unique\s+)?index\s+\S+\s+on\s+(\w+)/g, 1],
  [
    'a change of type rewrites the table',
    /alter\s+table\s+(\w+)\s[^;]*alter\s+(?:column\s+)?\w+\s+(?:set\s+data\s+)?type\b/g,
    1
  ],
  ['set not null reads the whole table under an exclusive lock', /alter\s+table\s+(\w+)\s[^;]*set\s+not\s+null/g, 1],
  [
    'a constraint is checked under a lock unless `not valid`',
    /alter\s+table\s+(\w+)\s[^;]*add\s+(?:constraint|check|primary|unique|foreign|exclude)(?![^;]*not\s+valid)/g,
    1
  ],
  [
    'a new column with a computed value rewrites the table',
    /alter\s+table\s+(\w+)\s+add\s[^;]*(?:generated|default\s+[\w.]+\s*\()/g,
    1
  ],
  ['a backfill in one statement locks every row', /\b(?:update|delete\s+from)\s+(\w+)\s/g, 1],
  [
    'the version before still uses what is renamed or dropped',
    /alter\s+table\s+(\w+)\s[^;]*(?:rename|drop\s+column|drop\s+(?!constraint|default|not))/g,
    1
  ],
  ['the table is locked', /\b(?:lock\s+table|vacuum\s+full|cluster|reindex|truncate|drop\s+table)\b/g]
]

function faultsOf(statements: string) {
  const text = statements.replaceAll(/--.*$/gm, '').toLowerCase()
  const own = new Set(
    [...text.matchAll(/create\s+(?:unlogged\s+)?table\s+(?:if\s+not\s+exists\s+)?(\w+)/g)].map(([, table]) => table)
  )
  const faults = FORBIDDEN.flatMap(([what, pattern, table]) =>
    [...text.matchAll(pattern)].some(match => table === undefined || !own.has(match[table])) ? [what] : []
  )
  const altered = new Set([...text.matchAll(/alter\s+table\s+(\w+)/g)].map(([, table]) => table))
  return [...altered].filter(table => !own.has(table)).length > 1
    ? [...faults, 'the first table stays locked while others are waited for']
    : faults
}

t.test('migrations: none since the rule keeps running gateways waiting on a large table', async t => {
  for (const migration of migrations) {
    if (migration.name <= BEFORE || migration.name in EXCEPTIONS) continue
    t.same(faultsOf(text(migration)), [], migration.name)
  }
})

t.test('migrations: the rule knows the forbidden kinds, and lets pass what takes no time', async t => {
  for (const statement of [
    'create index a on challenges (b)',
    'CREATE UNIQUE INDEX a ON challenges (b)',
    'alter table challenges alter column b type bigint',
    'alter table challenges alter b set data type bigint',
    'alter table challenges alter column b set not null',
    'alter table challenges add constraint a check (b > 0)',
    'alter table challenges add primary key (b)',
    'alter table challenges add column b uuid default gen_random_uuid()',
    'alter table challenges add b integer generated always as (c + 1) stored',
    'update challenges set b = 1',
    'delete from challenges where b = 1',
    'alter table challenges rename to d',
    'alter table challenges drop column b',
    'create table x (a int); drop table challenges',
    'lock table challenges',
    'alter table challenges add column b text; alter table payments add column b text'
  ])
    t.equal(faultsOf(statement).length, 1, statement)
  for (const statement of [
    'create table x (a int primary key, b text not null default random()); create index x_b on x (b); update x set a = 1',
    'alter table challenges add column b text',
    "alter table challenges add column b text not null default 'a'",
    'alter table challenges add constraint a check (b > 0) not valid',
    'alter table challenges drop constraint a',
    'alter table challenges alter column b drop not null'
  ])
    t.same(faultsOf(statement), [], statement)
})
