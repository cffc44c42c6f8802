import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test as T } from 'tap'
import { temporaryFolder } from '../support/database.ts'
import { defaultYaml, rootFolder } from '../support/gateway.ts'
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
 * Starts a gateway with the plugin of the guide in `folder`, and has it refuse somebody: an error class of a second
 * copy would be a stranger to the gateway, which answers those with 500.
 */
async function runsPluginOfGuide(t: T, folder: string, program: string): Promise<void> {
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
function layOut(built: string, app: string): void {
  const [, last = ''] = readFileSync(join(rootFolder, 'Dockerfile'), 'utf8')
    .split(/^FROM .*$/m)
    .slice(-2)
  let copied = 0
  for (const [, from, what = ''] of last.matchAll(/^COPY (?:--from=(\w+) )?(.+)$/gm)) {
    const names = what.split(' ')
    const to = names.pop() ?? ''
    for (const name of names) {
      const source = from === undefined ? join(rootFolder, name) : join(built, name.replace(/^\/app\//, ''))
      const target = to.endsWith('/') ? join(app, to, name) : join(app, to)
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

t.test('the packed package starts and sells from what was built', async t => {
  // Packed from a copy, so that building leaves nothing in the checkout.
  const source = temporaryFolder(t)
  for (const name of [
    'package.json',
    'tsconfig.json',
    'tsconfig.build.json',
    'src',
    'plugins',
    'docs',
    'gateway.yaml',
    'CHANGELOG.md',
    'LICENSE',
    'README.md'
  ]) {
    if (existsSync(join(rootFolder, name))) cpSync(join(rootFolder, name), join(source, name), { recursive: true })
  }
  symlinkSync(join(rootFolder, 'node_modules'), join(source, 'node_modules'))
  const target = temporaryFolder(t)
  const env = { HOME: target, PATH: `${join(rootFolder, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}` }
  const { stdout } = await execute('npm', ['pack', '--json', '--loglevel=error', '--pack-destination', target], {
    cwd: source,
    env
  })
  // The lifecycle script writes to the same stream before the report.
  const tarball = /"filename": "([^"]+)"/.exec(stdout)?.[1] ?? ''

  // Installed by hand beside the checkout's own dependencies, so that no registry is asked.
  const installed = join(target, 'node_modules/boltgate')
  mkdirSync(installed, { recursive: true })
  await execute('tar', ['xzf', join(target, tarball), '-C', installed, '--strip-components=1'])
  t.notOk(existsSync(join(installed, 'src/app/main.ts')), 'no sources are shipped')
  t.notOk(existsSync(join(installed, 'test')))
  symlinkSync(join(rootFolder, 'node_modules'), join(installed, 'node_modules'))

  const bin = join(installed, 'src/app/cli/boltgate.mjs')
  const check = await execute(process.execPath, [bin, 'check', '--config', join(installed, 'gateway.yaml')], {
    cwd: target,
    env
  })
  t.match(check.stdout, /gateway\.yaml is valid/)
  const gateway = await spawnGateway(t, { yaml: defaultYaml(), program: bin })
  for (const scheme of ['l402', 'payment']) {
    const paid = await execute(process.execPath, [bin, 'pay', `${gateway.url}/demo/quote`, '--scheme', scheme], {
      cwd: target,
      env
    })
    t.match(paid.stdout, /< 402\n[^]*< 200\n/, scheme)
  }
  gateway.kill('SIGTERM')
  t.match(await gateway.ended, { code: 0 })

  writeFileSync(
    join(target, 'own.mjs'),
    `
    import { definePlugin, harness, ShortError, Type } from 'boltgate'
    const own = definePlugin({ name: 'own', config: Type.Object({}), setup: () => ({ request () { throw new ShortError(418, 'tea') } }) })
    const chain = await harness([{ plugin: own, config: {} }], {})
    process.stdout.write(String((await chain.run({ target: '/' })).status))`
  )
  t.equal(
    (await execute(process.execPath, [join(target, 'own.mjs')], { cwd: target, env })).stdout,
    '418',
    'a plugin imports from the package'
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
