import { spawn } from 'node:child_process'
import { existsSync, readdirSync, realpathSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { join } from 'node:path'
import t, { type Test as T } from 'tap'
import { temporaryFolder } from '../../support/database.ts'
import { rootFolder } from '../../support/gateway.ts'

/** The command line in a folder, without what tap asks of its children; it ends with the test at the latest. */
function boltgate(t: T, folder: string, args: readonly string[]) {
  const child = spawn(
    'env',
    ['-u', 'NODE_OPTIONS', process.execPath, join(rootFolder, 'src/app/cli/boltgate.mjs'), ...args],
    {
      cwd: folder,
      env: { PATH: process.env['PATH'] ?? '', HOST: '127.0.0.1', PORT: '0' },
      stdio: ['ignore', 'pipe', 'pipe']
    }
  )
  t.teardown(() => child.kill('SIGKILL'))
  const err: string[] = []
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err.push(text)
  })
  const ended = new Promise<number | null>(resolve => {
    child.once('close', resolve)
  })
  return { child, ended, err: () => err.join('') }
}

async function refused(t: T, folder: string, args: readonly string[]) {
  const command = boltgate(t, folder, args)
  command.child.stdout.resume()
  t.equal(await command.ended, 2, args.join(' '))
  return command.err()
}

const READ_A_FILE = [
  ['check'],
  ['routes'],
  ['keys', 'rotate'],
  ['keys', 'rotate', '--admin'],
  ['revoke', '--merchant', 'm']
] as const

t.test('no command but start takes a file that is not of its folder', async t => {
  const folder = temporaryFolder(t)
  for (const args of READ_A_FILE)
    t.equal(
      await refused(t, folder, args),
      `There is no gateway.yaml here; name one with --config. [BG_USAGE]\n\nRun \`boltgate ${args[0]} --help\` for usage.\n`
    )
  t.same(readdirSync(folder), [], 'and nothing is written')
})

t.test('a file that was probably meant is named, to start as well', async t => {
  for (const name of ['gateway.yml', 'Gateway.yaml', 'gatway.yaml']) {
    const folder = temporaryFolder(t)
    writeFileSync(join(folder, name), 'routes: []\n')
    for (const args of [['check'], ['start']])
      t.equal(
        await refused(t, folder, args),
        `There is no gateway.yaml here, but there is ${name}; rename it, or name it with --config. [BG_USAGE]\n\nRun \`boltgate ${args[0]} --help\` for usage.\n`
      )
  }
})

t.test('start in a folder without one runs the demo, says so, and keeps its data in that folder', async t => {
  const folder = realpathSync(temporaryFolder(t))
  // Stays unclaimed.
  writeFileSync(join(folder, 'compose.yaml'), '')
  const { child, ended, err } = boltgate(t, folder, ['start'])
  const said: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.startsWith('{')) said.push(line)
    if (line.startsWith('  Keys:')) child.kill('SIGTERM')
  }
  t.equal(await ended, 0)
  t.match(
    err(),
    `There is no gateway.yaml here: this runs the demo of the package, with its data in ${join(folder, 'data')}.`
  )
  t.match(said.join('\n'), `(npx boltgate routes --config ${join(rootFolder, 'gateway.yaml')})`)
  t.match(said.join('\n'), `  Keys:    ${join(folder, 'data/keys.json')}`)
  t.ok(existsSync(join(folder, 'data/keys.json')))
})
