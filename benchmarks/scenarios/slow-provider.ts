import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { percentiles } from '../measure/statistics.ts'
import { startBoltgate, type GatewayTarget } from '../peers/boltgate.ts'
import type { Place } from '../peers/target.ts'
import { announcedPort, start } from '../rig/child.ts'
import type { Figure, Study, StudyRow } from './scenario.ts'
import { generatorCore } from './studies.ts'

/** What the provider takes for an invoice. */
const TAKES_MS = 150
/** 402s a second. */
const RATE = 60

interface Way {
  readonly id: string
  readonly label: string
  /** What `lightning.primary` says besides kind, key and address. */
  readonly setting: string
}

const WAYS: readonly Way[] = [
  { id: 'stock', label: 'with invoices made ahead', setting: '' },
  { id: 'no-stock', label: 'without', setting: ', invoicesAhead: 0' }
]

/** How long a client waits for a 402 whose provider takes a while, with invoices that were made ahead and without. */
export const slowProvider: Study = {
  id: 'slow-provider',
  title: `A 402 from a provider that takes ${TAKES_MS} ms`,
  text: `GET without a credential on a priced route, ${RATE} a second at intended times, each from another client network. The provider is a program here that speaks OpenNode's API and answers each call after ${TAKES_MS} ms. Two gateways run embedded, one after the other: the first with invoices made ahead as they are by default, the second with \`invoicesAhead: 0\`. Each is measured after four seconds at four times that rate, in which the stock found its size.`,
  charted: '99th percentile',
  seconds: { quick: 26, full: 70 },
  async run(place: Place, scale, say) {
    const program = fileURLToPath(new URL('../upstream/slow-provider.ts', import.meta.url))
    const provider = start('slow-provider', place.folder, generatorCore(place), [
      process.execPath,
      program,
      String(TAKES_MS)
    ])
    const agent = new Agent({ keepAlive: true })
    const found: Array<{
      readonly way: Way
      readonly p50: number[]
      readonly p99: number[]
      readonly waited: number[]
    }> = []
    try {
      const url = `http://127.0.0.1:${await announcedPort('slow-provider', provider)}`
      const upstream = 'http://127.0.0.1:9'
      for (const way of WAYS) {
        const primary = `{ kind: opennode, key: a-key-of-the-benchmark, url: "${url}"${way.setting} }`
        const target = await startBoltgate({ ...place, upstream }, { name: way.id, primary })
        try {
          let asked = 0
          const window = async (seconds: number, rate = RATE): Promise<readonly number[]> => {
            const begin = performance.now()
            const answered: Array<Promise<number>> = []
            for (let at = 0; at < seconds * rate; at++) {
              const due = begin + (at * 1000) / rate
              await setTimeout(Math.max(0, due - performance.now()))
              answered.push(waitFor402(target.port, asked++, agent).then(at => at - due))
            }
            return await Promise.all(answered)
          }
          await window(4, 4 * RATE)
          const of = { way, p50: [] as number[], p99: [] as number[], waited: [] as number[] }
          found.push(of)
          for (let round = 0; round < (scale === 'quick' ? 3 : 5); round++) {
            say(`${way.label}, window ${round + 1}`)
            const before = await hits(target)
            const waits = await window(scale === 'quick' ? 3 : 6)
            const { p50, p99 } = percentiles(waits)
            of.p50.push(p50)
            of.p99.push(p99)
            of.waited.push(100 * (1 - ((await hits(target)) - before) / waits.length))
          }
        } finally {
          await target.stop()
        }
      }
      const figure = (values: readonly number[], unit = 'ms'): Figure => ({ unit, values })
      const rows = found.map(({ way, p50, p99, waited }): StudyRow => ({
        id: way.id,
        label: way.label,
        absent: null,
        figures: {
          '99th percentile': figure(p99),
          median: figure(p50),
          'waited for the provider': figure(waited, '%')
        }
      }))
      return { rows, remarks: [] }
    } finally {
      agent.destroy()
      await provider.stop()
    }
  }
}

/** 402s that an invoice made ahead has served, by the gateway's own measurements. */
async function hits({ port }: GatewayTarget): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  return Number(/^boltgate_invoices_ahead_total\{result="hit"\} (\d+)$/m.exec(text)?.[1] ?? 0)
}

/** Asks without a credential, from the network of this number; when the 402 was there, by the monotonic clock. */
async function waitFor402(port: number, network: number, agent: Agent): Promise<number> {
  const headers = { 'X-Forwarded-For': `10.${(network >> 16) & 255}.${(network >> 8) & 255}.${network & 255}` }
  const request = get({ host: '127.0.0.1', port, path: '/paid/quote', headers, agent })
  // Once it is an answer, it is one argument of this type.
  const [answer] = (await once(request, 'response')) as [IncomingMessage]
  await answer.toArray()
  if (answer.statusCode !== 402) throw new Error(`expected a 402, got ${answer.statusCode}`)
  return performance.now()
}
