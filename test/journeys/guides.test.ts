/** Guides as a newcomer follows them: each command as written, from the top, in an empty folder. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t, { type Test as T } from 'tap'
import { startModelServer } from '../fakes/model.ts'
import { hasMcpSdk, startEverything } from '../interop/mcp-sdk.ts'
import { temporaryFolder } from '../support/database.ts'
import { commandsOf, FOLLOWED } from '../support/documents.ts'
import { freePort } from '../support/free-port.ts'
import { rootFolder } from '../support/gateway.ts'
import { serve } from '../support/serve.ts'

/** Prints each status beside a command's own output, retries what a busy machine sheds, and starts the gateway in the background. */
const PRELUDE = `
curl () { command curl -sS --max-time 60 --retry 8 -w '%{stderr}%{http_code} %{method} %{url}\\n' "$@"; }
npx () {
  [ "$1" = boltgate ]; shift
  if [ "$1" != start ]; then node "$BOLTGATE" "$@"; return; fi
  node "$BOLTGATE" "$@" >start.log 2>&1 &
  trap "kill $! && wait $! || true" EXIT
  until command curl -sf "http://127.0.0.1:$PORT/ready" >ready.json; do kill -0 $! || { cat start.log >&2; return 1; }; sleep 0.1; done
}
`

/** How a script of commands ended, with its output. */
interface Followed {
  readonly code: number | null
  readonly out: string
  readonly err: string
  /** Status, method and address of each response. */
  readonly responses: readonly string[]
}

/** Runs the commands of pages in a folder. Port 8080 is replaced by a free one, and so are the addresses in `replace`. */
async function follow(
  t: T,
  pages: readonly string[],
  folder: string,
  replace: ReadonlyArray<readonly [string, string]> = []
): Promise<Followed> {
  const port = String(await freePort())
  let script = commandsOf(pages).join('\n')
  for (const [from, to] of [['http://127.0.0.1:8080', `http://127.0.0.1:${port}`] as const, ...replace]) {
    if (!script.includes(from)) throw new Error(`${pages.join(', ')} no longer names ${from}`)
    script = script.replaceAll(from, to)
  }
  const shell = spawn('bash', ['-euo', 'pipefail', '-c', PRELUDE + script], {
    cwd: folder,
    env: {
      PATH: `${folder}/bin:${process.env['PATH'] ?? ''}`,
      PORT: port,
      BOLTGATE: join(rootFolder, 'src/app/cli/boltgate.mjs')
    },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => shell.kill())
  let [out, err] = ['', '']
  shell.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  shell.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  const [code] = (await once(shell, 'close')) as [number | null]
  return { code, out, err, responses: err.split('\n').filter(line => /^\d{3} [A-Z]+ /.test(line)) }
}

/** An empty folder, but for the Node that runs the tests. */
function emptyFolder(t: T) {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'bin'))
  symlinkSync(process.execPath, join(folder, 'bin/node'))
  return folder
}

t.test('the guides for merchants work as written, from the top, and once more', async t => {
  const folder = emptyFolder(t)
  for (const time of ['the first time', 'the second time']) {
    const { code, out, err, responses } = await follow(t, FOLLOWED.merchants, folder)
    t.equal(code, 0, `they end well ${time}`, { err, out })
    t.ok(responses.length > 28, `${responses.length} requests`)
    const rejected = responses.filter(line => !line.startsWith('20'))
    t.strictSame(
      rejected.map(line => line.replace(/http:\/\/[^/]+/, '')),
      ['402 POST /api/storefront/demo/checkout'],
      `only the checkout without a payment is rejected ${time}`
    )
    t.match(out, /\/sign-in\/\w/, 'the sign-in mail arrives')
  }
})

const [firstRequest, llm, mcp] = FOLLOWED.tutorials

t.test('the first tutorial sells a request', async t => {
  const api = await serve(
    t,
    createServer((_, response) => response.end('ok'))
  )
  const { code, out, err, responses } = await follow(t, [firstRequest], emptyFolder(t), [
    ['http://127.0.0.1:9000', `http://127.0.0.1:${api}`]
  ])
  t.equal(code, 0, 'it ends well', { err, out })
  t.match(responses, [/^402 GET .*\/files\/a\.txt$/])
  t.match(out, /< 402[^]*< 200[^]*worth 100 sats/)
  t.match(out, 'Wrote api.yaml: /v1/* of')
})

t.test('the tutorial about a language model sells its tokens', async t => {
  const model = await startModelServer(t)
  const { code, out, err } = await follow(t, [llm], emptyFolder(t), [['http://127.0.0.1:11434', model.url]])
  t.equal(code, 0, 'it ends well', { err, out })
  t.match(out, /< 402[^]*< 200[^]*"completion_tokens"/)
})

const skip = hasMcpSdk() ? false : 'the MCP reference server is not installed: run npm ci --prefix test/interop/mcp'
t.test('the tutorial about MCP puts a price on a tool', { skip }, async t => {
  const { code, out, err } = await follow(t, [mcp], emptyFolder(t), [
    ['http://127.0.0.1:3001', await startEverything(t)]
  ])
  t.equal(code, 0, 'it ends well', { err, out })
  t.match(out, '"code":-32042')
})
