// `npm run mutate -- <file or room>…`: changes the code one expression at a time and reports each change that no test
// notices. Tests are those of the file's room in test/; `--contract` adds the contract's.
//
//   npm run mutate -- src/selling/balances/meter.ts      one file
//   npm run mutate -- src/selling/balances --contract    a room
//   npm run mutate -- src/selling/balances --sample 60   60 random mutants of it, the same for the same --seed
//   npm run mutate -- src/selling/balances --again .mutation/report.txt    those that the last run left
//   npm run mutate -- src/selling/balances --seconds 3   per mutant the quickest tests of each file, three seconds of them
//   npm run mutate -- src/engine/listener/front-door.ts:180-220   some lines of a file
//   npm run mutate -- src/selling/balances/meter.ts --tests test/selling/balances/usage-forms.test.ts
//
// Stryker's instrumenter puts all mutants into the code, behind switches. A warm process (mutate-worker.mjs) runs every
// test once to see which mutants it reaches, and then for each mutant the tests that reach it, until one fails.
// Exits 1 when fewer than 90% of the mutants are killed (`--least N` asks for another share).
import { fork, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, globSync, mkdirSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { dirname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

const folder = 'test/mutation'
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    again: { type: 'string' },
    contract: { type: 'boolean', default: false },
    least: { type: 'string', default: '90' },
    seconds: { type: 'string', default: 'Infinity' },
    sample: { type: 'string' },
    seed: { type: 'string', default: '1' },
    tests: { type: 'string', multiple: true }
  }
})

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}

if (positionals.length === 0)
  fail('Usage: npm run mutate -- <file or folder of src>… [--tests GLOB] [--contract] [--sample N] [--least 90]')
const least = Number(values.least)
if (!(least >= 0 && least <= 100)) fail(`--least ${values.least}: give a percentage from 0 to 100.`)

const SELLING = ['selling/challenges', 'plugins/challenge', 'plugins/credential']
/** Folders of src/ whose tests are in other folders or files too. */
const SHARED = {
  'payments/payments': ['payments/notifications'],
  'selling/balances': ['selling/usage', 'selling/sessions/streams', 'selling/sessions/gateway'],
  'selling/sessions': ['selling/challenges/service'],
  'selling/challenges': SELLING,
  'selling/minting': [...SELLING, 'selling/sessions/gateway', 'selling/paywall'],
  'selling/verifying': [...SELLING, 'security/forged-payment', 'security/revocation'],
  'selling/holding': SELLING,
  'selling/offers': [...SELLING, 'selling/prices'],
  'selling/paywall': SELLING,
  'lightning/l402': ['lightning/codecs'],
  'lightning/payment-scheme': ['lightning/codecs'],
  'engine/listener': ['engine/upstream'],
  'engine/lane': ['engine/listener'],
  'web/sign-in': ['accounts/audit/sign-ins', 'web/console/database-away'],
  'engine/message': ['engine/listener', 'engine/operations', 'engine/pipeline']
}
const rooms = new Set(positionals.map(each => /^src\/([^/:]+(?:\/[^/.:]+)?)/.exec(each)?.[1]))
const globs =
  values.tests ??
  [...rooms].flatMap(room => [room, ...(SHARED[room] ?? [])]).map(room => `test/${room}{.test.ts,/**/*.test.ts}`)
// What only a page in a browser shows is not worth its minutes here.
const own = globSync(globs, { exclude: values.tests ? [] : ['**/*browser.test.ts'] }).sort()
if (own.length === 0) fail(`No test matches ${globs.join(', ')}. Name some with --tests.`)
// The texts of errors are in a reference of their own.
const contract = values.contract ? globSync(['test/errors.test.ts', 'test/contract/*.test.ts']).sort() : []

/** The files to change, with the lines to change where some are named. */
function filesOf(each) {
  const [, path, from, to] = /^(.*?)(?::(\d+)-(\d+))?$/.exec(each)
  if (!existsSync(path))
    fail(`${path} does not exist. Give files or folders of src/, for example src/selling/balances/meter.ts.`)
  // Examples for the documentation have tests of their own.
  const names = statSync(path).isDirectory() ? globSync(`${path}/**/*.ts`, { exclude: ['**/documented.ts'] }) : [path]
  const lines = from && [{ start: { line: from - 1, column: 0 }, end: { line: to - 1, column: 1_000 } }]
  return names.sort().map(name => ({ name, mutate: lines ?? true, content: readFileSync(name, 'utf8') }))
}

async function instrumented(files) {
  if (!existsSync(`${folder}/node_modules`)) {
    const { status } = spawnSync('npm', ['ci', '--prefix', folder], { stdio: 'inherit' })
    if (status !== 0) process.exit(1)
  }
  const { resolve: find } = createRequire(resolve(folder, 'package.json'))
  const { Instrumenter } = await import(pathToFileURL(find('@stryker-mutator/instrumenter')).href)
  const nothing = () => {}
  const log = { debug: nothing, info: nothing, warn: nothing, isDebugEnabled: () => false }
  // Most strings are messages for people and logs, which have tests of their own.
  const options = { plugins: null, ignorers: [], excludedMutations: ['StringLiteral'] }
  return new Instrumenter(log).instrument(files, options)
}

// Several parts of one file are one file.
const files = [...Map.groupBy(positionals.flatMap(filesOf), ({ name }) => name).values()].map(parts => ({
  ...parts[0],
  mutate: parts.some(({ mutate }) => mutate === true) || parts.flatMap(({ mutate }) => mutate)
}))
const { files: changed, mutants: placed } = await instrumented(files)
const all = placed.filter(({ status }) => status !== 'Ignored')
mkdirSync('.mutation', { recursive: true })
const sources = `.mutation/${process.pid}.json`
writeFileSync(
  sources,
  JSON.stringify(changed.map(({ name, content }) => [pathToFileURL(name).href, stripTypeScriptTypes(content)]))
)

/** The lines that were changed, which may be others by the end of a run. */
const lines = new Map(files.map(({ name, content }) => [name, content.split('\n')]))

/** What a mutant says of itself: where, what, and by what. */
function described({ fileName, location: { start }, replacement, mutatorName }) {
  const line = lines.get(fileName)[start.line]
  return `${fileName}:${start.line + 1}:${start.column + 1} ${mutatorName}\n  - ${line.trim()}\n  + ${replacement.replaceAll(/\s+/g, ' ').slice(0, 160)}`
}

// Without positions: a change elsewhere in the file leaves the sample.
const withoutPlace = text => text.replaceAll(/:\d+:\d+ /g, ' ')
const rank = mutant =>
  createHash('sha256')
    .update(`${values.seed} ${withoutPlace(described(mutant))}`)
    .digest('hex')
const before = values.again === undefined ? '' : withoutPlace(readFileSync(values.again, 'utf8'))
const mutants =
  values.again !== undefined
    ? all.filter(mutant => before.includes(`: ${withoutPlace(described(mutant))}\n`))
    : values.sample === undefined
      ? all
      : all
          .map(mutant => ({ mutant, by: rank(mutant) }))
          .sort((one, other) => (one.by < other.by ? -1 : 1))
          .slice(0, Number(values.sample))
          .map(({ mutant }) => mutant)
const waiting = new Map(mutants.map(mutant => [mutant.id, mutant]))
process.stdout.write(`${mutants.length} of ${all.length} mutants, ${own.length + contract.length} test files\n`)

/** A process that runs tests. One that does not answer in time is ended. */
class Worker {
  #process

  constructor(mutant = '') {
    this.#process = fork('.ci/mutate-worker.mjs', [sources, mutant], {
      execArgv: ['--conditions=checkout', '--import=./test/support/without-tracking.ts'],
      env: { ...process.env, TAP_TIMEOUT: '1000000', NODE_COMPILE_CACHE: 'node_modules/.cache/node' },
      stdio: ['ignore', openSync('.mutation/tests.log', 'w'), openSync('.mutation/errors.log', 'w'), 'ipc']
    })
  }

  /** The answer, or undefined when the process ended or had to be. */
  async ask(message, ms) {
    const over = new AbortController()
    const { signal } = over
    const timer = setTimeout(() => over.abort(), ms)
    const ended = once(this.#process, 'exit', { signal }).then(() => undefined)
    const answered = (async () => {
      // tap sends messages too.
      for (;;) {
        const [{ answer }] = await once(this.#process, 'message', { signal })
        if (answer !== undefined) return answer
      }
    })()
    try {
      if (!this.#process.connected) return undefined
      this.#process.send(message)
      return await Promise.race([answered, ended])
    } catch {
      // Out of time, or gone.
      return undefined
    } finally {
      clearTimeout(timer)
      over.abort()
      await Promise.allSettled([answered, ended])
    }
  }

  async end() {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      this.#process.kill('SIGKILL')
      await once(this.#process, 'exit')
    }
  }
}

const LOADING_MS = 120_000
let worker = new Worker()
/** The mutants of code that runs while a module loads: a test sees them only in a process that loads it so. */
const loading = new Set()
/** For each file and test: how long it takes, and the mutants that it reaches. */
const reached = []

async function restart(file) {
  await worker.end()
  worker = new Worker()
  return await worker.ask({ file }, LOADING_MS)
}

const limitOf = ({ ms }) => Math.round(4_000 + 5 * ms)

async function runTest(test, mutant, timeout = limitOf(test)) {
  return await worker.ask({ at: test.at, mutant, timeout }, timeout + 5_000)
}

async function openFile(file) {
  const opened = (await worker.ask({ file }, LOADING_MS)) ?? (await restart(file))
  if (opened?.tests === undefined) fail(`${file} cannot be loaded: ${opened?.failed ?? 'see .mutation/errors.log'}`)
  return opened
}

/** Runs every test of the file once as it is, and notes those that pass. */
async function measure(file) {
  const opened = await openFile(file)
  for (const id of opened.covered) loading.add(id)
  const found = []
  for (let at = 0; at < opened.tests; at++) {
    let result = await worker.ask({ at, mutant: '', timeout: LOADING_MS }, LOADING_MS)
    if (result?.passed !== true) {
      await restart(file)
      result = await worker.ask({ at, mutant: '', timeout: LOADING_MS }, LOADING_MS)
    }
    if (result === undefined) await restart(file)
    if (result?.passed !== true)
      process.stdout.write(`${file}: test ${at + 1} fails without a mutant and is left out\n`)
    else found.push({ at, ms: result.ms, covered: new Set(result.covered) })
  }
  found.sort((one, other) => one.ms - other.ms)
  reached.push({ file, tests: found, ms: found[Math.floor(found.length / 2)]?.ms ?? 0 })
}

/** The milliseconds of the test without a mutant in a new process. One that fails there says nothing of mutants. */
async function alone(file, test) {
  await restart(file)
  // The first test of a process is slow.
  const result = await runTest(test, '', LOADING_MS)
  if (result?.passed === true) return result.ms
  test.covered.clear()
  return undefined
}

/** Whether the test fails with the mutant, and passes without it right after. */
async function failsFor(file, test, id) {
  const limit = limitOf(test)
  const result = await runTest(test, id)
  if (result?.passed === true) return false
  const isLate = result === undefined || result.ms >= limit
  // A process that the mutant left in disorder would fail the next one too.
  if (!isLate && (await runTest(test, ''))?.passed === true) return true
  const ms = await alone(file, test)
  if (ms === undefined) return false
  if (!isLate || ms < limit / 2) return true
  // The machine is busy, and a test without a mutant is late too.
  test.ms = ms
  return await failsFor(file, test, id)
}

async function isKilled(file, of, id) {
  let left = 1_000 * Number(values.seconds)
  for (const test of of.filter(({ covered }) => covered.has(id))) {
    if ((left -= test.ms) < 0) break
    if (await failsFor(file, test, id)) return true
  }
  return false
}

function kill(id) {
  waiting.delete(id)
  process.stdout.write('.')
}

/** Runs for each mutant the tests of these files that reach it, those of quick files first. */
async function runAll(files) {
  const before = reached.length
  for (const file of files) await measure(file)
  for (const { file, tests } of reached.slice(before).sort((one, other) => one.ms - other.ms)) {
    const ids = [...waiting.keys()].filter(id => !loading.has(id) && tests.some(({ covered }) => covered.has(id)))
    if (ids.length === 0) continue
    await openFile(file)
    const began = performance.now()
    for (const id of ids) if (await isKilled(file, tests, id)) kill(id)
    process.stdout.write(` ${file} ${Math.round((performance.now() - began) / 1000)} s, ${waiting.size} left\n`)
  }
}

await runAll(own)
if (waiting.size > 0) await runAll(contract)

/** The tests that reach code of the mutant's folder, or all where none does, quick files first. */
function near({ fileName }) {
  const ids = new Set(all.filter(mutant => dirname(mutant.fileName) === dirname(fileName)).map(({ id }) => id))
  const files = reached
    .map(({ file, tests: of, ms }) => ({ file, ms, tests: of.filter(({ covered }) => !covered.isDisjointFrom(ids)) }))
    .filter(({ tests: of }) => of.length > 0)
  return (files.length > 0 ? files : reached).toSorted((one, other) => one.ms - other.ms)
}

/** Whether a file that reaches the mutant's module fails in a process that loads the mutant. */
async function isKilledWhileLoading(id) {
  for (const { file, tests } of near(waiting.get(id))) {
    let left = 1_000 * Number(values.seconds)
    await worker.end()
    worker = new Worker(id)
    const opened = await worker.ask({ file }, LOADING_MS)
    if (opened?.tests === undefined) return true
    for (const test of tests) {
      if ((left -= test.ms) < 0) break
      if ((await runTest(test, undefined, 2 * limitOf(test)))?.passed === true) continue
      test.passesAlone ??= (await alone(file, test)) !== undefined
      return test.passesAlone || (await isKilledWhileLoading(id))
    }
  }
  return false
}

for (const id of loading) if (waiting.has(id) && (await isKilledWhileLoading(id))) kill(id)
await worker.end()

const covered = new Set(reached.flatMap(({ tests: of }) => of.flatMap(test => [...test.covered])))
const left = [...waiting.values()].map(
  mutant => `${covered.has(mutant.id) || loading.has(mutant.id) ? 'Survived' : 'Not reached'}: ${described(mutant)}`
)
const share = (100 * (mutants.length - left.length)) / Math.max(1, mutants.length)
const report = [...left.sort(), `${mutants.length - left.length} of ${mutants.length} killed: ${share.toFixed(1)}%`]
writeFileSync('.mutation/report.txt', `${report.join('\n')}\n`)
process.stdout.write(`\n${report.join('\n')}\n`)
process.exitCode = share < least ? 1 : 0
