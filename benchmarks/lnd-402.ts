// node benchmarks/lnd-402.ts [--requests N] [--rounds N]: 402s that hold an invoice of a real lnd, 16 concurrent, each asked for from
// another network, by targets in turn. The programs are found by BOLTGATE_LND_BIN (test/interop/lnd/install.sh builds them) and
// BOLTGATE_APERTURE, Aperture's binary; without the latter its row is left out. It prints a table in Markdown.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { findPrograms, startChain, startNode, synced, type Node } from '../test/interop/lnd/nodes.ts'
import { createLoad, type Load } from './load/load.ts'
import { plainGet, type LoadRequest } from './load/request.ts'
import { measure } from './measure/round.ts'
import { percentiles, spreadOf } from './measure/statistics.ts'
import { startApertureAt } from './peers/aperture.ts'
import { startBoltgate } from './peers/boltgate.ts'
import type { Target } from './peers/target.ts'
import { makeFolder, removeFolder } from './rig/child.ts'
import { describeMachine } from './rig/machine.ts'
import { serversMissing, startServers } from './rig/servers.ts'
import { startUpstream } from './upstream/upstream.ts'

const AT_ONCE = 16
/** Before anything counts, each target makes so many. */
const WARM_UP = 1000
/** Milliseconds between two windows: what was taken of invoices made ahead is not charged to another one. */
const PAUSE = 2_000

const { values } = parseArgs({
  options: { requests: { type: 'string', default: '300' }, rounds: { type: 'string', default: '6' } }
})
const [count, rounds] = [Number(values.requests), Number(values.rounds)]

interface Row {
  readonly label: string
  readonly target: Target
  /** Variations of the request that are used up. */
  used: number
  readonly rate: number[]
  readonly p50: number[]
  readonly p99: number[]
  readonly cpu: number[]
}

/** What lnd itself does: its REST API is asked for invoices and for nothing else. */
async function bare(node: Node): Promise<{ readonly rate: number; readonly p50: number; readonly p99: number }> {
  const waits: number[] = []
  let left = count
  const begin = performance.now()
  const lane = async (): Promise<void> => {
    while (left-- > 0) {
      const at = performance.now()
      await node.api('POST', '/v1/invoices', { value: '10', memo: 'bare', expiry: '600' })
      waits.push((performance.now() - at) * 1000)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  return { rate: (count * 1000) / (performance.now() - begin), ...percentiles(waits) }
}

async function window(load: Load, row: Row, request: LoadRequest, requests: number): Promise<void> {
  const { target, used } = row
  const sample = await measure(
    load,
    target,
    { port: target.port, request, connections: AT_ONCE, seconds: 120, core: null, from: used, count: requests },
    null
  )
  row.used += sample.sent
  if (sample.void !== undefined) throw new Error(`${row.label}: ${sample.void}\n${target.output?.() ?? ''}`)
  if (requests !== count) return
  row.rate.push(sample.requests / sample.seconds)
  row.p50.push(sample.latency.p50)
  row.p99.push(sample.latency.p99)
  row.cpu.push((sample.cpuPerRequest ?? Number.NaN) / 1000)
}

const told = (numbers: readonly number[], digits = 0): string => {
  const spread = spreadOf(numbers)
  return spread === null
    ? '–'
    : `${spread.median.toFixed(digits)} (${spread.low.toFixed(digits)}–${spread.high.toFixed(digits)})`
}
const milliseconds = (numbers: readonly number[]): string =>
  told(
    numbers.map(each => each / 1000),
    1
  )
const say = (line: string): void => {
  process.stderr.write(`${line}\n`)
}

const programs = findPrograms()
if (programs === null)
  throw new Error('lnd and btcd are not at hand: sh test/interop/lnd/install.sh FOLDER, then BOLTGATE_LND_BIN=FOLDER')
const missing = serversMissing()
if (missing !== null) throw new Error(`PostgreSQL and Redis are ${missing}`)

const folder = makeFolder()
const ends: Array<() => unknown> = [() => removeFolder(folder)]
try {
  say('btcd and lnd')
  const lifetime = { teardown: (end: () => unknown) => void ends.push(end) }
  const chain = await startChain(lifetime, programs.btcd)
  const node = await startNode(lifetime, programs.lnd, chain)
  await synced(node)
  const key = await node.key(['invoices:read', 'invoices:write'])

  const upstream = await startUpstream(folder, null, 1024)
  ends.push(() => upstream.stop())
  const servers = await startServers(folder, null)
  ends.push(() => servers.stop())
  const place = { folder, core: null, upstream: upstream.origin, say }
  const rows: Row[] = []
  const add = async (label: string, starting: Promise<Target>): Promise<void> => {
    say(label)
    const target = await starting
    ends.push(() => target.stop())
    rows.push({ label, target, used: 0, rate: [], p50: [], p99: [], cpu: [] })
  }
  const primary = (more: string): string => `{ kind: lnd, key: ${JSON.stringify(key)}, callsPerMinute: 1000000${more} }`
  await add('boltgate, as it comes', startBoltgate(place, { name: 'embedded', primary: primary('') }))
  await add(
    'boltgate on PostgreSQL and Redis',
    startBoltgate(place, { name: 'servers', primary: primary(''), servers })
  )
  await add(
    'the same with `invoicesAhead: 0`',
    startBoltgate(place, {
      name: 'not-ahead',
      primary: primary(', invoicesAhead: 0'),
      servers: await servers.another('not_ahead')
    })
  )
  const binary = process.env['BOLTGATE_APERTURE'] ?? ''
  if (binary !== '') {
    mkdirSync(join(folder, 'aperture'))
    const configuration = `listenaddr: "LISTEN"
insecure: true
debuglevel: "error"
dbbackend: "sqlite"
authenticator:
  network: "regtest"
  lndhost: ${JSON.stringify(node.grpcHost)}
  tlspath: ${JSON.stringify(join(node.folder, 'tls.cert'))}
  macdir: ${JSON.stringify(join(node.folder, 'data/chain/bitcoin/regtest'))}
services:
  - { name: "quote", hostregexp: ".*", pathregexp: "^/.*$", address: "UPSTREAM", protocol: http, price: 10 }
`
    await add(
      'Aperture on SQLite',
      startApertureAt(
        { binary, configuration, database: null },
        join(folder, 'aperture'),
        null,
        new URL(upstream.origin).host
      )
    )
  }

  const networks = join(folder, 'networks.txt')
  const supply = WARM_UP + count * rounds
  writeFileSync(
    networks,
    Array.from({ length: supply }, (_, at) => `10.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}\n`).join('')
  )
  const request: LoadRequest = {
    ...plainGet('/paid/quote', { Accept: 'application/json' }),
    varied: { header: 'X-Forwarded-For', file: networks },
    status: 402
  }
  const load = createLoad(folder, null)
  ends.push(() => load.stop())
  for (const row of rows) {
    say(`${row.label}: ${WARM_UP} to warm up`)
    await window(load, row, request, WARM_UP)
  }
  const lnd = { rate: [] as number[], p50: [] as number[], p99: [] as number[] }
  for (let round = 0; round < rounds; round++) {
    say(`round ${round + 1} of ${rounds}`)
    const { rate, p50, p99 } = await bare(node)
    lnd.rate.push(rate)
    lnd.p50.push(p50)
    lnd.p99.push(p99)
    for (const row of round % 2 === 0 ? rows : rows.toReversed()) {
      await sleep(PAUSE)
      await window(load, row, request, count)
    }
  }
  process.stdout.write(
    `| ${count} requests, ${AT_ONCE} concurrent | 402s a second | median wait, ms | p99, ms | processor time of the process, ms |\n|---|---|---|---|---|\n`
  )
  process.stdout.write(
    `| \`POST /v1/invoices\` and nothing else | ${told(lnd.rate)} | ${milliseconds(lnd.p50)} | ${milliseconds(lnd.p99)} | – |\n`
  )
  for (const { label, rate, p50, p99, cpu } of rows)
    process.stdout.write(
      `| ${label} | ${told(rate)} | ${milliseconds(p50)} | ${milliseconds(p99)} | ${told(cpu, 2)} |\n`
    )
  process.stdout.write(`\n${JSON.stringify(describeMachine())}\n`)
} finally {
  for (const end of ends.toReversed()) await end()
}
