// `npm test`. With files, tap runs those, each in a process of its own. Without, all of them, those of a folder in one
// process (one-process.mjs); `--servers` runs those alone that do something else on PostgreSQL and Redis, there alone,
// `--also-servers` both. `--group=NAME` is one of the processes, `--shard=2/4` the second quarter of them. Other options
// are tap's.
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, writeFileSync } from 'node:fs'
import { needsServer } from './suites.mjs'

const given = process.argv.slice(2)
const folder = 'node_modules/.cache/boltgate/groups'
/** Seconds of the files in one process, about. More processes cost more starts; fewer keep the last one waiting. */
const most = 80

/**
 * Seconds of the files that take five or more: of computing in the file's process and all it starts, or of waiting for
 * leases and attempts where that is longer.
 */
const seconds = {
  'app/cli/commands': 5,
  'app/cli/npm-start': 6,
  'app/cli/process': 25,
  'app/cli/without-file': 9,
  'app/commands/init': 11,
  'app/composition/suite': 11,
  'contract/authorisation': 19,
  'contract/malformed-bodies': 32,
  'contract/price-grace': 5,
  'engine/upstream/slow-clients': 11,
  'faults/client-gone': 6,
  'faults/fail-points': 100,
  'faults/kill-campaign': 8,
  'faults/killed': 15,
  'faults/redemption': 7,
  'faults/servers-killed': 20,
  'faults/session-kill-campaign': 20,
  'faults/standing-database': 10,
  'faults/webhooks': 20,
  'interop/mppx': 8,
  'journeys/lnd': 10,
  'journeys/nodes': 5,
  'journeys/opennode': 15,
  'journeys/strike': 15,
  'lightning/providers/contract/nodes': 5,
  'lightning/providers/contract/wallets': 13,
  'payments/proxies/proxies': 5,
  'payments/webhooks/jobs': 10,
  'platform/database/database': 9,
  'platform/database/pglite/pglite-upkeep': 5,
  'security/forged-l402': 5,
  'security/forged-payment': 7,
  'security/hostile-heads': 16,
  'security/hostile-pages-chromium-browser': 15,
  'security/hostile-pages-firefox-browser': 53,
  'security/revocation': 7,
  'security/secrets': 5,
  'selling/balances/gateway': 12,
  'selling/balances/usage-forms': 6,
  'selling/paywall/paywall': 7,
  'selling/rpc/outcomes': 5,
  'selling/sessions/closing': 5,
  'selling/sessions/gateway': 5,
  'selling/sessions/model': 6,
  'shop/page-browser': 14,
  'web/console/browser': 50,
  'web/console/hostile-lists-browser': 5,
  'web/console/journeys-browser': 12,
  'web/console/limits': 5,
  'web/pay/browser': 12,
  'web/pay/paywall-browser': 6,
  'web/sign-in/browser': 6,
  'web/sign-in/passkeys': 8
}

const weight = file => seconds[file.slice('test/'.length, -'.test.ts'.length)] ?? 0.8

function sumOf(files) {
  return files.reduce((sum, file) => sum + weight(file), 0)
}

/**
 * Files of a folder in parts of about equal weight, those of small folders together. The same files are always together
 * and in the same order: what one leaves behind is seen on every machine.
 */
function grouped(files) {
  const folder = file => /^test\/(.+?)\//.exec(file)?.[1] ?? 'others'
  const folders = Map.groupBy(files, folder)
  const subjects = Map.groupBy(files, file => (sumOf(folders.get(folder(file))) < 8 ? 'others' : folder(file)))
  return [...subjects].flatMap(([subject, all]) => {
    const count = Math.ceil(sumOf(all) / most)
    const parts = Array.from({ length: count }, () => [])
    for (const file of all.toSorted((one, other) => weight(other) - weight(one)))
      parts.reduce((least, part) => (sumOf(part) < sumOf(least) ? part : least)).push(file)
    return parts.map((part, at) => ({ name: count === 1 ? subject : `${subject}-${at + 1}`, files: part.sort() }))
  })
}

/** Groups on embedded parts, on servers, or both, the largest first: no processor waits for one of them at the end. */
function allGroups() {
  const all = globSync('test/**/*.test.ts', { exclude: ['**/node_modules/**'] }).sort()
  const embedded = given.includes('--servers') ? [] : grouped(all)
  const onServers = given.some(each => /^--(?:also-)?servers$/.test(each))
    ? grouped(all.filter(needsServer)).map(({ name, files }) => ({ name: `servers-${name}`, files }))
    : []
  return [...embedded, ...onServers].toSorted((one, other) => sumOf(other.files) - sumOf(one.files))
}

/** The variables of a group: on embedded parts it finds no server, on servers its files skip their embedded runs. */
function environmentOf(name) {
  return name.startsWith('servers-')
    ? "process.env.TEST_SERVERS_ONLY = 'yes'"
    : 'delete process.env.TEST_DATABASE_URL\ndelete process.env.TEST_REDIS_URL'
}

/** Writes what tap runs for each group, and returns the paths. */
function written(groups) {
  mkdirSync(folder, { recursive: true })
  // tap takes them by their names.
  return groups.map(({ name, files }, at) => {
    const path = `${folder}/${String(at + 1).padStart(2, '0')}-${name}.mjs`
    writeFileSync(
      path,
      `import { inOneProcess } from '../../../../.ci/one-process.mjs'\n${environmentOf(name)}\nawait inOneProcess(${JSON.stringify(files, null, 2)})\n`
    )
    return path
  })
}

const isFile = each => !each.startsWith('-')
const isOurs = each => /^--(?:(?:also-)?servers|(?:group|shard)=.*)$/.test(each)

/** Arguments of tap for a run of all groups, or of the one that is asked for. */
function ofGroups() {
  const groups = allGroups()
  const only = given.find(each => each.startsWith('--group='))?.slice('--group='.length)
  const [, shard = 1, shards = 1] = /--shard=(\d+)\/(\d+)/.exec(given.join(' ')) ?? []
  // Dealt out by weight, so that no shard gets all large ones.
  const chosen = groups.filter(({ name }, at) =>
    only === undefined ? at % Number(shards) === Number(shard) - 1 : name === only
  )
  if (chosen.length === 0)
    throw new Error(`no group is called ${only}; there are ${groups.map(({ name }) => name).join(', ')}`)
  // A group has a time for each of its files; this one ends a process that is too busy to look at its clock.
  return ['--timeout=1800', ...given.filter(each => !isOurs(each)), ...written(chosen)]
}

const { status } = spawnSync('node_modules/.bin/tap', given.some(isFile) ? given : ofGroups(), { stdio: 'inherit' })
process.exitCode = status ?? 1
