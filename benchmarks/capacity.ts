import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createLoad, type Load } from './load/load.ts'
import { plainGet, type LoadRequest } from './load/request.ts'
import { voidReason } from './measure/round.ts'
import { spreadOf } from './measure/statistics.ts'
import { mintCredentials, startBoltgate, type GatewayTarget } from './peers/boltgate.ts'
import { nginx } from './peers/nginx.ts'
import { makeFolder, removeFolder } from './rig/child.ts'
import { cpuOfTree } from './rig/cpu.ts'
import { describeMachine } from './rig/machine.ts'
import { startServers, type Servers } from './rig/servers.ts'
import { startUpstream } from './upstream/upstream.ts'

// node benchmarks/capacity.ts [--requests N] [--rounds N]: the table of docs/explanation/performance.md. One gateway process on PostgreSQL and
// Redis, 32 concurrent requests: what each of the three uses for one request of a kind, and what makes each full. Rows are
// medians over rounds, each of so many requests (500), the first of which compiles and is not counted.

const AT_ONCE = 32
const ACCEPT = { Accept: 'application/json' }
const PARTS = ['gateway', 'PostgreSQL', 'Redis'] as const

const { values } = parseArgs({
  options: { requests: { type: 'string', default: '500' }, rounds: { type: 'string', default: '3' } }
})
const [count, rounds] = [Number(values.requests), Number(values.rounds)]

interface Kind {
  readonly label: string
  /** What is asked, for all rounds; made once. */
  request(): Promise<LoadRequest>
  /** Times `count` that are asked in a round, where a request is cheap. */
  readonly times: number
}

const folder = makeFolder()

/** Requests that differ by a header. */
function varied(request: LoadRequest, header: string, name: string, lines: readonly string[]): LoadRequest {
  const file = join(folder, `${name}.txt`)
  writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 })
  return { ...request, varied: { header, file } }
}

function kindsOf(gateway: GatewayTarget): readonly Kind[] {
  const { port, apiKey } = gateway
  const all = count * (rounds + 1)
  const key = { 'X-API-Key': apiKey, ...ACCEPT }
  const paid = plainGet('/paid/quote', ACCEPT)
  const credentials = async (scheme: 'payment' | 'l402', name: string): Promise<LoadRequest> =>
    varied(paid, 'Authorization', name, await mintCredentials(port, all, { path: paid.path, scheme }))
  const create: LoadRequest = {
    method: 'POST',
    path: '/api/payments',
    headers: { ...key, 'Content-Type': 'application/json' },
    status: 201,
    varied: 'number',
    body: JSON.stringify({ orderId: 'order-{n}', amount: 0.0001, currency: 'BTC' })
  }
  return [
    {
      label: 'a 402, with a new invoice',
      times: 1,
      request: async () => {
        const networks = Array.from({ length: all }, (_, at) => `10.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`)
        return { ...varied(paid, 'X-Forwarded-For', 'networks', networks), status: 402 }
      }
    },
    { label: 'Payment credential, which is good once', times: 1, request: () => credentials('payment', 'once') },
    {
      label: 'L402 token, again',
      times: 20,
      request: async () => {
        const [token = ''] = await mintCredentials(port, 1, { path: paid.path })
        return plainGet(paid.path, { ...ACCEPT, Authorization: token })
      }
    },
    { label: 'L402 token, for the first time', times: 1, request: () => credentials('l402', 'first') },
    { label: "merchant's `POST /api/payments`", times: 1, request: async () => create },
    {
      label: '`GET /api/payments/{invoiceId}`',
      times: 4,
      request: async () => {
        const body = JSON.stringify({ orderId: 'the-one', amount: 0.0001, currency: 'BTC' })
        const made = await fetch(`http://127.0.0.1:${port}/api/payments`, {
          method: 'POST',
          headers: create.headers,
          body
        })
        if (made.status !== 201) throw new Error(`no payment was made: ${made.status} ${await made.text()}`)
        // The contract's create answer has this member.
        const { invoiceId } = (await made.json()) as { invoiceId: string }
        return plainGet(`/api/payments/${invoiceId}`, key)
      }
    }
  ]
}

interface Found {
  readonly cpu: Record<(typeof PARTS)[number], number[]>
  readonly rate: number[]
}

const median = (numbers: readonly number[]): number => spreadOf(numbers)?.median ?? Number.NaN
const grouped = (number: number): string => Math.round(number).toLocaleString('en')

/** What one target and its servers use for a request of a kind. */
async function measured(
  load: Load,
  port: number,
  request: LoadRequest,
  requests: number,
  pids: { readonly [part in (typeof PARTS)[number]]?: number | undefined }
): Promise<Found> {
  const found: Found = { cpu: { gateway: [], PostgreSQL: [], Redis: [] }, rate: [] }
  const read = (): number[] => PARTS.map(part => (pids[part] === undefined ? 0 : cpuOfTree(pids[part])))
  let from = 0
  for (let round = 0; round <= rounds; round++) {
    let before = read()
    const window = { port, request, connections: AT_ONCE, seconds: 60, core: null, from, count: requests }
    const result = await load.closed(window, () => {
      before = read()
    })
    const fault = voidReason(result, null)
    if (fault !== null) throw new Error(`${request.method} ${request.path}: ${fault}`)
    const after = read()
    from += result.sent
    if (round === 0) continue
    for (const [at, part] of PARTS.entries())
      found.cpu[part].push(((after[at] ?? 0) - (before[at] ?? 0)) / result.requests)
    found.rate.push(result.requests / result.seconds)
  }
  return found
}

async function main(servers: Servers, upstream: string): Promise<void> {
  const place = { folder, core: null, upstream, say: () => undefined }
  const gateway = await startBoltgate(place, { name: 'capacity', servers })
  const yardstick = await nginx.start(place)
  // Not pinned: on two cores everything runs where there is room, as in the table.
  const load = createLoad(folder, null)
  try {
    const plain = await measured(load, yardstick.port, plainGet('/passed/quote', ACCEPT), count * 20, {
      gateway: yardstick.pid ?? undefined
    })
    process.stdout.write(
      '| CPU µs of one request | gateway | PostgreSQL | Redis | gateway process full at | PostgreSQL, each core | Redis full at | seen here |\n|---|---|---|---|---|---|---|---|\n'
    )
    for (const { label, request, times } of kindsOf(gateway)) {
      const { cpu, rate } = await measured(load, gateway.port, await request(), count * times, {
        gateway: gateway.pid,
        PostgreSQL: servers.postgresPid,
        Redis: servers.redisPid
      })
      const used = PARTS.map(part => median(cpu[part]))
      const full = used.map(each => (each < 1 ? '–' : `${grouped(1e6 / each)}/s`))
      process.stdout.write(
        `| ${label} | ${used.map(each => each.toFixed(0)).join(' | ')} | ${full.join(' | ')} | ${grouped(median(rate))}/s |\n`
      )
    }
    process.stdout.write(
      `\nnginx: ${median(plain.cpu.gateway).toFixed(1)} µs for one that it passes on. ${JSON.stringify(describeMachine())}\n`
    )
  } finally {
    await load.stop()
    await Promise.all([gateway.stop(), yardstick.stop()])
  }
}

const upstream = await startUpstream(folder, null, 1024)
const servers = await startServers(folder, null)
try {
  await main(servers, upstream.origin)
} finally {
  await Promise.all([servers.stop(), upstream.stop()])
  removeFolder(folder)
}
