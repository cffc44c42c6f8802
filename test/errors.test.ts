import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { errorTable, responseCode } from '../src/engine/errors/codes.ts'
import type { ResponseEntry } from '../src/engine/errors/entry.ts'
import { errorsPage } from '../src/engine/errors/page.ts'
import { responseErrors } from '../src/engine/errors/response.ts'
import { LongError, ShortError } from '../src/engine/operations/errors.ts'

const root = resolve(import.meta.dirname, '..')
const sources = globSync(['src/**/*.ts', 'plugins/*.ts'], { cwd: root }).filter(
  file => !file.startsWith('src/engine/errors/')
)
const texts = sources.map(file => ({ file, text: readFileSync(resolve(root, file), 'utf8') }))
const whole = texts.map(({ text }) => text).join('\n')
const entries = Object.entries<ResponseEntry>(responseErrors)

/**
 * Refusals by status and fixed text: `new LongError(404, 'Not found', …)`, `new Unavailable('Request in progress', …)`.
 */
const REFUSAL = /new (\w+)\(\s*(?:(\d{3}), )?(?:`[^`]*`, )?('(?:[^'\\\n]|\\.)*')/g

function fixedRefusals(): { file: string; status: number; error: string }[] {
  const statusOf = new Map([
    ['Unavailable', 503],
    ['GateError', 403]
  ])
  return texts.flatMap(({ file, text }) =>
    [...text.matchAll(REFUSAL)].flatMap(([made, name = '', status, quoted = '']) => {
      const known =
        status === undefined
          ? statusOf.get(name)
          : ['ShortError', 'LongError', 'ProblemError'].includes(name)
            ? Number(status)
            : undefined
      // A code beside the text says what the text alone does not.
      const hasCode =
        text
          .slice(text.indexOf(made), text.indexOf(made) + 400)
          .split('\n', 1)[0]
          ?.includes("'BG_") === true
      return known === undefined || hasCode
        ? []
        : [{ file, status: known, error: quoted.slice(1, -1).replaceAll("\\'", "'") }]
    })
  )
}

t.test('every refusal with a fixed text is in the table', async t => {
  const refusals = fixedRefusals()
  t.ok(refusals.length > 90, `${refusals.length} are found`)
  const missing = refusals.filter(({ status, error }) => responseCode(status, error) === 'BG_PLUGIN_RESPONSE')
  t.same(missing, [])
})

t.test('a refusal whose text differs from case to case names its code', async t => {
  const lines = texts.flatMap(({ file, text }) => text.split('\n').map(line => ({ file, line: line.trim() })))
  const variable = lines.filter(({ line }) => /new ShortError\(\d{3}, (?!')/.test(line) && !line.includes("'BG_"))
  t.same(variable, [])
})

t.test('no code stands twice, in one file or in two', async t => {
  const tables = globSync('src/engine/errors/**/*.ts', { cwd: root }).map(file =>
    readFileSync(resolve(root, file), 'utf8')
  )
  const codes = tables.flatMap(text => [...text.matchAll(/^  (BG_[A-Z\d_]+): \{/gm)].map(([, code]) => code))
  t.same(codes.toSorted(), Object.keys(errorTable).toSorted())
})

t.test('every code of the table is thrown somewhere', async t => {
  const idle = Object.keys(errorTable).filter(code => {
    if (whole.includes(`'${code}'`)) return false
    const { error } = entries.find(([name]) => name === code)?.[1] ?? {}
    // Fixed texts are what a code is found by.
    return error === undefined || !whole.includes(`'${error.replaceAll("'", "\\'")}'`)
  })
  t.same(
    idle.filter(code => code !== 'BG_PLUGIN_RESPONSE'),
    []
  )
})

t.test('every code that the sources name is in the table', async t => {
  const named = new Set([...whole.matchAll(/\bBG_[A-Z][A-Z0-9_]*\b/g)].map(([code]) => code))
  t.same(
    [...named].filter(code => !Object.hasOwn(errorTable, code)),
    []
  )
})

t.test('no two responses of the table are the same to a client', async t => {
  const seen = entries.flatMap(([, { status, error }]) => (error === undefined ? [] : [`${status} ${error}`]))
  t.equal(new Set(seen).size, seen.length)
})

t.test('docs/errors.md is what the table says', async t => {
  t.equal(readFileSync(resolve(root, 'docs/errors.md'), 'utf8'), errorsPage(), 'run npm run docs')
})

t.test("the code of an error is found by what clients see of it, and a plugin's own has one too", async t => {
  t.equal(new LongError(404, 'Proxy not found', 'There is no such proxy.').code, 'BG_PROXY_NOT_FOUND')
  t.equal(new ShortError(400, 'An amount in USD is at most 1.', [], 'BG_AMOUNT_INVALID').code, 'BG_AMOUNT_INVALID')
  t.equal(new ShortError(418, 'tea').code, 'BG_PLUGIN_RESPONSE')
})
