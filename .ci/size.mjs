// `npm run size`: the size of the project beside its budget, by room with `-- --rooms`. Every change sees what it adds.
import { globSync, readFileSync } from 'node:fs'

/** Comments, strings, templates, names, numbers and operators of TypeScript, each one match. */
const TOKEN =
  /(?<comment>\/\*[^]*?\*\/|\/\/[^\n]*)|'(?:\\[^]|[^'\\\n])*'|"(?:\\[^]|[^"\\\n])*"|`(?:\\[^]|[^`\\])*`|[\p{L}_$#@][\p{L}\p{N}_$]*|\d[\w.]*|=>|\?\.|\?\?=?|\.{3}|[-+*%&|^!=<>~]=?=?|&&|\|\||[^\s\w]/gu

function sizeOf(...patterns) {
  const files = globSync(patterns, { exclude: ['**/node_modules/**'] })
  const size = { files: files.length, tokens: 0, comments: 0 }
  for (const file of files)
    for (const { 0: text, groups } of readFileSync(file, 'utf8').matchAll(TOKEN)) {
      if (groups.comment === undefined) size.tokens++
      else size.comments += text.length
    }
  return size
}

function rows(file, pattern) {
  return [...readFileSync(file, 'utf8').matchAll(pattern)]
}

const code = sizeOf('src/**/*.ts', 'plugins/*.ts')
const tests = sizeOf('test/**/*.ts')
// Keys of gateway.yaml, each once: neither built-in policies nor the settings of plugins.
const [keys = ''] = readFileSync('docs/reference/configuration.md', 'utf8')
  .replace(/^Built in:[^]*?(?=^## )/m, '')
  .split('## Entries of a chain')
const folders = globSync('src/*/').length
const own = rows('docs/explanation/decisions.md', /^- \*\*(\d+)\./gm).filter(([, number]) => Number(number) > 200)
const table = [
  ['top-level rooms in src', folders, 10],
  ['files in src + plugins', code.files, 700],
  ['tokens of src + plugins, comments apart', code.tokens, 580_000],
  ['comment characters of src + plugins', code.comments, 650_000],
  ['tokens of tests', tests.tokens, 750_000],
  ['error codes', rows('docs/reference/errors.md', /^\| `BG_/gm).length, 120],
  ['settings', keys.match(/^\| `/gm)?.length ?? 0, 150],
  ['own decisions', own.length, 60]
]
console.log('| | now | aim |\n|---|---|---|')
for (const [what, now, aim] of table)
  console.log(`| ${what} | ${now.toLocaleString('en-US')} | ${aim.toLocaleString('en-US')} |`)

if (process.argv.includes('--rooms')) {
  console.log('\n| room | files | tokens | comment characters |\n|---|---|---|---|')
  for (const room of [...globSync('src/*/'), 'plugins'].sort()) {
    const { files, tokens, comments } = sizeOf(`${room}/**/*.ts`)
    console.log(`| ${room} | ${files} | ${tokens.toLocaleString('en-US')} | ${comments.toLocaleString('en-US')} |`)
  }
}
