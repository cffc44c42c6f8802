// npm run bench:micro [-- --write]: nanoseconds and bytes of small pieces of a request's way. --write takes the bytes
// as the guard's.
import { readFileSync, writeFileSync } from 'node:fs'
import { measured } from './allocations.ts'
import { cases } from './cases.ts'

const file = new URL('allocations.json', import.meta.url)
const bytes = await measured('bytes')
const times = await measured('time')
process.stdout.write('| | ns | bytes allocated, uncompiled |\n|---|---|---|\n')
for (const { id, text } of cases)
  process.stdout.write(
    `| ${id}: ${text} | ${Math.round(times.get(id) ?? NaN)} | ${Math.round(bytes.get(id) ?? NaN)} |\n`
  )
if (process.argv.includes('--write')) {
  // Written by this program.
  const before = JSON.parse(readFileSync(file, 'utf8')) as { tolerance: number }
  writeFileSync(
    file,
    `${JSON.stringify({ tolerance: before.tolerance, bytes: Object.fromEntries([...bytes].map(([id, value]) => [id, Math.round(value)])) }, null, 2)}\n`
  )
}
