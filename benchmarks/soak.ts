import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Agent, request } from 'undici'
import { startBoltgate, type GatewayTarget } from './peers/boltgate.ts'
import { announcedPort, makeFolder, removeFolder, start } from './rig/child.ts'
import { residentOfOne } from './rig/memory.ts'
import { startServers } from './rig/servers.ts'
import { lineChart } from './report/svg.ts'

const usage = `node benchmarks/soak.ts [--minutes N] [--rate R] [--servers]

Sends every kind of traffic to one gateway for N minutes (60), R requests a second in all (60), and writes what its memory, its
database's, its descriptors and its event loop did to benchmarks/results/soak.{json,md,svg}. --servers: on PostgreSQL and Redis.`

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    rate: { type: 'string', default: '60' },
    servers: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false }
  }
})
if (values.help) {
  process.stdout.write(`${usage}\n`)
  process.exit(0)
}
const MINUTES = Number(values.minutes)
const RATE = Number(values.rate)
if (!(MINUTES > 0) || !(RATE > 0)) throw new Error(usage)

interface Sample {
  readonly minute: number
  readonly gateway: number
  readonly database: number
  readonly descriptors: number
}
type Kind = (ask: Ask) => Promise<void>
interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}
type Ask = (
  method: string,
  path: string,
  options?: { readonly headers?: Record<string, string>; readonly body?: string; readonly keyed?: boolean }
) => Promise<Answer>

const folder = makeFolder()
const rig = fileURLToPath(new URL('rig', import.meta.url))
const delays = join(folder, 'loop.jsonl')
writeFileSync(delays, '')
process.env['LOOP_DELAY_FILE'] = delays

/** Children of a process that are not the gateway itself: the embedded database. */
function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(Number)
    .filter(other => {
      try {
        return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${other}/status`, 'utf8'))?.[1]) === pid
      } catch {
        // Ended while we looked.
        return false
      }
    })
}

const upstreamProcess = start('upstream', folder, null, [
  process.execPath,
  fileURLToPath(new URL('upstream/streams.mjs', import.meta.url))
])
const upstream = `http://127.0.0.1:${await announcedPort('upstream', upstreamProcess)}`
const servers = values.servers ? await startServers(folder, null) : null
const gateway: GatewayTarget = await startBoltgate(
  {
    folder,
    core: null,
    upstream,
    say: text => {
      process.stderr.write(`${text}\n`)
    },
    imports: [join(rig, 'loop-delay.mjs')]
  },
  { name: 'soak', ...(servers === null ? {} : { servers }) }
)
const base = `http://127.0.0.1:${gateway.port}`
const agent = new Agent({ connections: 200 })
const expected = new Map<string, number>()
const faults = new Map<string, number>()
const count = (map: Map<string, number>, key: string): void => {
  map.set(key, (map.get(key) ?? 0) + 1)
}
let number = 0

const ask: Ask = async (method, path, { headers = {}, body, keyed = false } = {}) => {
  const answer = await request(base + path, {
    // Undici's own names of methods; these are among them.
    method: method as 'GET',
    dispatcher: agent,
    headers: {
      // Many addresses: a cap for one of them is not what is tried here. The sandbox is paid from this machine alone.
      ...(path === '/sandbox/pay'
        ? {}
        : { 'x-forwarded-for': `10.${(number >> 16) & 255}.${(number >> 8) & 255}.${number++ & 255}` }),
      ...(keyed ? { 'x-api-key': gateway.apiKey } : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers
    },
    body: body ?? null
  })
  return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
}
function must(answer: Answer, ...statuses: number[]): Answer {
  if (!statuses.includes(answer.status))
    throw new Error(`${answer.status} for ${statuses.join(' or ')}: ${answer.text.slice(0, 160)}`)
  return answer
}
const member = (answer: Answer, name: string): string =>
  String((JSON.parse(answer.text) as Record<string, unknown>)[name])

interface Offer {
  readonly macaroon: string
  readonly invoice: string
  readonly payment: string
}
function offerOf(answer: Answer): Offer {
  const lines = [answer.headers['www-authenticate'] ?? []].flat()
  const find = (pattern: RegExp): string =>
    lines.map(line => pattern.exec(line)?.[1]).find(found => found !== undefined) ?? ''
  return {
    macaroon: find(/^L402 .*?macaroon="([^"]+)"/),
    invoice: find(/invoice="([^"]+)"/),
    payment: lines.find(line => line.startsWith('Payment ')) ?? ''
  }
}
async function pay(invoice: string): Promise<string> {
  return member(must(await ask('POST', '/sandbox/pay', { body: JSON.stringify({ invoice }) }), 200), 'preimage')
}
async function token(path: string): Promise<string> {
  const { macaroon, invoice } = offerOf(must(await ask('GET', path), 402))
  return `L402 ${macaroon}:${await pay(invoice)}`
}
const tokens = new Map<string, { readonly value: string; readonly until: number }>()
/** One token for a path, bought again every 10 minutes. */
async function tokenFor(path: string): Promise<string> {
  const known = tokens.get(path)
  if (known !== undefined && known.until > Date.now()) return known.value
  const value = await token(path)
  tokens.set(path, { value, until: Date.now() + 600_000 })
  return value
}
const authorized = async (method: string, path: string, body?: string): Promise<Answer> =>
  await ask(method, path, { headers: { authorization: await tokenFor(path) }, ...(body === undefined ? {} : { body }) })

function paymentCredential(line: string, preimage: string): string {
  const parameter = (name: string): string => new RegExp(`${name}="([^"]*)"`).exec(line)?.[1] ?? ''
  const challenge = Object.fromEntries(
    ['id', 'realm', 'method', 'intent', 'request', 'expires'].map(name => [name, parameter(name)])
  )
  return `Payment ${Buffer.from(JSON.stringify({ challenge, payload: { preimage } })).toString('base64url')}`
}
const big = JSON.stringify({ text: 'x'.repeat(200_000) })

/** Every kind of traffic, with its share. */
const kinds: ReadonlyArray<readonly [name: string, share: number, kind: Kind]> = [
  [
    'verified L402',
    30,
    async () => {
      must(await authorized('GET', '/paid/item'), 200)
    }
  ],
  [
    '402',
    10,
    async () => {
      must(await ask('GET', `/paid/item?x=${number}`), 402)
    }
  ],
  [
    'Payment, once',
    5,
    async () => {
      const { payment, invoice } = offerOf(must(await ask('GET', '/paid/once'), 402))
      const authorization = paymentCredential(payment, await pay(invoice))
      must(await ask('GET', '/paid/once', { headers: { authorization } }), 200)
      must(await ask('GET', '/paid/once', { headers: { authorization } }), 402)
    }
  ],
  [
    'new token',
    3,
    async () => {
      must(await ask('GET', '/paid/item', { headers: { authorization: await token('/paid/item') } }), 200)
    }
  ],
  [
    'bad token',
    4,
    async () => {
      must(await ask('GET', '/paid/item', { headers: { authorization: `L402 AgEEbDQwMg:${'0'.repeat(64)}` } }), 401)
    }
  ],
  [
    'upload of 200 KB',
    3,
    async () => {
      must(await authorized('POST', '/paid/upload', big), 200, 405)
    }
  ],
  [
    'digest of 200 KB',
    2,
    async () => {
      must(await ask('POST', '/digested/x', { body: big }), 402)
    }
  ],
  [
    'download of 4 MB',
    2,
    async () => {
      must(await authorized('GET', '/paid/endless?bytes=4000000'), 200)
    }
  ],
  [
    'event stream',
    1,
    async () => {
      const stop = new AbortController()
      const { body } = await request(`${base}/paid/events`, {
        dispatcher: agent,
        signal: stop.signal,
        headers: { authorization: await tokenFor('/paid/events') }
      })
      setTimeout(() => {
        stop.abort()
      }, 5_000)
      try {
        for await (const piece of body) void piece
      } catch (error) {
        if (!stop.signal.aborted) throw error
      }
    }
  ],
  [
    'client that leaves',
    3,
    async () => {
      const socket = connect(gateway.port, '127.0.0.1')
      socket.on('error', () => {})
      socket.end(
        `GET /paid/endless?bytes=40000000 HTTP/1.1\r\nHost: a\r\nAuthorization: ${await tokenFor('/paid/endless?bytes=4000000')}\r\n\r\n`
      )
      await new Promise(resolve => {
        setTimeout(resolve, 30)
      })
      socket.destroy()
    }
  ],
  [
    'malformed',
    3,
    async () => {
      const socket = connect(gateway.port, '127.0.0.1')
      socket.on('error', () => {})
      socket.write('GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n')
      await new Promise(resolve => {
        socket.once('close', resolve).resume()
      })
    }
  ],
  [
    'payment',
    4,
    async () => {
      const made = must(
        await ask('POST', '/api/payments', {
          keyed: true,
          body: JSON.stringify({ orderId: `soak-${Date.now()}-${number}`, amount: 0.0001, currency: 'BTC' })
        }),
        201
      )
      must(await ask('GET', `/api/payments/${member(made, 'invoiceId')}`, { keyed: true }), 200)
      must(await ask('GET', `/api/payments/${member(made, 'invoiceId')}/status`), 200)
      if (number % 2 === 0) await pay(member(made, 'lightningInvoice'))
    }
  ],
  [
    'producer',
    3,
    async () => {
      const made = must(
        await ask('POST', '/api/l402/challenges', { keyed: true, body: '{"resource":"soak","priceSats":5}' }),
        200,
        402
      )
      if (made.status === 402) return
      const preimage = await pay(member(made, 'invoice'))
      must(
        await ask('POST', '/api/l402/challenges/verify', {
          keyed: true,
          body: JSON.stringify({ macaroon: member(made, 'macaroon'), preimage })
        }),
        200
      )
    }
  ],
  [
    'merchant reads',
    6,
    async () => {
      for (const path of ['/api/merchant/me', '/api/refunds', '/api/merchant/webhooks/deliveries', '/api/proxy'])
        must(await ask('GET', path, { keyed: true }), 200)
    }
  ],
  [
    'store',
    3,
    async () => {
      const catalog = JSON.parse(must(await ask('GET', '/api/storefront/demo/catalog'), 200).text) as {
        products: Array<{ variants: Array<{ variantId: number; available: boolean }> }>
      }
      const variant = catalog.products.flatMap(product => product.variants).find(({ available }) => available)
      const body = JSON.stringify({ items: [{ variantId: variant?.variantId, quantity: 1 }] })
      must(
        await ask('POST', '/api/storefront/demo/checkout', { body, headers: { 'x-buyer-location': 'US-CA-94103' } }),
        402
      )
    }
  ],
  [
    'pages and documents',
    5,
    async () => {
      for (const path of ['/health', '/openapi.json', '/llms.txt', '/storefront/demo', '/api/l402/pricing'])
        must(await ask('GET', path), 200)
    }
  ],
  [
    'not there',
    3,
    async () => {
      must(await ask('GET', '/nothing'), 404)
      must(await ask('GET', '/api/payments/1'), 401, 429)
    }
  ]
]

const wheel = kinds.flatMap(([name, share, kind]) => Array.from({ length: share }, () => ({ name, kind })))
const samples: Sample[] = []
const began = Date.now()
const minutesIn = (): number => (Date.now() - began) / 60_000
function sample(): void {
  const database = servers === null ? childrenOf(gateway.pid).reduce((sum, pid) => sum + residentOfOne(pid), 0) : 0
  samples.push({
    minute: minutesIn(),
    gateway: residentOfOne(gateway.pid),
    database,
    descriptors: readdirSync(`/proc/${gateway.pid}/fd`).length
  })
}
const sampling = setInterval(sample, Math.min(15_000, MINUTES * 1000))
const telling = setInterval(() => {
  const last = samples.at(-1)
  process.stderr.write(
    `${minutesIn().toFixed(1)} of ${MINUTES} min, ${[...expected.values()].reduce((a, b) => a + b, 0)} done, ${[...faults.values()].reduce((a, b) => a + b, 0)} not as expected, gateway ${Math.round((last?.gateway ?? 0) / 1048576)} MiB, database ${Math.round((last?.database ?? 0) / 1048576)} MiB\n`
  )
}, 60_000)

const underWay = new Set<Promise<void>>()
async function run(name: string, kind: Kind): Promise<void> {
  try {
    await kind(ask)
    count(expected, name)
  } catch (error) {
    count(faults, `${name}: ${error instanceof Error ? error.message : String(error)}`)
  }
}
let turn = 0
// Coprime with any length that is not a multiple of it, so that every kind comes in each round.
const STEP = 37
while (minutesIn() < MINUTES) {
  const { name, kind } = wheel[(turn++ * STEP) % wheel.length]!
  if (underWay.size < 400) {
    const one = run(name, kind).finally(() => {
      underWay.delete(one)
    })
    underWay.add(one)
  } else count(faults, 'not sent: 400 are in flight')
  const due = began + (turn * 1000) / RATE
  if (due > Date.now())
    await new Promise(resolve => {
      setTimeout(resolve, due - Date.now())
    })
}
await Promise.race([
  Promise.all(underWay),
  new Promise(resolve => {
    setTimeout(resolve, 30_000)
  })
])
sample()
clearInterval(sampling)
clearInterval(telling)

const MIB = 1048576
const loop = readFileSync(delays, 'utf8')
  .trim()
  .split('\n')
  .filter(Boolean)
  .map(line => JSON.parse(line) as { at: number; worst: number })
// The start and the first seconds of compiling are not what an hour is measured for.
const settled = loop
  .filter(({ at }) => at > began + Math.min(60_000, MINUTES * 6_000))
  .map(({ worst }) => worst)
  .sort((a, b) => a - b)
const at = (share: number): number => settled[Math.min(settled.length - 1, Math.floor(settled.length * share))] ?? 0
const median = (of: 'gateway' | 'database', from: number, to: number): number => {
  const list = samples
    .filter(({ minute }) => minute >= MINUTES * from && minute <= MINUTES * to)
    .map(entry => entry[of])
    .sort((a, b) => a - b)
  return (list[list.length >> 1] ?? 0) / MIB
}
const done = [...expected.values()].reduce((a, b) => a + b, 0)
const wrong = [...faults.values()].reduce((a, b) => a + b, 0)
const rows = [
  `| done, as expected | ${done} |`,
  `| not as expected | ${wrong} |`,
  `| gateway's memory: second quarter, last quarter | ${median('gateway', 0.25, 0.5).toFixed(0)} MiB, ${median('gateway', 0.75, 1).toFixed(0)} MiB |`,
  ...(servers === null
    ? [
        `| its database's | ${median('database', 0.25, 0.5).toFixed(0)} MiB, ${median('database', 0.75, 1).toFixed(0)} MiB |`
      ]
    : []),
  `| descriptors: lowest, highest | ${Math.min(...samples.map(({ descriptors }) => descriptors))}, ${Math.max(...samples.map(({ descriptors }) => descriptors))} |`,
  `| event loop late in a second: median, 99 %, worst | ${at(0.5).toFixed(1)}, ${at(0.99).toFixed(1)}, ${at(1).toFixed(1)} ms |`,
  `| seconds in which it was late by more than 50 ms | ${settled.filter(worst => worst > 50).length} of ${settled.length} |`
]
const results = fileURLToPath(new URL('results', import.meta.url))
mkdirSync(results, { recursive: true })
const name = servers === null ? 'soak' : 'soak-servers'
const table = `# ${MINUTES} minutes of every kind of traffic, ${RATE} a second\n\n| | |\n|---|---|\n${rows.join('\n')}\n\n${[...faults].map(([what, times]) => `- ${times} × ${what}`).join('\n')}\n`
writeFileSync(join(results, `${name}.md`), table)
writeFileSync(
  join(results, `${name}.json`),
  `${JSON.stringify({ minutes: MINUTES, rate: RATE, expected: Object.fromEntries(expected), faults: Object.fromEntries(faults), samples, late: { median: at(0.5), p99: at(0.99), worst: at(1) } })}\n`
)
const thin = samples.filter((_, index) => index % Math.max(1, Math.floor(samples.length / 24)) === 0)
const line = (label: string, of: (sample: Sample) => number, own: boolean) => ({
  label,
  own,
  points: thin.map(entry => [Math.round(entry.minute), of(entry)] as const)
})
writeFileSync(
  join(results, `${name}.svg`),
  lineChart('Memory over the soak', 'minutes', 'MiB', [
    line('gateway', ({ gateway: bytes }) => bytes / MIB, true),
    ...(servers === null ? [line('its database', ({ database }) => database / MIB, false)] : [])
  ])
)
process.stdout.write(table)
await agent.destroy()
await gateway.stop()
await upstreamProcess.stop()
await servers?.stop()
removeFolder(folder)
process.exit(0)
