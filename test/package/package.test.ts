import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { temporaryFolder } from '../support/database.ts'
import { defaultYaml, rootFolder } from '../support/gateway.ts'
import { spawnGateway } from '../support/gateway-process.ts'

const executeFile = promisify(execFile)

/** Runs a program without the loaders that tap puts into every child's NODE_OPTIONS, which would run in the compiler as well. */
const execute = (program: string, args: readonly string[], options: { readonly cwd?: string, readonly env?: NodeJS.ProcessEnv } = {}) => executeFile('env', ['-u', 'NODE_OPTIONS', program, ...args], options)

t.test('the packed package starts and sells from what was built', async t => {
  // Packed from a copy, so that building leaves nothing in the checkout.
  const source = temporaryFolder(t)
  for (const name of ['package.json', 'tsconfig.json', 'tsconfig.build.json', 'src', 'plugins', 'docs', 'gateway.yaml', 'CHANGELOG.md', 'LICENSE', 'README.md']) {
    if (existsSync(join(rootFolder, name))) cpSync(join(rootFolder, name), join(source, name), { recursive: true })
  }
  symlinkSync(join(rootFolder, 'node_modules'), join(source, 'node_modules'))
  const target = temporaryFolder(t)
  const env = { HOME: target, PATH: `${join(rootFolder, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}` }
  const { stdout } = await execute('npm', ['pack', '--json', '--loglevel=error', '--pack-destination', target], { cwd: source, env })
  // The lifecycle script writes to the same stream before the report.
  const tarball = /"filename": "([^"]+)"/.exec(stdout)?.[1] ?? ''

  // Installed by hand beside the checkout's own dependencies, so that no registry is asked.
  const installed = join(target, 'node_modules/boltgate')
  mkdirSync(installed, { recursive: true })
  await execute('tar', ['xzf', join(target, tarball), '-C', installed, '--strip-components=1'])
  t.notOk(existsSync(join(installed, 'src/main.ts')), 'no sources are shipped')
  t.notOk(existsSync(join(installed, 'test')))
  symlinkSync(join(rootFolder, 'node_modules'), join(installed, 'node_modules'))

  const bin = join(installed, 'src/cli/boltgate.mjs')
  const check = await execute(process.execPath, [bin, 'check'], { cwd: target, env })
  t.match(check.stdout, /gateway\.yaml is valid/)
  const gateway = await spawnGateway(t, { yaml: defaultYaml(), program: bin })
  for (const scheme of ['l402', 'payment']) {
    const paid = await execute(process.execPath, [bin, 'pay', `${gateway.url}/demo/quote`, '--scheme', scheme], { cwd: target, env })
    t.match(paid.stdout, /< 402\n[^]*< 200\n/, scheme)
  }
  gateway.kill('SIGTERM')
  t.match(await gateway.ended, { code: 0 })

  writeFileSync(join(target, 'own.mjs'), `
    import { definePlugin, harness, ShortError, Type } from 'boltgate'
    const own = definePlugin({ name: 'own', config: Type.Object({}), setup: () => ({ request () { throw new ShortError(418, 'tea') } }) })
    const chain = await harness([{ plugin: own, config: {} }], {})
    process.stdout.write(String((await chain.run({ target: '/' })).status))`)
  t.equal((await execute(process.execPath, [join(target, 'own.mjs')], { cwd: target, env })).stdout, '418', 'a plugin imports from the package')
})
