// Counts the assertions of tap streams. `count.mjs FILE LEAST` lists the failures of one and fails below LEAST, so that a
// runner that found no file is no silent green. `count.mjs --sum FILE…` prints the closing line.
import { readFileSync } from 'node:fs'

function count(file) {
  const found = { passed: 0, failed: 0, skipped: 0, failures: [] }
  const path = []
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const match = /^( *)(not ok|ok) \d+(.*)$/.exec(line)
    const subtest = /^( *)# Subtest: (.*)$/.exec(line)
    if (subtest !== null) path[subtest[1].length / 4] = subtest[2]
    if (match === null) continue
    const [, indent, verdict, rest] = match
    // The line that closes a subtest repeats what is inside it; only innermost lines count.
    const depth = indent.length / 4
    const closes = path[depth] !== undefined && rest.trim().replace(/^- /, '').startsWith(path[depth])
    path.length = depth + (closes ? 0 : 1)
    if (closes && verdict === 'ok') continue
    if (/# (SKIP|TODO)/i.test(rest)) found.skipped++
    else if (verdict === 'ok') found.passed++
    else {
      if (closes && found.failures.length > 0) continue
      found.failed++
      found.failures.push([...path.slice(0, depth), rest.trim().replace(/^- /, '')].filter(Boolean).join(' > '))
    }
  }
  return found
}

const [first, ...rest] = process.argv.slice(2)
if (first === '--sum') {
  const total = { passed: 0, failed: 0, skipped: 0 }
  for (const file of rest) {
    const found = count(file)
    for (const key of Object.keys(total)) total[key] += found[key]
  }
  console.log(`${total.passed} passed, ${total.failed} failed${total.skipped > 0 ? `, ${total.skipped} skipped` : ''}`)
} else {
  const found = count(first)
  for (const failure of found.failures) console.log(`not ok: ${failure}`)
  console.log(`${first.split('/').at(-1)}: ${found.passed} passed, ${found.failed} failed, ${found.skipped} skipped`)
  if (found.passed < Number(rest[0])) {
    console.log(`expected at least ${rest[0]} to pass`)
    process.exit(1)
  }
  if (found.failed > 0) process.exit(1)
}
