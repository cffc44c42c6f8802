import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test as T } from 'tap'

const FIREFOX = process.env['FIREFOX'] ?? '/usr/bin/firefox-esr'

/** Why Firefox tests are skipped; false where Firefox is installed. */
export const noFirefox: string | false = existsSync(FIREFOX)
  ? false
  : `no Firefox at ${FIREFOX}; set FIREFOX to run this test in it`

/** Loopback is exempt from proxies; every other connection ends at a port where nothing listens. */
const PREFERENCES = {
  'network.proxy.type': 1,
  'network.proxy.http': '127.0.0.1',
  'network.proxy.http_port': 1,
  'network.proxy.ssl': '127.0.0.1',
  'network.proxy.ssl_port': 1,
  'app.normandy.enabled': false,
  'datareporting.policy.dataSubmissionEnabled': false,
  'browser.shell.checkDefaultBrowser': false,
  'browser.download.useDownloadDir': true
}

/** One tab of a browser, as far as tests need it in every browser. */
export interface Tab {
  /** Opens an address; resolves once it has loaded, and also when it turns out to be a download or an error. */
  open(url: string): Promise<void>
  /** Runs an expression in the page and answers its value, a string. */
  run(expression: string): Promise<string>
}

/** Starts Debian's Firefox over WebDriver BiDi, which playwright-core speaks only to builds of its own. */
export async function openFirefox(t: T): Promise<Tab> {
  const profile = mkdtempSync(join(tmpdir(), 'boltgate-firefox-'))
  writeFileSync(
    join(profile, 'user.js'),
    Object.entries(PREFERENCES)
      .map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`)
      .join('')
  )
  const child = spawn(FIREFOX, ['--headless', '--remote-debugging-port=0', '--profile', profile, '--no-remote'], {
    env: { ...process.env, HOME: profile, MOZ_CRASHREPORTER_DISABLE: '1' },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill()
    await exited
    rmSync(profile, { recursive: true, force: true })
  })
  const address = await new Promise<string>((resolve, reject) => {
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
      const found = /WebDriver BiDi listening on (ws:\S+)/.exec(said)?.[1]
      if (found !== undefined) resolve(found)
    })
    exited.then(() => reject(new Error(`Firefox ended: ${said}`)), reject)
  })
  const session = await Session.open(`${address}/session`)
  t.teardown(() => session.close())
  await session.send('session.new', { capabilities: {} })
  const { context } = (await session.send('browsingContext.create', { type: 'tab' })) as { context: string }
  return {
    async open(url) {
      await session.send('browsingContext.navigate', { context, url, wait: 'complete' }).catch((error: unknown) => {
        // Downloads and 204 end a navigation with this error.
        if (!(error instanceof Error && error.message.startsWith('unknown error'))) throw error
      })
    },
    async run(expression) {
      const { result, exceptionDetails } = (await session.send('script.evaluate', {
        expression,
        target: { context },
        awaitPromise: true,
        userActivation: true
      })) as { result?: { value?: string }; exceptionDetails?: { text: string } }
      if (exceptionDetails !== undefined) throw new Error(exceptionDetails.text)
      return String(result?.value)
    }
  }
}

/** Commands of WebDriver BiDi over one WebSocket. */
class Session {
  readonly #socket: WebSocket
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>()
  #last = 0

  private constructor(socket: WebSocket) {
    this.#socket = socket
    socket.addEventListener('message', ({ data }) => {
      const { id, result, error, message } = JSON.parse(String(data)) as {
        id?: number
        result?: unknown
        error?: string
        message?: string
      }
      const waiting = id === undefined ? undefined : this.#waiting.get(id)
      if (id === undefined || waiting === undefined) return
      this.#waiting.delete(id)
      if (error === undefined) waiting.resolve(result)
      else waiting.reject(new Error(`${error}: ${message}`))
    })
  }

  static async open(url: string): Promise<Session> {
    const socket = new WebSocket(url)
    await once(socket, 'open')
    return new Session(socket)
  }

  send(method: string, params: object): Promise<unknown> {
    const id = ++this.#last
    const waiting = Promise.withResolvers<unknown>()
    this.#waiting.set(id, waiting)
    this.#socket.send(JSON.stringify({ id, method, params }))
    return waiting.promise
  }

  close(): void {
    this.#socket.close()
  }
}
