import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'

// node benchmarks/overload.ts [FACTOR] [SECONDS]: sends FACTOR times (4) as many requests as the gateway can serve, in
// an open loop over 1,500 connections, and prints their outcome. One request in 20 is a probe; the others are
// unpaid requests of a priced route.

const [factor = 4, seconds = 8] = process.argv.slice(2).map(Number)
const CONNECTIONS = 1_500

const folder = mkdtempSync(join(tmpdir(), 'boltgate-overload-'))
const file = join(folder, 'gateway.yaml')
const policies = ['global', 'read'].map(name => `  ${name}: { limit: 100000000, window: 1m }`).join('\n')
const limits = 'payment: { maxOutstanding: { address: 10000 } }\nlog: { level: warn }'
writeFileSync(
  file,
  readFileSync(new URL('../gateway.yaml', import.meta.url), 'utf8')
    .replace('policies: {}', `policies:\n${policies}`)
    .replace('mode: development', `${limits}\nmode: development`)
    .replace('server:\n', 'server:\n  trustedProxies: [ 127.0.0.1 ]\n')
)
const gateway = spawn(process.execPath, ['src/app/cli/boltgate.mjs', 'start', '--config', file], {
  cwd: new URL('..', import.meta.url),
  env: { ...process.env, NODE_OPTIONS: '', PORT: '0', HOST: '127.0.0.1', BOLTGATE_DATA: join(folder, 'data') },
  stdio: ['ignore', 'pipe', 'inherit']
})
const { promise: port, resolve: listens } = Promise.withResolvers<number>()
createInterface({ input: gateway.stdout }).on('line', line => {
  const found = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(line)?.[1]
  if (found !== undefined) listens(Number(found))
})

interface Outcome {
  readonly status: number
  readonly ms: number
  readonly isProbe: boolean
}

/** A keep-alive connection on bare TCP: node:http would make the client slower than the gateway. */
class Client {
  readonly #socket: Socket
  #text = ''
  #answered: (status: number) => void = () => {}

  constructor(at: number) {
    this.#socket = connect(at, '127.0.0.1')
    this.#socket.setNoDelay(true).setEncoding('latin1')
    this.#socket.on('data', (text: string) => {
      this.#text += text
      const end = this.#text.indexOf('\r\n\r\n')
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(this.#text)?.[1])
      if (end < 0 || this.#text.length < end + 4 + length) return
      const status = Number(this.#text.slice(9, 12))
      this.#text = ''
      this.#answered(status)
    })
  }

  ask(path: string): Promise<number> {
    // An address of its own: limits of one client are not what is measured.
    const address = `10.${Array.from({ length: 3 }, () => Math.floor(Math.random() * 256)).join('.')}`
    return new Promise(resolve => {
      this.#answered = resolve
      this.#socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: ${address}\r\n\r\n`)
    })
  }

  close(): void {
    this.#socket.destroy()
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

function report(name: string, outcomes: readonly Outcome[]): void {
  const times = outcomes.map(({ ms }) => ms).toSorted((one, other) => one - other)
  const at = (share: number): number => Math.round(times[Math.floor((times.length - 1) * share)] ?? 0)
  say(`${name}: ${times.length}, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`)
}

const clients: Client[] = []
try {
  const at = await port
  while (clients.length < CONNECTIONS) {
    const some = Array.from({ length: 50 }, () => new Client(at))
    clients.push(...some)
    await Promise.all(some.map(client => client.ask('/health')))
  }
  let served = 0
  for (const warm of [true, false]) {
    served = 0
    const until = performance.now() + 4_000
    await Promise.all(
      clients.slice(0, 32).map(async client => {
        for (; performance.now() < until; served++) await client.ask(`/demo/quote?x=${warm}${performance.now()}`)
      })
    )
  }
  const rate = Math.round((served / 4) * factor)
  say(`capacity ${Math.round(served / 4)}/s; sending ${rate}/s for ${seconds} s`)
  const idle = [...clients]
  const outcomes: Outcome[] = []
  const running = new Set<Promise<void>>()
  let unsent = 0
  const send = async (client: Client, number: number): Promise<void> => {
    const isProbe = number % 20 === 0
    const begun = performance.now()
    const status = await client.ask(isProbe ? '/health' : `/demo/quote?n=${number}`)
    outcomes.push({ status, ms: performance.now() - begun, isProbe })
    idle.push(client)
  }
  const begun = performance.now()
  for (let number = 0; performance.now() - begun < seconds * 1000;) {
    for (const due = ((performance.now() - begun) / 1000) * rate; number < due; number++) {
      const client = idle.pop()
      if (client === undefined) unsent++
      else {
        const sent = send(client, number).finally(() => running.delete(sent))
        running.add(sent)
      }
    }
    await wait(2)
  }
  await Promise.all(running)
  const others = outcomes.filter(({ isProbe }) => !isProbe)
  report(
    'probes',
    outcomes.filter(({ isProbe }) => isProbe)
  )
  report(
    'served',
    others.filter(({ status }) => status !== 503)
  )
  report(
    'shed with 503',
    others.filter(({ status }) => status === 503)
  )
  say(`not sent, since every connection waited for a response: ${unsent}`)
} finally {
  for (const client of clients) client.close()
  const ended = new Promise(resolve => gateway.on('exit', resolve))
  gateway.kill()
  await ended
  rmSync(folder, { recursive: true, force: true })
}
