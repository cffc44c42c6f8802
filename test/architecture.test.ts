import { globSync, readFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import t from 'tap'

const root = resolve(import.meta.dirname, '..')

/** Room of a file: its folder under src, `plugins`, or the file itself for those that stand alone. */
function roomOf(file: string): string {
  const [top = '', second = ''] = file.split('/')
  if (top === 'plugins') return 'plugins'
  return second.endsWith('.ts') || second.endsWith('.mjs') ? `${top}/${second}` : second
}

interface Import {
  readonly from: string
  readonly to: string
  readonly typeOnly: boolean
}

function importsOf(file: string): Import[] {
  const text = readFileSync(resolve(root, file), 'utf8')
  const found: Import[] = []
  for (const [, keyword = '', names = '', target = ''] of text.matchAll(
    /^(?:import|export) (type )?([^'"]*?)(?:from )?['"](\.[^'"]+)['"]/gm
  )) {
    const everyNameIsType =
      /^\{[^}]*\}/.test(names) &&
      names
        .replaceAll(/[{}]|from/g, '')
        .split(',')
        .every(name => name.trim() === '' || name.trim().startsWith('type '))
    found.push({
      from: file,
      to: relative(root, resolve(root, dirname(file), target)),
      typeOnly: keyword !== '' || everyNameIsType
    })
  }
  return found
}

const files = globSync(['src/**/*.ts', 'plugins/*.ts'], { cwd: root }).sort()
const imports = files.flatMap(importsOf)

/** What each room may import, besides itself. Types alone are looser: they vanish when the program runs. */
const BELOW = ['database', 'jobs', 'state', 'keys', 'telemetry', 'system']
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  system: [],
  telemetry: ['system'],
  keys: ['system'],
  state: ['telemetry', 'system'],
  database: ['telemetry', 'system'],
  jobs: ['database', 'telemetry', 'system'],
  lightning: [],
  errors: [],
  config: ['lightning', 'errors', 'system'],
  gateway: ['config', 'database', 'errors'],
  http: ['gateway', 'system'],
  upstream: ['gateway', 'config', 'system'],
  providers: ['lightning', 'money', 'upstream', 'gateway', ...BELOW],
  money: ['gateway', ...BELOW],
  prices: ['money', 'gateway', 'config', ...BELOW],
  merchants: ['providers', 'upstream', 'gateway', ...BELOW],
  payments: ['money', 'lightning', 'providers', 'merchants', 'gateway', ...BELOW],
  refunds: ['payments', 'lightning', 'providers', 'merchants', 'gateway', ...BELOW],
  audit: ['merchants', 'gateway', ...BELOW],
  admin: ['merchants', 'pages', 'providers', 'traffic', 'config', 'gateway', ...BELOW],
  traffic: ['merchants', 'gateway', ...BELOW],
  pages: ['payments', 'prices', 'money', 'config', 'lightning', 'gateway', ...BELOW],
  webhooks: ['money', 'payments', 'challenges', 'merchants', 'upstream', 'gateway', ...BELOW],
  notifications: ['payments', 'refunds', 'challenges', 'merchants', 'providers', 'gateway', ...BELOW],
  mail: ['payments', 'money', 'merchants', 'pages', 'config', 'gateway', ...BELOW],
  challenges: ['lightning', 'prices', 'money', 'providers', 'merchants', 'gateway', 'config', ...BELOW],
  sales: ['challenges', 'merchants', 'gateway', ...BELOW],
  rpc: ['challenges', 'prices', 'lightning', 'gateway', 'config', 'system'],
  usage: ['gateway'],
  balances: ['challenges', 'prices', 'usage', 'money', 'merchants', 'config', 'gateway', ...BELOW],
  proxies: ['config', 'prices', 'challenges', 'merchants', 'providers', 'lightning', 'upstream', 'gateway', ...BELOW],
  sessions: ['balances', 'challenges', 'refunds', 'lightning', 'providers', 'config', 'gateway', ...BELOW],
  console: ['pages', 'payments', 'sign-in', 'gateway', ...BELOW],
  storefront: [
    'challenges',
    'lightning',
    'money',
    'merchants',
    'mail',
    'pages',
    'providers',
    'refunds',
    'upstream',
    'gateway',
    'config',
    ...BELOW
  ],
  billing: [
    'challenges',
    'lightning',
    'money',
    'merchants',
    'admin',
    'mail',
    'pages',
    'payments',
    'providers',
    'upstream',
    'gateway',
    'config',
    ...BELOW
  ],
  'sign-in': ['merchants', 'mail', 'pages', 'gateway', ...BELOW],
  discovery: ['gateway', 'config'],
  demo: ['gateway'],
  plugins: ['src/index.ts']
}

/** What a payment credential is known by, for those who pass on what is none: it imports nothing itself. */
const PAYMENT_HEADERS = 'src/lightning/payment-headers.ts'
const mayKnowPaymentHeaders = ({ from, to }: Import): boolean =>
  to === PAYMENT_HEADERS && ['http', 'upstream'].includes(roomOf(from))

t.test('every folder of src has its row', async t => {
  const known = new Set([...Object.keys(MAY_IMPORT), 'cli', 'composition'])
  t.same(
    [...new Set(files.map(roomOf))].filter(room => !room.includes('/') && !known.has(room)),
    []
  )
})

t.test('the reader of imports finds them', async t => {
  t.ok(files.length > 80)
  t.ok(imports.some(({ from, to }) => from === 'plugins/throttle.ts' && to === 'src/index.ts'))
  t.ok(
    imports.some(
      ({ from, to, typeOnly }) => from === 'src/gateway/gateway.ts' && to === 'src/gateway/snapshot.ts' && typeOnly
    )
  )
})

for (const [room, allowed] of Object.entries(MAY_IMPORT)) {
  t.test(`${room} imports nothing but ${['itself', ...allowed].join(', ')}`, async t => {
    const wrong = imports
      .filter(found => !mayKnowPaymentHeaders(found))
      .filter(
        ({ from, to, typeOnly }) =>
          roomOf(from) === room && !typeOnly && roomOf(to) !== room && !allowed.includes(roomOf(to))
      )
    t.same(
      wrong.map(({ from, to }) => `${from} → ${to}`),
      []
    )
  })
}

t.test('the engine, the listener and the forwarder know no domain, not even its types', async t => {
  const domains = new Set([
    'lightning',
    'money',
    'prices',
    'challenges',
    'balances',
    'sessions',
    'usage',
    'providers',
    'merchants',
    'proxies',
    'payments',
    'refunds',
    'audit',
    'admin',
    'pages',
    'webhooks',
    'notifications',
    'mail',
    'storefront',
    'billing',
    'sign-in',
    'discovery',
    'demo'
  ])
  const wrong = imports
    .filter(
      ({ from, to }) => ['gateway', 'http', 'upstream', 'config'].includes(roomOf(from)) && domains.has(roomOf(to))
    )
    // The configuration checks realms with the scheme's own rule.
    .filter(({ from, to }) => !(roomOf(from) === 'config' && roomOf(to) === 'lightning'))
    // What is admitted as a payment and what is kept back from upstreams is one definition.
    .filter(found => !mayKnowPaymentHeaders(found))
  t.same(
    wrong.map(({ from, to }) => `${from} → ${to}`),
    []
  )
  t.same(
    imports.filter(({ from }) => from === PAYMENT_HEADERS),
    [],
    'the one file of a domain that they know brings no other with it'
  )
})

t.test('only the composition knows every domain', async t => {
  const rooms = new Map<string, Set<string>>()
  for (const { from, to } of imports) {
    if (!from.startsWith('src/')) continue
    const list = rooms.get(from) ?? new Set()
    rooms.set(from, list.add(roomOf(to)))
  }
  const knowAll = [...rooms]
    .filter(([, list]) => ['challenges', 'merchants', 'proxies', 'payments', 'refunds'].every(room => list.has(room)))
    .map(([file]) => file)
  t.same(knowAll, ['src/composition/parts.ts'])
})

t.test('composition knows of a domain what its open.ts gives', async t => {
  const domains = new Set(Object.keys(MAY_IMPORT).filter(room => files.includes(`src/${room}/open.ts`)))
  for (const room of ['merchants', 'payments', 'storefront', 'demo']) t.ok(domains.has(room), room)
  const wrong = imports.filter(
    ({ from, to, typeOnly }) =>
      (roomOf(from) === 'composition' || from === 'src/compose.ts') &&
      !typeOnly &&
      domains.has(roomOf(to)) &&
      to !== `src/${roomOf(to)}/open.ts`
  )
  t.same(
    wrong.map(({ from, to }) => `${from} → ${to}`),
    []
  )
})

t.test('no import goes round in a circle', async t => {
  const graph = new Map<string, string[]>()
  for (const { from, to, typeOnly } of imports) if (!typeOnly) graph.set(from, [...(graph.get(from) ?? []), to])
  const done = new Set<string>()
  const circles: string[] = []
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' → '))
    if (done.has(file) || path.includes(file)) return
    for (const next of graph.get(file) ?? []) visit(next, [...path, file])
    done.add(file)
  }
  for (const file of graph.keys()) visit(file, [])
  t.same(circles, [])
})

t.test('the only barrel is src/index.ts', async t => {
  const barrels = files.filter(file => {
    const code = readFileSync(resolve(root, file), 'utf8').replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, '')
    const statements = code.match(/^\S[^]*?(?=^[a-z]|(?![^]))/gm) ?? []
    return statements.length > 1 && statements.every(statement => /^export [^]* from '[^']+'\s*$/.test(statement))
  })
  t.same(barrels, ['src/index.ts'])
})

/** What a file of src exports by its own name, whatever it is. */
function exportsOf(file: string): string[] {
  const text = readFileSync(resolve(root, file), 'utf8')
  return [
    ...new Set(
      [
        ...text.matchAll(
          /^export (?:declare )?(?:abstract )?(?:async )?(?:interface|type|class|function\*?|const|let|enum) (\w+)/gm
        )
      ].map(([, name = '']) => name)
    )
  ]
}

t.test('the database client is made in one place, and its inside is known to its mends alone', async t => {
  const makes = files.filter(file => / postgres\(/.test(readFileSync(resolve(root, file), 'utf8')))
  // arrays.ts makes one that connects to nothing, to ask it how values travel.
  t.same(makes, ['src/database/postgres/arrays.ts', 'src/database/postgres/client.ts'])
  const reach = imports.filter(({ to }) => to === 'src/database/postgres/inside.ts').map(({ from }) => dirname(from))
  t.same([...new Set(reach)], ['src/database/postgres'])
})

t.test('an HTTP response is called one: what is named an answer comes from a provider (docs/glossary.md)', async t => {
  const named = files
    .filter(file => file.startsWith('src/') && !file.startsWith('src/providers/'))
    .flatMap(exportsOf)
    .filter(name => /Answer/.test(name))
  // Plugins of others are tested with this name.
  t.same(named, ['HarnessAnswer'])
})

t.test('each exported name has one meaning: no two files declare the same', async t => {
  const declared = new Map<string, string[]>()
  for (const file of files.filter(file => file.startsWith('src/'))) {
    for (const name of exportsOf(file)) declared.set(name, [...(declared.get(name) ?? []), file])
  }
  t.ok(declared.size > 1_000, `${declared.size} names are found`)
  t.same(
    [...declared].filter(([, where]) => where.length > 1),
    []
  )
})
