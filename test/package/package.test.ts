import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test as T } from 'tap'
import { temporaryFolder } from '../support/database.ts'
import { rootFolder } from '../support/gateway.ts'
import { spawnGateway } from '../support/gateway-process.ts'

const executeFile = promisify(execFile)

/**
 * Runs a program without the loaders that tap puts into every child's NODE_OPTIONS, which would run in the compiler as
 * well.
 */
const execute = (
  program: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {}
) => executeFile('env', ['-u', 'NODE_OPTIONS', program, ...args], options)

/**
 * Starts a gateway with the plugin of the guide in `folder`, and has it refuse a request: an error class of a second
 * copy would be unknown to the gateway, which answers those with 500.
 */
async function runsPluginOfGuide(t: T, folder: string, program: string) {
  const plugin = join(folder, 'greeting.ts')
  writeFileSync(plugin, readFileSync(join(rootFolder, 'docs/examples/hello-header.ts')))
  const gateway = await spawnGateway(t, {
    program,
    documented: false,
    yaml: `chains: { greeted: [ ${JSON.stringify(plugin)}: { greeting: good morning, refuse: [ eve ] } ] }
routes: [ { match: { path: /* }, chain: greeted, upstream: { internal: api } } ]
server: { listen: "127.0.0.1:\${PORT}" }
data: "\${BOLTGATE_DATA}"
`
  })
  const greeted = await gateway.send('GET', '/health', { headers: { 'x-caller': 'ada' } })
  t.match(greeted, { status: 200, headers: { 'x-hello': 'good morning, ada' } })
  const refused = await gateway.send('GET', '/health', { headers: { 'x-caller': 'eve' } })
  t.match(refused, { status: 403, text: '{"error":"There is no greeting for eve."}' })
  gateway.kill('SIGTERM')
  t.match(await gateway.ended, { code: 0 })
}

/** Lays files out as the last stage of the Dockerfile does, with `built` for what its build stage leaves. */
function layOut(built: string, app: string) {
  const [, last = ''] = readFileSync(join(rootFolder, 'Dockerfile'), 'utf8')
    .split(/^FROM .*$/m)
    .slice(-2)
  let copied = 0
  for (const [, from, what = ''] of last.matchAll(/^COPY (?:--from=(\w+) )?(?:--chown=\S+ )?(.+)$/gm)) {
    const names = what.split(' ')
    const to = names.pop() ?? ''
    for (const name of names) {
      const [, file] = /^\/app\/(.+)/.exec(name) ?? []
      // Node and the data folder are outside; the notices are made in the build stage.
      if (from === undefined || file === undefined || file === 'THIRD-PARTY-NOTICES') continue
      const source = join(built, file)
      const target = to.endsWith('/') ? join(app, to, file) : join(app, to)
      mkdirSync(dirname(target), { recursive: true })
      if (name.endsWith('node_modules')) symlinkSync(join(rootFolder, 'node_modules'), target)
      else cpSync(source, target, { recursive: true })
      copied++
    }
  }
  if (copied < 4) throw new Error('the Dockerfile is no longer read')
}

t.test('a plugin as the guide writes it runs on the classes of the gateway in a checkout', async t => {
  await runsPluginOfGuide(t, temporaryFolder(t), join(rootFolder, 'src/app/cli/boltgate.mjs'))
})

t.test('a plugin that is read as CommonJS is refused with what would do', async t => {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }')
  writeFileSync(join(folder, 'own.js'), readFileSync(join(rootFolder, 'docs/examples/hello-header.ts'), 'utf8'))
  writeFileSync(join(folder, 'gateway.yaml'), 'chains: { a: [ ./own.js ] }\n')
  const failed: unknown = await execute(process.execPath, [join(rootFolder, 'src/app/cli/boltgate.mjs'), 'check'], {
    cwd: folder
  }).catch((error: unknown) => error)
  t.match(failed, {
    stderr:
      /gateway\.yaml:1:16: .*"\.\/own\.js" cannot be used: it is read as CommonJS; end its name in \.mts or \.mjs, or say "type": "module"/
  })
})

/** Folders below node_modules that an installation of the package gets, by the lock file. */
function productionPackages() {
  const { packages } = JSON.parse(readFileSync(join(rootFolder, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly dev?: true; readonly devOptional?: true }>>
  } /* npm writes it */
  return Object.keys(packages).filter(
    folder =>
      /^node_modules\/(?!.*node_modules)/.test(folder) && !packages[folder]?.dev && !packages[folder]?.devOptional
  )
}

t.test('the packed package is installed into an empty folder, configured, started and paid', async t => {
  // Packed from a copy, so that building leaves nothing in the checkout.
  const source = temporaryFolder(t)
  for (const name of ['.ci', 'src', 'plugins', 'docs'])
    cpSync(join(rootFolder, name), join(source, name), { recursive: true })
  for (const name of readdirSync(rootFolder))
    if (/^(?:package|tsconfig.*)\.json$|\.md$|^LICENSE$|^gateway\.yaml$/.test(name))
      cpSync(join(rootFolder, name), join(source, name))
  symlinkSync(join(rootFolder, 'node_modules'), join(source, 'node_modules'))
  const target = temporaryFolder(t)
  const env = { HOME: target, PATH: `${join(rootFolder, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}` }
  // As the release workflow does.
  await execute(process.execPath, ['.ci/manifest.mjs'], { cwd: source, env: { GITHUB_REPOSITORY: 'example/boltgate' } })
  const readme = readFileSync(join(source, 'README.md'), 'utf8')
  t.match(readme, /!\[[^\]]*\]\(https:\/\/github\.com\/example\/boltgate\/raw\/v[\d.]+\/docs\/images\/[\w-]+\.\w+\)/)
  t.notMatch(readme, /\]\((?!https?:|#)/, 'no link is relative on the page of a registry')
  const commit = '0123456789abcdef0123456789abcdef01234567'
  const { stdout } = await execute('npm', ['pack', '--json', '--loglevel=error', '--pack-destination', target], {
    cwd: source,
    env: { ...env, BOLTGATE_COMMIT: commit, SOURCE_DATE_EPOCH: '1800000000' }
  })
  // The lifecycle script writes to the same stream before the report.
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('[\n'))) as [
    { readonly filename: string; readonly size: number; readonly files: ReadonlyArray<{ readonly path: string }> }
  ] /* npm's report of one package */
  t.ok(packed.size <= 2_000_000, `${packed.size} bytes`)
  const surplus = /\.(?:png|svg|map)$|decisions|\/adr\/|^src\/.*\.ts$|^test\//
  t.same(
    packed.files.filter(({ path }) => surplus.test(path)),
    [],
    'no sources, pictures or decisions'
  )

  const { scripts } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8')) as { readonly scripts: object }
  t.notOk(
    ['preinstall', 'install', 'postinstall', 'prepare'].some(name => name in scripts),
    'npm warns of each that an installation would run'
  )

  // As npm would install it, with copies of the checkout's dependencies, so that no registry is asked and nothing else found.
  const modules = join(target, 'node_modules')
  const installed = join(modules, 'boltgate')
  mkdirSync(installed, { recursive: true })
  mkdirSync(join(modules, '.bin'))
  await execute('tar', ['xzf', join(target, packed.filename), '-C', installed, '--strip-components=1'])
  await execute('cp', ['-a', '--parents', ...productionPackages(), target], { cwd: rootFolder })
  symlinkSync('../boltgate/src/app/cli/boltgate.mjs', join(modules, '.bin/boltgate'))
  writeFileSync(join(target, 'package.json'), '{ "private": true, "type": "module" }')
  const boltgate = async (...args: string[]) =>
    (await execute(join(modules, '.bin/boltgate'), args, { cwd: target, env })).stdout

  const sale = ['--sell', 'files', '--upstream', 'node_modules/boltgate', '--price', '7 sats']
  const wrote = await execute('npx', ['--no-install', 'boltgate', 'init', ...sale], { cwd: target, env })
  t.match(wrote, { stdout: /Wrote gateway\.yaml/, stderr: '' })
  t.match(await boltgate('--version'), /^\d+\.\d+\.\d+ \(commit 0123456789ab, built 2027-01-15T08:00:00\.000Z\)\n$/)
  t.match(await boltgate('check'), /gateway\.yaml is valid/)
  const bin = join(installed, 'src/app/cli/boltgate.mjs')
  const yaml = readFileSync(join(target, 'gateway.yaml'), 'utf8').replace('node_modules/boltgate', installed)
  const gateway = await spawnGateway(t, { yaml, program: bin })
  for (const scheme of ['l402', 'payment'])
    t.match(
      await boltgate('pay', `${gateway.url}/files/LICENSE`, '--scheme', scheme),
      /< 402\n[^]*< 200\n[^]*MIT License/,
      scheme
    )
  gateway.kill('SIGTERM')
  t.match(await gateway.ended, { code: 0 })

  writeFileSync(
    join(target, 'own.ts'),
    `import { definePlugin, ShortError, Type } from 'boltgate'
     import { harness } from 'boltgate/harness'
     const own = definePlugin({ name: 'own', config: Type.Object({}), setup: () => ({
       request () { throw new ShortError(418, 'tea') }
     }) })
     const chain = await harness([{ plugin: own, config: {} }], {})
     const { status } = await chain.run({ target: '/' })
     process.stdout.write(String(status))`
  )
  t.equal(
    (await execute(process.execPath, ['own.ts'], { cwd: target, env })).stdout,
    '418',
    'a plugin imports from the package'
  )
  const types = [
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--lib',
    'es2024,esnext.disposable',
    '--strict',
    '--noEmit'
  ]
  await execute(
    'tsc',
    [...types, '--types', 'node', '--typeRoots', join(rootFolder, 'node_modules/@types'), 'own.ts'],
    {
      cwd: target,
      env
    }
  )

  await t.test(
    'a plugin as the guide writes it runs on the classes of the gateway in an installed package',
    async t => {
      await runsPluginOfGuide(t, target, bin)
      await runsPluginOfGuide(t, temporaryFolder(t), bin)
    }
  )
  await t.test('and in the image, beside its gateway.yaml and elsewhere', async t => {
    const app = join(temporaryFolder(t), 'app')
    layOut(installed, app)
    await runsPluginOfGuide(t, app, join(app, 'src/app/cli/boltgate.mjs'))
    await runsPluginOfGuide(t, temporaryFolder(t), join(app, 'src/app/cli/boltgate.mjs'))
  })
})
