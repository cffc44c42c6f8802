import { spawnSync } from 'node:child_process'
import { globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'

const root = resolve(import.meta.dirname, '..')
const read = (file: string): string => readFileSync(resolve(root, file), 'utf8')
const isFile = (file: string): boolean => statSync(resolve(root, file), { throwIfNoEntry: false })?.isFile() === true

/** A text with its comments and paragraphs on one line each, so that what is cited over the end of a line is found. */
const joined = (text: string): string => text.replaceAll(/\n[ \t]*(?:\/\/|\*(?!\/)|#)?[ \t]*/g, ' ')

const SPEAKING = [
  'src/**/*.{ts,mjs}',
  'plugins/*.ts',
  'test/**/*.ts',
  'benchmarks/**/*.{ts,md}',
  'docs/**/*.md',
  '*.md',
  'gateway.yaml'
]
const files = globSync(SPEAKING, { cwd: root, exclude: ['**/node_modules/**'] })
  .filter(isFile)
  .sort()

interface Citation {
  readonly file: string
  readonly cited: string
}

function citations(pattern: RegExp): Citation[] {
  return files.flatMap(file => [...joined(read(file)).matchAll(pattern)].map(([, cited = '']) => ({ file, cited })))
}

const decisions = [...read('docs/explanation/decisions.md').matchAll(/^- (?:\*\*(\d+)\. )?/gm)].map(
  ([, number]) => number
)

/** `82`, `82 and 83`, `82, 83 and 86`, `39 to 54`: every number that is meant. */
function numbersOf(cited: string): number[] {
  return cited.split(/, and |, | and /).flatMap(part => {
    const [first = NaN, last = first] = part.split(' to ').map(Number)
    return Array.from({ length: last - first + 1 }, (_, index) => first + index)
  })
}

t.test('every item of docs/explanation/decisions.md has a number, and each number one item', async t => {
  t.notOk(decisions.includes(undefined), 'an item without a number: give it the next free one')
  t.equal(new Set(decisions).size, decisions.length)
})

t.test('every decision that is cited exists', async t => {
  const cited = citations(/\b[Dd]ecisions? (\d+(?:(?:, and |, | and | to )\d+)*)/g)
  t.ok(cited.length > 700, `${cited.length} citations are found`)
  const known = new Set(decisions.map(Number))
  const missing = cited.flatMap(({ file, cited }) =>
    numbersOf(cited)
      .filter(number => !known.has(number))
      .map(number => `${file}: ${number}`)
  )
  t.same(missing, [])
})

interface Section {
  readonly heading: string
  readonly text: string
}

/** Heading without what stands in brackets behind it, and all text below it, that of smaller headings too. */
function sectionsOf(text: string): Section[] {
  const headings = [...text.matchAll(/^(#+) (.+)$/gm)]
  return headings.map(({ 1: marks = '', 2: heading = '', index }) => {
    const next = headings.find(other => other.index > index && (other[1] ?? '').length <= marks.length)
    return { heading: plain(heading.replace(/ \(.*\)$/, '')), text: text.slice(index, next?.index) }
  })
}

/** Words alone, in lower case: how a place is compared with what is cited. */
function plain(text: string): string {
  return text.replaceAll(/[`*_]/g, '').replaceAll(/\s+/g, ' ').trim().toLowerCase()
}

const sections = sectionsOf(read('docs/reference/contract.md'))

/** Whether a section has the heading `Errors` of `Errors 3: Rate limit`, its item 3 and these words below it. */
function stands(cited: string): boolean {
  const {
    heading = '',
    item,
    words
  } = /^(?<heading>[^:]*?)(?: (?<item>\d+))?(?:: (?<words>.*))?$/.exec(cited.trim())?.groups ?? {}
  return sections.some(
    section =>
      section.heading === plain(heading) &&
      (item === undefined || new RegExp(`^${item}\\. `, 'm').test(section.text)) &&
      (words === undefined || plain(section.text).includes(plain(words)))
  )
}

t.test('every section of the contract that is cited exists', async t => {
  // `contract, Storefront order; Events 7; decision 146`: each part but the decisions and RFCs.
  const cited = citations(/\bcontract, ([A-Z][^)'"`\n]*)/g).flatMap(({ file, cited }) =>
    cited
      .split('; ')
      .filter(part => !/^(?:decisions?|RFC) /.test(part))
      .map(cited => ({ file, cited }))
  )
  t.ok(cited.length > 160, `${cited.length} citations are found`)
  const missing = cited.filter(({ cited }) => !stands(cited) && !everyOneStands(cited))
  t.same(
    missing.map(({ file, cited }) => `${file}: ${cited}`),
    []
  )
})

/** `Authentication 2 and 6`, `Events 5 and Limits: Proxy`. */
function everyOneStands(cited: string): boolean {
  const [first = '', ...rest] = cited.split(' and ')
  return [first, ...rest.map(part => (/^\d+$/.test(part) ? first.replace(/\d+$/, part) : part))].every(stands)
}

t.test('every document that is named is there', async t => {
  const named = citations(
    /(?<![\w/.-])((?:\.\/)?(?:docs|benchmarks|test|src|wire)\/[\w./-]+\.(?:md|yaml|json|ts)|design\.md|spec\.md)\b/g
  ).filter(({ file }) => file !== 'CHANGELOG.md')
  t.ok(named.length > 20, `${named.length} names are found`)
  t.same(
    named.filter(({ cited }) => !isFile(cited)).map(({ file, cited }) => `${file}: ${cited}`),
    []
  )
})

/** A heading's address, as GitHub makes it. */
const anchor = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')

t.test('every link between documents leads to a file and a heading', async t => {
  const wrong: string[] = []
  for (const file of files.filter(file => file.endsWith('.md'))) {
    for (const [, address = ''] of read(file)
      .replaceAll(/^```[\s\S]*?^```/gm, '')
      .matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(address)) continue
      const [path = '', heading] = address.split('#')
      const target = path === '' ? file : join(dirname(file), path)
      const found =
        statSync(resolve(root, target), { throwIfNoEntry: false }) !== undefined &&
        (heading === undefined ||
          [...read(target).matchAll(/^#+ (.+)$/gm)].some(([, text = '']) => anchor(text) === heading))
      if (!found) wrong.push(`${file}: ${address}`)
    }
  }
  t.same(wrong, [])
})

t.test('every whole file of TypeScript in a document passes the format as it is pasted', async t => {
  const wrong: string[] = []
  let seen = 0
  for (const file of files.filter(file => /^(?:docs\/[\w/-]+|[\w-]+)\.md$/.test(file))) {
    for (const [, indent = '', block = ''] of read(file).matchAll(/^( *)```ts\n([\s\S]*?)^\1```$/gm)) {
      // Pieces of a file do not all parse by themselves.
      const code = block.replaceAll(new RegExp(`^${indent}`, 'gm'), '')
      if (!code.startsWith('import ')) continue
      seen++
      // Without the loaders that the runner of tests gives to every child.
      const { stdout, stderr } = spawnSync(
        'env',
        [
          '-u',
          'NODE_OPTIONS',
          process.execPath,
          resolve(root, 'node_modules/oxfmt/bin/oxfmt'),
          '-c',
          resolve(root, '.oxfmtrc.json'),
          '--stdin-filepath',
          'snippet.ts'
        ],
        { input: code, cwd: root, encoding: 'utf8' }
      )
      if (stdout !== code) wrong.push(`${file}: ${code.split('\n', 1)[0]} ${stderr}`)
    }
  }
  t.ok(seen > 3, `${seen} are found`)
  t.same(wrong, [])
})
