// `npm run mutate -- <file or room>…`: changes the code one expression at a time (Stryker) and reports each change that
// no test notices. Tests are those of the file's room in test/; `--contract` adds the contract's.
//
//   npm run mutate -- src/selling/balances/meter.ts      one file: minutes on a quiet machine
//   npm run mutate -- src/selling/balances --contract    a room: hours, for the night
//   npm run mutate -- src/selling/balances --sample 60   60 random lines of a room: an estimate within minutes
//   npm run mutate -- src/engine/listener/front-door.ts:180-220   some lines of a file
//   npm run mutate -- src/selling/balances/meter.ts --tests test/selling/balances/usage-forms.test.ts
//
// Exits 1 when fewer than 90% of the mutants are killed (`--least N` asks for another share).
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { parseArgs } from 'node:util'

const folder = 'test/mutation'
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    contract: { type: 'boolean', default: false },
    least: { type: 'string', default: '90' },
    sample: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    tests: { type: 'string', multiple: true }
  }
})

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}

/** What Stryker is to change, from a file, a file with lines, or a folder. */
function toMutate(each) {
  const path = each.replace(/:\d+-\d+$/, '')
  if (!existsSync(path))
    fail(`${path} does not exist. Give files or folders of src/, for example src/selling/balances/meter.ts.`)
  return statSync(path).isDirectory() ? `${path.replace(/\/$/, '')}/**/*.ts` : each
}

/** `count` random lines of the files, as Stryker takes them. The same seed picks the same lines. */
function sampled(patterns, count, seed) {
  const lines = globSync(patterns).flatMap(file =>
    readFileSync(file, 'utf8')
      .split('\n')
      .flatMap((line, at) => (/^\s*(?:$|\/\/|\/?\*|import )/.test(line) ? [] : [`${file}:${at + 1}-${at + 1}`]))
  )
  const rank = line => createHash('sha256').update(`${seed} ${line}`).digest('hex')
  process.stdout.write(`${count} of ${lines.length} lines; --seed ${seed} picks them again\n`)
  return lines.toSorted((one, other) => (rank(one) < rank(other) ? -1 : 1)).slice(0, count)
}

if (positionals.length === 0)
  fail('Usage: npm run mutate -- <file or folder of src>… [--tests GLOB] [--contract] [--least 90]')
const least = Number(values.least)
if (!(least >= 0 && least <= 100)) fail(`--least ${values.least}: give a percentage from 0 to 100.`)

/** The tests of a folder of src: those of the same folder in test/, and of the folders that share its fixtures. */
const SHARED = {
  'selling/minting': 'selling/challenges',
  'selling/verifying': 'selling/challenges',
  'selling/holding': 'selling/challenges',
  'selling/offers': 'selling/challenges',
  'selling/paywall': 'selling/challenges',
  'lightning/l402': 'lightning/codecs',
  'lightning/payment-scheme': 'lightning/codecs',
  'engine/lane': 'engine/listener'
}
const rooms = new Set(positionals.map(each => /^src\/([^/:]+(?:\/[^/.:]+)?)/.exec(each)?.[1]))
const globs =
  values.tests ?? [...rooms].flatMap(room => [room, SHARED[room] ?? room]).map(room => `test/${room}/**/*.test.ts`)
const tests = globSync([...globs, ...(values.contract ? ['test/contract/*.test.ts'] : [])]).sort()
if (tests.length === 0) fail(`No test matches ${globs.join(', ')}. Name some with --tests.`)

if (!existsSync(`${folder}/node_modules`)) {
  const { status } = spawnSync('npm', ['ci', '--prefix', folder], { stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}
const wanted = positionals.map(toMutate)
const mutate = values.sample === undefined ? wanted : sampled(wanted, Number(values.sample), values.seed)
const { status } = spawnSync(
  process.execPath,
  [`${folder}/node_modules/@stryker-mutator/core/bin/stryker.js`, 'run', `${folder}/stryker.config.mjs`],
  {
    stdio: 'inherit',
    env: { ...process.env, BOLTGATE_MUTATE: JSON.stringify({ mutate, tests, least }) }
  }
)
process.exitCode = status ?? 1
