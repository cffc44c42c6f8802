import { writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Agent, request } from 'undici'
import { startBoltgate } from './peers/boltgate.ts'
import { announcedPort, makeFolder, removeFolder, start } from './rig/child.ts'
import { residentOfOne } from './rig/memory.ts'

// node benchmarks/slow-clients.ts: honest requests beside 2,000 connections that read nothing, or send a byte every four
// seconds, of one address and of fifty, through one route with the limits that a route has by default. Writes
// benchmarks/results/slow-clients.md.

const SLOW = 2_000
/** Honest requests, a second apart by a twentieth, each from one of twenty other addresses. */
const HONEST = 400
const PERIOD_MS = 50

const readers = 'GET /shared/endless?bytes=16777216 HTTP/1.1\r\nHost: a\r\n'
const uploads = 'POST /shared/upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n'

const folder = makeFolder()
const upstreamProcess = start('upstream', folder, null, [
  process.execPath,
  fileURLToPath(new URL('upstream/streams.mjs', import.meta.url))
])
const upstream = `http://127.0.0.1:${await announcedPort('upstream', upstreamProcess)}`
const gateway = await startBoltgate(
  {
    folder,
    core: null,
    upstream,
    say: text => {
      process.stderr.write(`${text}\n`)
    }
  },
  { name: 'slow-clients' }
)
const agent = new Agent({ connections: 50 })

interface Honest {
  readonly ok: number
  readonly others: ReadonlyMap<number, number>
  /** Milliseconds, in ascending order. */
  readonly took: readonly number[]
}

async function honest(): Promise<Honest> {
  let ok = 0
  const others = new Map<number, number>()
  const took: number[] = []
  const one = async (number: number): Promise<void> => {
    const begun = performance.now()
    const response = await request(`http://127.0.0.1:${gateway.port}/shared/line`, {
      dispatcher: agent,
      headers: { 'x-forwarded-for': `198.51.100.${number % 20}` }
    })
    await response.body.dump()
    took.push(performance.now() - begun)
    if (response.statusCode === 200) ok++
    else others.set(response.statusCode, (others.get(response.statusCode) ?? 0) + 1)
  }
  const all: Promise<void>[] = []
  for (let number = 0; number < HONEST; number++) {
    all.push(one(number))
    await wait(PERIOD_MS)
  }
  await Promise.all(all)
  return { ok, others, took: took.sort((one, other) => one - other) }
}

/** Opens them and keeps them slow; a cut client reconnects immediately. */
function attack(head: string, addresses: number): { stop(): void } {
  const sockets = new Set<Socket>()
  let over = false
  const open = (number: number): void => {
    const socket = connect({ port: gateway.port, host: '127.0.0.1' })
    sockets.add(socket)
    socket.on('error', () => {
      /* it is cut, and opened again */
    })
    socket.on('close', () => {
      sockets.delete(socket)
      if (!over) open(number)
    })
    socket.pause()
    socket.write(`${head}X-Forwarded-For: 203.0.113.${number % addresses}\r\n\r\n`)
  }
  for (let number = 0; number < SLOW; number++) open(number)
  const trickle = setInterval(() => {
    if (head === uploads) for (const socket of sockets) socket.write('1\r\na\r\n')
  }, 4_000)
  return {
    stop() {
      over = true
      clearInterval(trickle)
      for (const socket of sockets) socket.destroy()
    }
  }
}

const at = (took: readonly number[], share: number): string =>
  (took[Math.min(took.length - 1, Math.floor(took.length * share))] ?? Number.NaN).toFixed(1)
const rows: string[] = []
function tell(name: string, { ok, others, took }: Honest): void {
  const refused = [...others].map(([status, count]) => `, ${count} of ${status}`).join('')
  const memory = Math.round(residentOfOne(gateway.pid) / 1024 ** 2)
  const row = `| ${name} | ${ok} of 200${refused} | ${at(took, 0.5)} | ${at(took, 0.99)} | ${at(took, 1)} | ${memory} |`
  rows.push(row)
  process.stderr.write(`${row}\n`)
}

try {
  await honest()
  tell('none', await honest())
  for (const [what, head] of [
    ['that read nothing of 16 MiB', readers],
    ['that send a byte every 4 s', uploads]
  ] as const) {
    for (const addresses of [1, 50]) {
      const attackers = attack(head, addresses)
      await wait(2_000)
      tell(`2,000 ${what}, ${addresses === 1 ? 'of 1 address' : `of ${addresses} addresses`}`, await honest())
      attackers.stop()
      await wait(2_000)
    }
  }
} finally {
  await gateway.stop()
  await upstreamProcess.stop()
  await agent.destroy()
  removeFolder(folder)
}
const text = `# ${HONEST} honest requests, ${1000 / PERIOD_MS} a second, beside slow connections

| slow connections | honest responses | p50 ms | p99 ms | worst ms | gateway's memory, MiB |
|---|---|---|---|---|---|
${rows.join('\n')}
`
writeFileSync(new URL('results/slow-clients.md', import.meta.url), text)
process.stdout.write(text)
