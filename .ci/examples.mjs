// `npm run examples -- TEST_FILE…`: runs the tests and adds to examples.json what operations without an example returned
// there. To record an operation again, delete its entry first.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const FILE = 'src/app/discovery/examples.json'
const folder = mkdtempSync(join(tmpdir(), 'boltgate-examples-'))
const recorded = join(folder, 'exchanges')
writeFileSync(recorded, '')
spawnSync(process.execPath, ['.ci/test.mjs', ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, BOLTGATE_EXAMPLES: recorded }
})
const examples = JSON.parse(readFileSync(FILE, 'utf8'))
const known = new Set(Object.keys(examples))
const lines = readFileSync(recorded, 'utf8').replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, 'https://gateway.example.com')
for (const { id, ...example } of lines.split('\n').flatMap(line => JSON.parse(line || 'null') ?? [])) {
  // Of several exchanges the one that says most is shown.
  const isFuller = JSON.stringify(example).length > JSON.stringify(examples[id] ?? {}).length
  if (!known.has(id) && isFuller) examples[id] = example
}
const sorted = Object.fromEntries(Object.entries(examples).sort(([a], [b]) => (a < b ? -1 : 1)))
writeFileSync(FILE, `${JSON.stringify(sorted, null, 2)}\n`)
rmSync(folder, { recursive: true })
console.log(Object.keys(examples).filter(id => !known.has(id)))
