// `count.mjs FILE LEAST` counts the assertions of a tap stream, lists the failures, each with its place and what was found
// and wanted, and fails below LEAST, so that a runner that found no file is no silent green.
import { readFileSync } from 'node:fs'

/** Lines shown of what tap says about a failure: the log of a run is all that its reader has. */
const most = 30

/**
 * What tap says below the line at `at` of a failure: its place, and the lines that tell what is wrong. The source around
 * it is left out, which the place leads to, and so is how the process was started.
 */
function diagnosisOf(lines, at) {
  const indent = `${/^ */.exec(lines[at])[0]}  `
  if (lines[at + 1] !== `${indent}---`) return { place: null, told: [] }
  const length = lines.slice(at + 2).indexOf(`${indent}...`)
  const block = lines.slice(at + 2, length < 0 ? undefined : at + 2 + length).map(line => line.slice(indent.length))
  const value = key => block.find(line => line.startsWith(`  ${key}: `))?.slice(key.length + 4)
  const file = value('fileName')
  let key = ''
  const keyed = block.map(line => ({ key: (key = /^(\w+):/.exec(line)?.[1] ?? key), line }))
  const told = keyed.filter(
    each => !['at', 'source', 'stdio', 'cwd', 'externalID', 'command', 'args'].includes(each.key)
  )
  // What was found and wanted comes before the way there, which may be long.
  told.sort((one, other) => Number(one.key === 'stack') - Number(other.key === 'stack'))
  const place = file === undefined ? null : `${file}:${value('lineNumber')}`
  return { place, told: told.map(({ line }) => line) }
}

function count(file) {
  const found = { passed: 0, failed: 0, skipped: 0, failures: [] }
  // The subtests that are open, outermost first, each with the failures there were before it.
  const path = []
  const lines = readFileSync(file, 'utf8').split('\n')
  for (const [at, line] of lines.entries()) {
    const match = /^( *)(not ok|ok) \d+(.*)$/.exec(line)
    const subtest = /^( *)# Subtest: (.*)$/.exec(line)
    if (subtest !== null) path[subtest[1].length / 4] = { name: subtest[2], before: found.failed }
    if (match === null) continue
    const [, indent, verdict, rest] = match
    // The line that closes a subtest repeats what is inside it; only innermost lines count.
    const depth = indent.length / 4
    const name = rest.trim().replace(/^- /, '')
    const closed = path[depth] !== undefined && name.startsWith(path[depth].name) ? path[depth] : undefined
    path.length = depth + (closed === undefined ? 1 : 0)
    if (closed !== undefined && verdict === 'ok') continue
    const isSkipped = /# (SKIP|TODO)/i.test(rest)
    // On both servers, whatever skips because it needs one has proved nothing.
    const needless = isSkipped && /\/\d+-servers-/.test(path[0]?.name ?? '') && /TEST_(?:DATABASE|REDIS)_URL/.test(rest)
    if (isSkipped && !needless) found.skipped++
    else if (!needless && verdict === 'ok') found.passed++
    else {
      if (closed !== undefined && found.failed > closed.before) {
        // How the process of a group ended: by a signal, the failures inside it say nothing.
        const ended = diagnosisOf(lines, at).told.filter(line => /^(?:exitCode|signal): /.test(line))
        found.failures.at(-1)?.told.push(...ended)
        continue
      }
      found.failed++
      const outer = path.slice(0, depth).map(each => each?.name ?? '')
      found.failures.push({ name: [...outer, name].filter(Boolean).join(' > '), ...diagnosisOf(lines, at) })
    }
  }
  return found
}

const [file, least] = process.argv.slice(2)
const { passed, failed, skipped, failures } = count(file)
for (const { name, place, told } of failures) {
  console.log(`not ok: ${name}${place === null ? '' : `\n    at ${place}`}`)
  for (const line of told.slice(0, most)) console.log(`    ${line}`)
  if (told.length > most) console.log(`    (and ${told.length - most} lines)`)
}
if (passed < Number(least)) console.log(`expected at least ${least} to pass`)
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
if (failed > 0 || passed < Number(least)) process.exitCode = 1
