import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import type { Test as T } from 'tap'
import { defaultYaml, rootFolder } from '../../support/gateway.ts'
import { eventually, spawnGateway } from '../../support/gateway-process.ts'
import { freePort } from '../../support/free-port.ts'
import { temporaryFolder } from '../../support/database.ts'
import { RawClient } from '../../support/raw-client.ts'
import { serve } from '../../support/serve.ts'

/** Runs the command line to its end. */
async function run(args: readonly string[], env: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, [join(rootFolder, 'src/app/cli/boltgate.mjs'), ...args], {
    cwd: rootFolder,
    env: { PATH: process.env['PATH'] ?? '', ...env }
  })
  let out = ''
  let err = ''
  child.stdout.on('data', text => {
    out += String(text)
  })
  child.stderr.on('data', text => {
    err += String(text)
  })
  const code = await new Promise<number | null>(resolve => {
    child.on('close', resolve)
  })
  return { code, out, err }
}

/** An upstream that answers on command, or immediately for /quick. */
async function slowUpstream(t: T) {
  const waiting: ServerResponse[] = []
  const server = createServer((req, res) => {
    if (req.url === '/free/quick') res.end('quick')
    else {
      res.write('begun ')
      waiting.push(res)
    }
  })
  return { waiting, port: await serve(t, server) }
}

const withRoute = (port: number, extra = '', more: ReadonlyArray<readonly [string, string]> = []) =>
  defaultYaml({
    replace: [
      [
        'routes:\n',
        `routes:\n  - match: { path: /free/* }\n    chain: public\n    upstream: { url: "http://127.0.0.1:${port}" }\n${extra}`
      ],
      ...more
    ]
  })

t.test('reloading under load drops nothing, and a stream outlives it', async t => {
  const { waiting, port } = await slowUpstream(t)
  const plain = withRoute(port)
  const gateway = await spawnGateway(t, { yaml: plain })
  t.equal(statSync(join(gateway.data, 'keys.json')).mode & 0o777, 0o600)
  t.match(JSON.parse(readFileSync(join(gateway.data, 'keys.json'), 'utf8')), {
    adminKey: /^bgadmin_/,
    merchant: { id: Number, apiKey: String }
  })

  const own = Number(new URL(gateway.url).port)
  const stream = await RawClient.connect(own)
  t.teardown(() => {
    stream.close()
  })
  stream.send('GET /free/stream HTTP/1.1\r\nHost: a\r\n\r\n')
  await stream.until('begun')

  const over = new AbortController()
  let served = 0
  const failures: string[] = []
  const load = async (keepAlive: boolean) => {
    while (!over.signal.aborted) {
      try {
        const answer = await gateway.send('GET', '/free/quick', keepAlive ? {} : { headers: { connection: 'close' } })
        if (answer.status === 200 && answer.text === 'quick') served++
        else failures.push(`${answer.status} ${answer.text}`)
      } catch (error) {
        failures.push(String(error))
      }
    }
  }
  const loads = [load(true), load(true), load(false), load(false)]
  const reloads = () => gateway.log.filter(line => line['msg'] === 'the configuration was reloaded').length
  for (let round = 1; round <= 8; round++) {
    if (round === 4) {
      writeFileSync(gateway.file, plain.replace('price: 10 sats', 'pryce: 10 sats'))
      const line = await gateway.line(line => String(line['msg']).includes('the old one stays'))
      t.match(line['msg'], /gateway\.yaml:\d+:\d+: .*pryce/, 'a broken file is reported by line and column')
      t.match(line, { code: 'BG_CONFIG_UNKNOWN_KEY', err: undefined }, 'with its code, and without a stack')
    }
    const before = reloads()
    const extra =
      round % 2 === 0
        ? ''
        : `  - match: { path: /more/* }\n    price: ${round} sats\n    chain: paid\n    upstream: { url: "http://127.0.0.1:${port}" }\n`
    writeFileSync(gateway.file, withRoute(port, extra, [['price: 10 sats', `price: ${round + 10} sats`]]))
    await eventually(`reload ${round}`, async () => (reloads() > before ? true : null))
    t.equal((await gateway.send('GET', '/more/x')).status, round % 2 === 0 ? 404 : 402, `reload ${round} is in force`)
  }
  over.abort()
  await Promise.all(loads)
  t.same(failures, [])
  t.ok(served > 100, `${served} requests were served meanwhile`)
  waiting[0]?.end('and ended')
  t.match((await stream.response()).body, 'begun and ended')

  const before = reloads()
  gateway.kill('SIGHUP')
  await eventually('SIGHUP', async () => (reloads() > before ? true : null))
  writeFileSync(gateway.file, withRoute(port, '', [['mode: development', 'log: { level: warn }\nmode: development']]))
  t.ok(await gateway.line(line => String(line['msg']).startsWith('log has changed; it takes effect after a restart')))
})

t.test('SIGTERM lets a request finish, takes no new ones, and ends with 0; a stuck one is cut', async t => {
  const { waiting, port } = await slowUpstream(t)
  const gateway = await spawnGateway(t, {
    yaml: withRoute(port, '', [['server:\n', 'server:\n  limits: { drainTimeout: 3s }\n']])
  })
  const own = Number(new URL(gateway.url).port)

  const folder = await run(['start'], { HOST: '127.0.0.1', PORT: '0', BOLTGATE_DATA: gateway.data })
  t.equal(folder.code, 1, 'a second gateway on one data folder')
  t.match(folder.err, /^The embedded database in .* is in use by process \d+\. [^\n]* \[BG_DATABASE_IN_USE\]\n$/)

  const busy = await run(['start'], { HOST: '127.0.0.1', PORT: String(own), BOLTGATE_DATA: temporaryFolder(t) })
  t.equal(busy.code, 1, 'a port in use')
  t.match(busy.err, /^[^\n]*EADDRINUSE[^\n]* \[BG_LISTEN_FAILED\]\n$/)
  t.notMatch(busy.out, /"err"|"stack"/, 'it is a usage error, not an internal one')

  const two = await Promise.all([RawClient.connect(own), RawClient.connect(own)])
  for (const client of two) {
    t.teardown(() => {
      client.close()
    })
    client.send('GET /free/slow HTTP/1.1\r\nHost: a\r\n\r\n')
    await client.until('begun')
  }
  gateway.kill('SIGTERM')
  await gateway.line(line => String(line['msg']).startsWith('stopping'))
  await eventually('a closed port', async () => {
    try {
      ;(await RawClient.connect(own)).close()
      return null
    } catch {
      // Refused: what is waited for.
      return true
    }
  })
  waiting[0]?.end('finished')
  t.match((await two[0].response()).body, 'begun finished')
  await t.rejects(two[1].response(), 'the stuck one is cut')
  t.same(await gateway.ended, { code: 0, signal: null })
})

t.test('signals: SIGUSR1 and SIGUSR2 are ignored, and SIGQUIT drains', async t => {
  const { waiting, port } = await slowUpstream(t)
  // Started without Node's flags, as `npx boltgate` does.
  const gateway = await spawnGateway(t, { yaml: withRoute(port) })
  const children = readFileSync(`/proc/${gateway.pid}/task/${gateway.pid}/children`, 'utf8').trim().split(' ')
  t.equal(children.length, 1, 'the embedded database')
  for (const pid of [gateway.pid, Number(children[0])])
    for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) process.kill(pid, signal)
  gateway.kill('SIGHUP')
  await gateway.line(line => line['msg'] === 'the configuration was reloaded')
  t.equal((await gateway.send('GET', '/ready')).status, 200)
  const client = await RawClient.connect(Number(new URL(gateway.url).port))
  client.send('GET /free/slow HTTP/1.1\r\nHost: a\r\n\r\n')
  await client.until('begun')
  gateway.kill('SIGQUIT')
  await gateway.line(line => String(line['msg']).startsWith('stopping'))
  waiting[0]?.end('finished')
  t.match((await client.response()).body, 'begun finished')
  t.same(await gateway.ended, { code: 0, signal: null })
  t.notMatch(gateway.errors.join(''), 'Debugger')
})

t.test('a data folder that is not writable is reported in one line', async t => {
  const file = join(temporaryFolder(t), 'file')
  writeFileSync(file, '')
  const result = await run(['start'], { HOST: '127.0.0.1', PORT: '0', BOLTGATE_DATA: join(file, 'data') })
  t.equal(result.code, 1)
  t.match(result.err, /^[^\n]*(ENOTDIR|EACCES)[^\n]* \[BG_FILE_ACCESS\]\n$/)
  t.notOk(existsSync(join(file, 'data')))
  const itself = await run(['start'], { HOST: '127.0.0.1', PORT: '0', BOLTGATE_DATA: file })
  t.equal(itself.code, 1)
  t.equal(
    itself.err,
    `The folder ${file} cannot be created, because a file is there or above it (EEXIST). Name another folder, or move the file [BG_FILE_ACCESS]\n`
  )
})

t.test('a gateway whose embedded database is killed ends, to be started again', async t => {
  const gateway = await spawnGateway(t, { yaml: defaultYaml(), documented: false })
  const [database] = readFileSync(`/proc/${gateway.pid}/task/${gateway.pid}/children`, 'utf8').trim().split(' ')
  process.kill(Number(database), 'SIGKILL')
  t.match(await gateway.ended, { code: 1 })
  t.ok(gateway.log.some(({ code, msg }) => code !== undefined && /embedded database has ended/.test(String(msg))))
})

t.test('a plugin file that has changed is used after a reload, and the old one is closed', async t => {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'plugins'))
  const file = join(folder, 'plugins', 'mine.mjs')
  const code = (text: string) => `
    import { definePlugin, Type } from ${JSON.stringify(join(rootFolder, 'src/index.ts'))}
    export default definePlugin({
      name: 'mine', config: Type.Object({}), uses: ['log'],
      setup: (config, { services }) => ({
        response (ctx, head) { head.headers.set('X-Mine', '${text}') },
        close () { services.log.info('${text} closed') }
      })
    })`
  writeFileSync(file, code('one'))
  const { waiting, port } = await slowUpstream(t)
  const yaml = withRoute(port, '', [
    ['chains:\n', `chains:\n  mine: [ correlation, ${JSON.stringify(file)} ]\n`],
    ['chain: public\n', 'chain: mine\n']
  ])
  const gateway = await spawnGateway(t, { yaml })
  t.equal((await gateway.send('GET', '/free/quick')).headers['x-mine'], 'one')
  const stream = await RawClient.connect(Number(new URL(gateway.url).port))
  t.teardown(() => {
    stream.close()
  })
  stream.send('GET /free/stream HTTP/1.1\r\nHost: a\r\n\r\n')
  await stream.until('begun')
  writeFileSync(file, code('two'))
  gateway.kill('SIGHUP')
  await eventually('the new code', async () =>
    (await gateway.send('GET', '/free/quick')).headers['x-mine'] === 'two' ? true : null
  )
  t.notOk(
    gateway.log.some(line => line['msg'] === 'one closed'),
    'its last request is not over'
  )
  waiting[0]?.end()
  await stream.response()
  t.ok(await gateway.line(line => line['msg'] === 'one closed'))
})

/** A configuration with one route through a plugin that leaves a timer running, and its file. */
function withTimer(t: T) {
  const plugin = join(temporaryFolder(t), 'timer.mjs')
  writeFileSync(
    plugin,
    `import { definePlugin, Type } from 'boltgate'
    export default definePlugin({
      name: 'timer', config: Type.Object({}),
      setup () { setInterval(() => {}, 1000); return {} }
    })`
  )
  const yaml = withRoute(9, '', [
    ['chains:\n', `chains:\n  timed: [ correlation, ${JSON.stringify(plugin)} ]\n`],
    ['chain: public\n', 'chain: timed\n']
  ])
  const file = join(temporaryFolder(t), 'gateway.yaml')
  writeFileSync(file, yaml)
  return { yaml, file }
}

t.test('check ends when it is done, whatever timers a plugin has left', { timeout: 60_000 }, async t => {
  const { file } = withTimer(t)
  const result = await run(['check', '--config', file], { BOLTGATE_DATA: temporaryFolder(t) })
  t.equal(result.code, 0, result.err)
  t.match(result.out, /is valid: .*\n$/)
})

t.test('a start that fails ends, whatever timers a plugin has left', { timeout: 60_000 }, async t => {
  const { file } = withTimer(t)
  const { port } = await slowUpstream(t)
  const env = { HOST: '127.0.0.1', PORT: String(port), BOLTGATE_DATA: temporaryFolder(t) }
  const result = await run(['start', '--config', file], env)
  t.equal(result.code, 1)
  t.match(result.err, /\[BG_LISTEN_FAILED\]\n$/)
})

t.test(
  'a stop ends the process in spite of the timer of a plugin, and says what held it',
  { timeout: 60_000 },
  async t => {
    const gateway = await spawnGateway(t, { yaml: withTimer(t).yaml })
    gateway.kill('SIGTERM')
    t.same(await gateway.ended, { code: 0, signal: null })
    t.match(
      gateway.log.find(line => String(line['msg']).includes('still holds the process')),
      { level: 'warn', held: { Timeout: Number } }
    )
  }
)

t.test('a gateway whose output pipe is closed keeps serving, and still exits with 0', async t => {
  const data = temporaryFolder(t)
  const file = join(temporaryFolder(t), 'gateway.yaml')
  writeFileSync(file, defaultYaml())
  // It must be known without reading the output.
  const port = await freePort()
  const child = spawn(
    'env',
    ['-u', 'NODE_OPTIONS', process.execPath, join(rootFolder, 'src/app/cli/boltgate.mjs'), 'start', '--config', file],
    {
      env: { PATH: process.env['PATH'] ?? '', HOST: '127.0.0.1', PORT: String(port), BOLTGATE_DATA: data },
      stdio: ['ignore', 'pipe', 'inherit']
    }
  )
  const ended = new Promise<number | null>(resolve => {
    child.once('exit', resolve)
  })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  child.stdout.once('data', () => {
    child.stdout.destroy()
  })
  const status = async () =>
    await fetch(`http://127.0.0.1:${port}/ready`).then(
      answer => answer.status,
      () => null
    )
  await eventually('the gateway being ready', async () => ((await status()) === 200 ? true : null))
  for (let count = 0; count < 20; count++) await fetch(`http://127.0.0.1:${port}/health`)
  t.equal(await status(), 200)
  child.kill('SIGTERM')
  t.equal(await ended, 0)
})

t.test('the start prints the address, what is sold, one command to try, the shop, and where the keys are', async t => {
  const gateway = await spawnGateway(t, { yaml: defaultYaml() })
  await eventually('the lines for people', async () => (gateway.said.length >= 7 ? true : null))
  t.same(gateway.said, [
    `boltgate is listening on ${gateway.url}`,
    '  Sells:   /demo/* for 10 sats, and 2 more (npx boltgate routes)',
    `  Try it:  npx boltgate pay ${gateway.url}/demo/quote`,
    `  Shop:    ${gateway.url}/storefront/demo`,
    `  Console: ${gateway.url}/console`,
    `  Operator: ${gateway.url}/operator`,
    `  Keys:    ${join(gateway.data, 'keys.json')}`
  ])
  t.equal((await gateway.send('GET', '/storefront/demo')).status, 200, 'and the shop is open')
})
