import { globSync, readFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import t from 'tap'

const root = resolve(import.meta.dirname, '..')

/** Room and sub-room of a file: `selling` and `balances` of src/selling/balances/meter.ts. */
function placeOf(file: string) {
  const [top = '', room = '', part = ''] = file.split('/')
  if (top === 'plugins') return { room: 'plugins', part: '.' }
  return { room, part: part.endsWith('.ts') && ROOMS[room]?.flat().includes(part) !== true ? '.' : part }
}

interface Import {
  readonly from: string
  readonly to: string
  readonly typeOnly: boolean
}

function importsOf(file: string) {
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

/**
 * The rooms of src from the highest to the lowest: each imports lower rooms only. A row lists a room's sub-rooms in the
 * same way; those in brackets share a level. `.` means the files beside the sub-rooms that the row does not name.
 */
const ROOMS: Readonly<Record<string, ReadonlyArray<string | readonly string[]>>> = {
  app: [
    '.',
    'commands',
    'first-start.ts',
    'cli',
    'compose.ts',
    'composition',
    ['demo', 'discovery'],
    ['image-making.ts', 'image.ts', 'master-check.ts', 'plugins.ts', 'secrets.ts']
  ],
  shop: [
    '.',
    'pages',
    'orders',
    'stores',
    ['sandbox', 'shopify'],
    ['cart.ts', 'countries.ts', 'credentials.ts', 'platform.ts', 'schema.ts', 'store-errors.ts']
  ],
  plans: ['.', ['bitcoin', 'sandbox', 'stripe'], ['plans.ts', 'provider.ts']],
  web: ['pay', 'console', 'sign-in', 'mail', 'admin', 'kit'],
  payments: ['webhooks', 'refunds', 'proxies', 'notifications', 'payments'],
  selling: [
    'sessions',
    'sales',
    'rpc',
    'balances',
    'challenges',
    'paywall',
    'minting',
    'verifying',
    'offers',
    'holding',
    'usage',
    'prices'
  ],
  accounts: ['traffic', 'audit', 'merchants'],
  lightning: ['providers', 'kinds', 'provider-calls', 'money', ['payment-scheme', 'l402', 'codecs']],
  engine: [
    'upstream',
    'openapi',
    ['listener', 'lane', 'http2'],
    'pipeline',
    ['message', 'operations', 'formats'],
    ['sections', 'config', 'checks']
  ],
  platform: ['jobs', 'database', 'state', 'keys', 'telemetry', 'system']
}
const ORDER = Object.keys(ROOMS)
const between = imports.filter(({ from, to }) => to.startsWith('src/') && placeOf(from).room !== placeOf(to).room)

t.test('every folder of src has its row', async t => {
  t.same([...new Set(files.map(file => placeOf(file).room))].sort(), [...ORDER, 'index.ts', 'plugins'].sort())
  for (const [room, row] of Object.entries(ROOMS)) {
    const parts = files.map(placeOf).filter(place => place.room === room)
    t.same([...new Set(parts.map(({ part }) => part))].sort(), row.flat().sort(), room)
  }
})

t.test('the picture shows the rooms and their sub-rooms, from top to bottom', async t => {
  const picture = readFileSync(resolve(root, 'docs/images/rooms.svg'), 'utf8')
  t.same(
    [...picture.matchAll(/<text class="(?:name|sub)"[^>]*>([^<]+)</g)].map(([, name]) => name),
    Object.entries(ROOMS).flatMap(([room, row]) => [room, ...row.flat().filter(part => !part.includes('.'))])
  )
})

t.test('a room has at most 12 sub-rooms, and each folder at most 20 files', async t => {
  for (const room of ORDER) {
    const parts = new Set(
      files.map(placeOf).flatMap(place => (place.room === room && !place.part.includes('.') ? [place.part] : []))
    )
    t.ok(parts.size <= 12, `${room} has ${parts.size}`)
  }
  const folders = Map.groupBy(files, file => dirname(file))
  t.same(
    [...folders].filter(([, list]) => list.length > 20).map(([folder, list]) => `${folder} has ${list.length}`),
    []
  )
})

t.test('the reader of imports finds them', async t => {
  t.ok(files.length > 80)
  t.ok(imports.some(({ from, to }) => from === 'plugins/throttle.ts' && to === 'src/index.ts'))
  t.ok(
    imports.some(
      ({ from, to, typeOnly }) =>
        from === 'src/engine/pipeline/gateway.ts' && to === 'src/engine/pipeline/snapshot.ts' && typeOnly
    )
  )
})

t.test('rooms import lower rooms only, types too', async t => {
  const wrong = between
    .filter(({ from }) => from !== 'src/index.ts' && !from.startsWith('plugins/'))
    .filter(({ from, to }) => ORDER.indexOf(placeOf(from).room) > ORDER.indexOf(placeOf(to).room))
    // The console shows what the API of a higher room returns, and asks it in-process.
    .filter(
      ({ from, to, typeOnly }) => !(typeOnly && from.startsWith('src/web/console/') && /^src\/(shop|plans)\//.test(to))
    )
  t.same(
    wrong.map(({ from, to }) => `${from} → ${to}`),
    []
  )
})

t.test('sub-rooms import sub-rooms of their level or below, types too', async t => {
  const level = (file: string) => {
    const { room, part } = placeOf(file)
    return ROOMS[room]?.findIndex(entry => entry === part || (typeof entry !== 'string' && entry.includes(part))) ?? -1
  }
  const wrong = imports
    .filter(({ from, to }) => placeOf(from).room === placeOf(to).room)
    .filter(({ from, to }) => level(from) > level(to))
  t.same(
    wrong.map(({ from, to }) => `${from} → ${to}`),
    []
  )
})

t.test('plugins import the public API only', async t => {
  const wrong = imports.filter(({ from, to }) => from.startsWith('plugins/') && to !== 'src/index.ts')
  t.same(
    wrong.filter(({ to }) => !to.startsWith('plugins/')).map(({ from, to }) => `${from} → ${to}`),
    []
  )
})

/** Modules of domains that the composition uses before, or without, opening the domain. */
const LEAVES = ['src/accounts/merchants/holdings.ts', 'src/accounts/merchants/principal.ts', 'src/web/pay/paywall.ts']

t.test('the composition imports only the open.ts of a domain', async t => {
  const fronts = new Map(files.filter(file => file.endsWith('/open.ts')).map(file => [dirname(file), file]))
  for (const folder of ['src/accounts/merchants', 'src/shop', 'src/app/demo']) t.ok(fronts.has(folder), folder)
  const wrong = imports.filter(({ from, to, typeOnly }) => {
    const front = fronts.get(dirname(to))
    const composes = /^src\/app\/(composition\/|compose\.ts)/.test(from) && !typeOnly
    return composes && front !== undefined && front !== to && !LEAVES.includes(to)
  })
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
  const visit = (file: string, path: readonly string[]) => {
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
function exportsOf(file: string) {
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

t.test('the database client is made in one place, and its internals are used by its fixes only', async t => {
  const makes = files.filter(file => / postgres\(/.test(readFileSync(resolve(root, file), 'utf8')))
  t.same(makes, ['src/platform/database/postgres/client.ts'])
  const reach = imports
    .filter(({ to }) => to === 'src/platform/database/postgres/inside.ts')
    .map(({ from }) => dirname(from))
  t.same([...new Set(reach)], ['src/platform/database/postgres'])
})

t.test('a response is called one, also that of a provider (docs/reference/glossary.md)', async t => {
  const named = files
    .filter(file => file.startsWith('src/'))
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
