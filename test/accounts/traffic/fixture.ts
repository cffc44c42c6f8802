import type { Database } from '../../../src/platform/database/database.ts'
import { TrafficStore } from '../../../src/accounts/traffic/store.ts'
import { nothingMeasured, type MeasuredStep } from '../../../src/accounts/traffic/measured.ts'

const MINUTE = 60_000

/** A day of traffic up to now, with a bad hour, as a process would have written it. */
export async function fillTraffic(database: Database, name = 'weather'): Promise<void> {
  const rows: MeasuredStep[] = []
  const end = Math.floor(Date.now() / MINUTE) * MINUTE
  for (let minute = 1; minute <= 1440; minute += minute < 10 ? 1 : 7) {
    const load = 60 + Math.round(40 * Math.sin(minute / 200))
    const isBad = minute > 300 && minute < 360
    for (const route of ['', name])
      rows.push({
        at: end - minute * MINUTE,
        route,
        ...nothingMeasured(),
        requests: load,
        asked: Math.round(load / 10),
        probes: 2,
        paidRequests: Math.round(load * 0.8),
        sales: route === '' ? Math.round(load / 12) : 0,
        sats: route === '' ? load : 0,
        clientErrors: 1,
        serverErrors: isBad ? 9 : 0,
        upstreamFailures: isBad ? 8 : 0,
        latencies: new Map([
          [9, load - 3],
          [isBad ? 38 : 20, 3]
        ])
      })
  }
  await new TrafficStore(database).write({
    process: {
      id: 'fixture',
      pid: 7,
      host: 'gateway-1',
      generation: 1,
      startedAt: end - 1440 * MINUTE,
      seenAt: end,
      written: 1,
      lostMinutes: 0
    },
    rows,
    proxies: [],
    faults: [
      {
        route: name,
        status: 502,
        message: 'The upstream could not be reached. connection refused',
        times: 81,
        firstAt: end - 360 * MINUTE,
        lastAt: end - 300 * MINUTE,
        correlationId: '7d3c1a52-8f0e-4c35-9b1d-2e4f6a8c0b13'
      }
    ]
  })
}
