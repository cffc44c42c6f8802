// `npm test`. With files, tap runs those, each in a process of its own. Without, all of them, those of a folder in one
// process (one-process.mjs); `--servers` those alone that do something else on PostgreSQL and Redis, `--group=NAME` one
// of the processes. Other options are tap's.
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { needsServer } from './suites.mjs'

const given = process.argv.slice(2)
const onServers = given.includes('--servers')
const folder = `node_modules/.cache/boltgate/groups${onServers ? '-on-servers' : ''}`
/**
 * Seconds of the files in one process, about. With more of them less is paid for starts, but the last process to end
 * keeps others waiting.
 */
const most = 36

/** About how many seconds a file takes on two processors. */
function weight(file) {
  if (file.startsWith('test/faults/')) return 15
  if (file.endsWith('browser.test.ts')) return 12
  return /\b(spawnGateway|killableGateway|spawn|execFile)\b/.test(readFileSync(file, 'utf8')) ? 6 : 1.5
}

function sumOf(files) {
  return files.reduce((sum, file) => sum + weight(file), 0)
}

/** The same files are always together and in the same order: what one leaves behind is seen on every machine. */
function grouped(files) {
  const subjects = Map.groupBy(files, file => /^test\/(.+?)\//.exec(file)?.[1] ?? 'others')
  return [...subjects].flatMap(([subject, all]) => {
    const parts = Math.ceil(sumOf(all) / most)
    return Array.from({ length: parts }, (_, part) => ({
      name: parts === 1 ? subject : `${subject}-${part + 1}`,
      files: all.filter((_, at) => at % parts === part)
    }))
  })
}

/** Writes what tap runs for each group, and answers the paths. */
function written(groups) {
  mkdirSync(folder, { recursive: true })
  // tap takes them by their names. The large ones come first, so that no processor waits for one of them at the end.
  const inOrder = groups.toSorted((one, other) => sumOf(other.files) - sumOf(one.files))
  return inOrder.map(({ name, files }, at) => {
    const path = `${folder}/${String(at + 1).padStart(2, '0')}-${name}.mjs`
    writeFileSync(
      path,
      `import { inOneProcess } from '../../../../.ci/one-process.mjs'\nawait inOneProcess(${JSON.stringify(files, null, 2)})\n`
    )
    return path
  })
}

const isFile = each => !each.startsWith('-')
const isOurs = each => each === '--servers' || each.startsWith('--group=')

/** Arguments of tap for a run of all groups, or of the one that is asked for. */
function ofGroups() {
  const all = globSync('test/**/*.test.ts', { exclude: ['**/node_modules/**'] }).sort()
  const groups = grouped(onServers ? all.filter(needsServer) : all)
  const only = given.find(each => each.startsWith('--group='))?.slice('--group='.length)
  const chosen = groups.filter(({ name }) => only === undefined || name === only)
  if (chosen.length === 0)
    throw new Error(`no group is called ${only}; there are ${groups.map(({ name }) => name).join(', ')}`)
  // A group has a time for each of its files; this one ends a process that is too busy to look at its clock.
  return ['--timeout=1800', ...given.filter(each => !isOurs(each)), ...written(chosen)]
}

const { status } = spawnSync('node_modules/.bin/tap', given.some(isFile) ? given : ofGroups(), { stdio: 'inherit' })
process.exitCode = status ?? 1
