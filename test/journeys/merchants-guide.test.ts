/** `docs/how-to/merchants.md` as a newcomer follows it: every command as it is written, from the top, in the folder of a gateway. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { temporaryFolder } from '../support/database.ts'
import { rootFolder } from '../support/gateway.ts'
import { spawnGateway } from '../support/gateway-process.ts'

const ADDRESS = 'http://127.0.0.1:8080'

/** Tells the status of each response beside what the guide's own command prints. */
const TOLD = `curl () { command curl -sS --max-time 60 -w '%{stderr}%{http_code} %{method} %{url}\\n' "$@"; }\n`

/** Each block of commands in a document. */
function commandsOf(guide: string): string[] {
  const blocks = [...readFileSync(join(rootFolder, guide), 'utf8').matchAll(/^```sh\n(.*?)^```$/gms)]
  return blocks.map(([, commands = '']) => commands)
}

/** How a script of commands ended, with all that it said. */
interface Followed {
  readonly code: number | null
  readonly said: string
  readonly told: string
  /** Status, method and address of each response. */
  readonly responses: readonly string[]
}

t.test(
  'every command of the guide for merchants works as it is written, after those of the README, and once more',
  async t => {
    const folder = temporaryFolder(t)
    const data = join(folder, 'data')
    mkdirSync(data)
    const gateway = await spawnGateway(t, { yaml: readFileSync(join(rootFolder, 'gateway.yaml'), 'utf8'), data })
    // The guide's node is this one.
    symlinkSync(process.execPath, join(folder, 'node'))
    const follow = async (script: string): Promise<Followed> => {
      t.ok(script.includes(ADDRESS))
      const shell = spawn('bash', ['-euo', 'pipefail', '-c', TOLD + script.replaceAll(ADDRESS, gateway.url)], {
        cwd: dirname(data),
        env: { PATH: `${folder}:${process.env['PATH'] ?? ''}` },
        stdio: ['ignore', 'pipe', 'pipe']
      })
      t.teardown(() => shell.kill())
      let [said, told] = ['', '']
      shell.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
      shell.stderr.setEncoding('utf8').on('data', (text: string) => (told += text))
      const [code] = (await once(shell, 'close')) as [number | null]
      return { code, said, told, responses: told.split('\n').filter(line => /^\d{3} /.test(line)) }
    }
    const readme = commandsOf('README.md').filter(commands => commands.includes('/api/'))
    const first = await follow(readme.join('\n'))
    t.equal(first.code, 0, 'the README ends well', first)
    t.ok(
      first.responses.some(line => /^201 POST .*\/api\/payments$/.test(line)),
      'the README takes a payment',
      first
    )

    for (const time of ['the first time', 'the second time']) {
      const { code, said, told, responses } = await follow(commandsOf('docs/how-to/merchants.md').join('\n'))
      t.equal(code, 0, `it ends well ${time}`, { told, said })
      t.ok(responses.length > 25, `${responses.length} requests`)
      const refused = responses.filter(line => !line.startsWith('20'))
      t.match(refused, [/^402 POST .*\/checkout$/], `only the checkout without a payment is refused ${time}`)
      t.equal(refused.length, 1)
      t.match(said, /\/sign-in\/\w/, 'and the mail to sign in has come')
    }
  }
)
