import { spawnSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'
import { blocksOf, documented, FOLLOWED, guides } from './support/documents.ts'
import { loadText } from './support/gateway.ts'

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

/** Heading without the text in brackets after it, and all text below it, that of smaller headings too. */
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

const blocks = guides.flatMap(blocksOf)
/** Languages that show output, a picture or a message. */
const SHOWN = new Set(['', 'text', 'console', 'mermaid'])

t.test('every block of code runs in a test, or says why not', async t => {
  const followed = new Set<string>(Object.values(FOLLOWED).flat())
  const tests = globSync('test/**/*.test.ts', { cwd: root })
    .filter(file => !file.includes('node_modules'))
    .map(read)
    .join('\n')
  const unproved = blocks.filter(
    ({ page, language, name, isSkipped }) =>
      !isSkipped &&
      !SHOWN.has(language) &&
      language !== 'yaml' &&
      language !== 'json' &&
      !(language === 'sh' && followed.has(page)) &&
      !(name !== null && tests.includes(`documented('${name}')`))
  )
  t.same(
    unproved.map(({ page, language, text }) => `${page}: ${language} ${text.split('\n', 1)[0]}`),
    []
  )
  const named = blocks.flatMap(({ name }) => name ?? [])
  t.equal(new Set(named).size, named.length, 'each name is used once')
})

/** Values of the right form for what a file takes from the environment. */
const KEYS: Readonly<Record<string, string>> = {
  lnd: 'lndconnect://127.0.0.1:8080?macaroon=AgEDbG5k',
  phoenixd: 'phoenixd://127.0.0.1:9740?password=0123456789abcdef',
  cln: 'clnrest://127.0.0.1:3010?rune=0123456789abcdef0123456789abcdef',
  lnbits: 'lnbits+https://lnbits.example.com?key=0123456789abcdef0123456789abcdef',
  btcpay: 'btcpay+https://btcpay.example.com?store=CPTcEqjCK9TQJ1jPTgKuArTXz8pbqzb7Zi&key=0123456789abcdef',
  nwc: `nostr+walletconnect://${'a'.repeat(64)}?relay=wss%3A%2F%2Frelay.example.com&secret=${'b'.repeat(64)}`
}
function environmentOf(yaml: string): Record<string, string> {
  return Object.fromEntries(
    [...yaml.matchAll(/(?:kind: ([\w-]+)[^\n]*)?\$\{(\w+)\}/g)].map(([, kind = '', name = '']) => [
      name,
      KEYS[kind] ??
        { PORT: '0', DATABASE_URL: 'postgres://postgres@127.0.0.1/none', REDIS_URL: 'redis://127.0.0.1' }[name] ??
        'sk_live_0123456789'
    ])
  )
}

t.test('every block of YAML is a valid configuration, or a part of one', async t => {
  const route =
    'routes: [ { match: { path: /v1/* }, price: 10, chain: paid, upstream: { url: "http://127.0.0.1:9" } } ]'
  const invalid: string[] = []
  for (const { page, text } of blocks.filter(({ language, isSkipped }) => language === 'yaml' && !isSkipped)) {
    const yaml = (/^routes:/m.test(text) ? text : `${text}\n${route}\n`)
      .replace(/files: \S+\.pdf/, 'files: ./README.md')
      .replace(/files: \.\/books/, 'files: ./docs')
      .replace('./models.json', './test/selling/usage/vectors/models.json')
    try {
      await loadText(yaml, environmentOf(yaml))
    } catch (error) {
      invalid.push(`${page}: ${text.split('\n', 1)[0]}: ${String(error)}`)
    }
  }
  t.same(invalid, [])
})

t.test('every block of JSON can be parsed', async t => {
  for (const { page, text, language } of blocks) if (language === 'json') t.ok(JSON.parse(text), page)
})

t.test('every command that a guide names exists, with its flags', async t => {
  const unknown: string[] = []
  for (const { page, language, text } of blocks.filter(({ language }) => language === 'sh')) {
    for (const [line, command = '', rest = ''] of text
      .replaceAll('\\\n', ' ')
      .matchAll(/\bnpx boltgate ([a-z]+)([^\n|&;#)]*)/g)) {
      const help = helpOf(command)
      const flags = rest.replaceAll(/'[^']*'|"[^"]*"/g, '').match(/(?<=\s)--?[a-zA-Z][\w-]*/g) ?? []
      if (help === null || flags.some(flag => !help.includes(flag))) unknown.push(`${page} (${language}): ${line}`)
    }
  }
  t.same(unknown, [])
})

const cliPage = read('docs/reference/cli.md')
/** Help of a command, from the generated reference. */
function helpOf(command: string): string | null {
  return new RegExp(`^## boltgate ${command}\\n([\\s\\S]*?)(?=^## |(?![\\s\\S]))`, 'm').exec(cliPage)?.[1] ?? null
}

t.test('the references of commands and metrics are current', async t => {
  const { status, stderr } = runNode(['.ci/reference.mjs', '--check'])
  t.equal(status, 0, stderr)
})

/** Without the loaders that the test runner gives to every child. */
function runNode(args: readonly string[], input = ''): { status: number | null; stdout: string; stderr: string } {
  return spawnSync('env', ['-u', 'NODE_OPTIONS', process.execPath, ...args], { input, cwd: root, encoding: 'utf8' })
}

t.test('TypeScript in a guide passes the format as it is pasted', async t => {
  const files = blocks.filter(({ language, name }) => language === 'ts' && name !== null)
  t.ok(files.length > 1)
  for (const { page, text } of files) {
    const args = ['node_modules/oxfmt/bin/oxfmt', '-c', '.oxfmtrc.json', '--stdin-filepath', 'snippet.ts']
    t.equal(runNode(args, text).stdout, text, page)
  }
})

t.test('signatures of webhooks verify as the guide writes it, in three languages', async t => {
  const body = '{"status":"paid","description":"Käse"}'
  const secret = 'whsec_test'
  const now = Math.floor(Date.now() / 1000)
  const sign = (at: number, key = secret): string =>
    `t=${at},v1=${createHmac('sha256', key).update(`${at}.${body}`).digest('hex')}`
  const headers = [sign(now), sign(now - 400), sign(now, 'other'), 'nonsense']
  const folder = t.testdir({
    'package.json': '{"type":"module"}',
    'verify.ts': `${documented('verify.ts')}
for (const header of ${JSON.stringify(headers)})
  console.log(isGenuine(header, Buffer.from(${JSON.stringify(body)}), '${secret}'))\n`,
    'verify.py': `${documented('verify.py')}
for header in ${JSON.stringify(headers)}:
    print(str(is_genuine(header, ${JSON.stringify(body)}.encode(), '${secret}')).lower())\n`,
    go: {
      'go.mod': 'module example.com/webhook\n\ngo 1.22\n',
      'verify.go': documented('verify.go'),
      'verify_test.go': `package webhook
import "testing"
func TestIsGenuine(t *testing.T) {
	for i, header := range []string{${headers.map(header => JSON.stringify(header)).join(', ')}} {
		if IsGenuine(header, []byte(${JSON.stringify(body)}), "${secret}") != (i == 0) { t.Error(header) }
	}
}\n`
    }
  })
  t.equal(runNode([join(folder, 'verify.ts')]).stdout, 'true\nfalse\nfalse\nfalse\n', 'TypeScript')
  const python = spawnSync('python3', [join(folder, 'verify.py')], { encoding: 'utf8' })
  if (python.error === undefined) t.equal(python.stdout, 'true\nfalse\nfalse\nfalse\n', `Python ${python.stderr}`)
  const go = spawnSync('go', ['test', './...'], { cwd: join(folder, 'go'), encoding: 'utf8' })
  if (go.error === undefined) t.equal(go.status, 0, `Go ${go.stdout}${go.stderr}`)
})
