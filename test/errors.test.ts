import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { errorsPage } from '../src/app/commands/docs.ts'
import { RESOURCE_NOT_FOUND } from '../src/engine/operations/error-kinds.ts'
import { LongError, ShortError, Unavailable } from '../src/engine/operations/errors.ts'
import { definedErrors, defineError } from '../src/platform/system/errors.ts'
import '../src/app/compose.ts'
import '../src/app/composition/suite.ts'
import '../src/app/main.ts'

const root = resolve(import.meta.dirname, '..')
const texts = globSync(['src/**/*.ts', 'plugins/*.ts'], { cwd: root }).map(file => ({
  file,
  text: readFileSync(resolve(root, file), 'utf8')
}))
const whole = texts.map(({ text }) => text).join('\n')
const definitions = [...whole.matchAll(/const (\w+) = defineError\('(BG_\w+)'/g)]
const CONFIGURATION = 'src/engine/config/diagnose.ts'

t.test('docs/reference/errors.md is what the definitions say', async t => {
  t.equal(readFileSync(resolve(root, 'docs/reference/errors.md'), 'utf8'), errorsPage(), 'run npm run docs')
})

t.test('docs/reference/errors.md has every definition: the command loads all modules', async t => {
  const configuration = texts.find(({ file }) => file === CONFIGURATION)?.text ?? ''
  const codes = [...definitions.map(([, , code]) => code), ...(configuration.match(/\bBG_\w+(?=: \{)/g) ?? [])]
  t.same([...definedErrors.keys()].sort(), codes.sort())
  t.ok(definedErrors.size <= 120, `${definedErrors.size} codes; merge those that call for the same action`)
})

t.test('every code is raised, logged or printed', async t => {
  const unused = definitions.filter(([, name = '']) => (whole.match(new RegExp(`\\b${name}\\b`, 'g')) ?? []).length < 2)
  const others = texts.filter(({ file }) => file !== CONFIGURATION)
  const unreported = [...definedErrors.keys()].filter(
    code =>
      !definitions.some(([, , defined]) => defined === code) && !others.some(({ text }) => text.includes(`'${code}'`))
  )
  t.same([...unused.map(([, , code]) => code), ...unreported], [])
})

t.test('every response of the gateway has its code: a bare status is for plugins of operators', async t => {
  const bare = texts.flatMap(({ file, text }) =>
    [...text.matchAll(/new (?:Short|Long|Problem)Error\(\s*\d|super\(\s*[45]\d\d,/g)].map(
      ([made]) => `${file}: ${made}`
    )
  )
  t.same(bare, [])
})

t.test('the title of a kind is the one that its responses have', async t => {
  const titles = new Map(definitions.map(([, name = '', code = '']) => [name, definedErrors.get(code)?.title]))
  const wrong = [...whole.matchAll(/new LongError\(\s*(\w+),\s*'([^']*)'/g)].filter(
    ([, name = '', title]) => titles.get(name) !== undefined && titles.get(name) !== title
  )
  t.same(
    // Another 429.
    wrong.map(([made]) => made).filter(made => !made.endsWith("'Balance busy'")),
    []
  )
})

t.test('every code that sources, tests and documents name is defined', async t => {
  const pages = globSync(['docs/**/*.md', '*.md', 'test/**/*.ts'], {
    cwd: root,
    exclude: ['CHANGELOG.md', '**/node_modules/**', 'test/errors.test.ts']
  }).map(file => readFileSync(resolve(root, file), 'utf8'))
  const named = new Set([...[whole, ...pages].join('\n').matchAll(/\bBG_[A-Z][A-Z0-9_]*\b/g)].map(([code]) => code))
  t.same(
    [...named].filter(code => !definedErrors.has(code)),
    []
  )
})

t.test('an error has the code of its kind, and a status alone that of plugins', async t => {
  t.equal(new LongError(RESOURCE_NOT_FOUND, 'Proxy not found', 'No such proxy.').code, 'BG_RESOURCE_NOT_FOUND')
  t.equal(new LongError(RESOURCE_NOT_FOUND, 'Proxy not found', 'No such proxy.').status, 404)
  t.equal(new Unavailable('Later', 'Try later.').code, 'BG_SERVICE_UNAVAILABLE')
  t.equal(new ShortError(418, 'tea').code, 'BG_PLUGIN_RESPONSE')
  t.throws(() => defineError('BG_NOT_FOUND', { cause: '', fix: '' }), TypeError)
})
