/**
 * PostgreSQL is paused for random times under a random load, and the pool is whole after each. The short form runs
 * in the suite; for the long one say how many pauses, and how long the longest and the silence that is borne are, in
 * milliseconds:
 *
 *   PAUSES=200 LONGEST_PAUSE=30000 SILENCE=10000 TAP_TIMEOUT=9000 node test/faults/pauses.test.ts
 *
 * With POSTMASTER, the id of the process of an own server (that of TEST_DATABASE_URL), the server itself is stopped by
 * SIGSTOP with all its children; without it the network in front of it is paused.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { isConnectionFault, type Database } from '../../src/platform/database/database.ts'
import { freshPostgres } from '../support/gateway-process.ts'
import { stopwatch } from '../support/passing-time.ts'
import { behindGate } from './tcp-gate.ts'
import { openAt } from '../support/database.ts'

const server = process.env['TEST_DATABASE_URL'] ?? ''
const skip = server === '' ? 'TEST_DATABASE_URL is not set' : false
const number = (name: string, otherwise: number) => Number(process.env[name] ?? otherwise)
const pauses = number('PAUSES', 12)
const longest = number('LONGEST_PAUSE', 900)
const silence = number('SILENCE', 300)
const postmaster = number('POSTMASTER', 0)
const connections = 10

/** Stops or continues a server and the processes that it has started. */
function signalServer(signal: 'SIGSTOP' | 'SIGCONT') {
  process.kill(postmaster, signal)
  const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'latin1')
  for (const child of children.trim().split(' ').filter(Boolean)) {
    try {
      process.kill(Number(child), signal)
    } catch (error) {
      // One that has ended meanwhile.
      if (!(error instanceof Error) || !('code' in error) || error.code !== 'ESRCH') throw error
    }
  }
}

/** Asks at random times until stopped; whatever fails must be a fault of the connection. */
async function load(database: Database, stopped: () => boolean, wrong: (error: unknown) => void) {
  const open = new Set<Promise<unknown>>()
  let requests = 0
  while (!stopped()) {
    const n = requests++
    const one =
      Math.random() < 0.8
        ? database.sql<{ n: number }[]>`select ${n}::int as n`.then(([row]) => row?.n)
        : database.transaction(tx => tx<{ n: number }[]>`select ${n}::int as n, pg_sleep(0.01)`).then(([row]) => row?.n)
    const seen = (async () => {
      try {
        const got = await one
        if (got !== n) wrong(new Error(`asked for ${n}, got ${got}`))
      } catch (error) {
        if (!isConnectionFault(error)) wrong(error)
      }
    })()
    open.add(seen)
    void seen.finally(() => open.delete(seen))
    await wait((Math.random() * silence) / 50)
  }
  await Promise.all(open)
  return requests
}

void t.test(
  `the pool is whole after each of ${pauses} random pauses of up to ${longest} ms`,
  { skip, timeout: 30_000 + pauses * (2 * longest + 10 * silence) },
  async t => {
    const { gate, url } = await behindGate(t, (await freshPostgres(t)) ?? '')
    const database = await openAt(t, url, { connections, silence })
    let stopped = false
    const wrong: unknown[] = []
    const loaded = load(
      database,
      () => stopped,
      error => {
        wrong.push(error)
      }
    )
    let slowest = 0
    for (let pause = 0; pause < pauses; pause++) {
      await wait(Math.random() * silence)
      const still = longest / 30 + (Math.random() * longest * 29) / 30
      if (postmaster > 0) signalServer('SIGSTOP')
      else gate.stall()
      await wait(still)
      if (postmaster > 0) signalServer('SIGCONT')
      else gate.open()
      const took = stopwatch(t)
      // As many concurrent transactions as there are connections: each must be there.
      const whole = async () => {
        const arrived = Promise.withResolvers<void>()
        let inside = 0
        const all = Array.from({ length: connections }, () =>
          database
            .transaction(async () => {
              if (++inside === connections) arrived.resolve()
              await arrived.promise
            })
            .finally(() => {
              arrived.resolve()
            })
        )
        await Promise.allSettled(all)
        return inside === connections
      }
      let healed = await whole()
      while (!healed && took() < 5_000 + 4 * silence) healed = await whole()
      slowest = Math.max(slowest, took())
      t.ok(healed, `after ${Math.round(still)} ms it was whole within ${took()} ms`)
      if (!healed) break
    }
    stopped = true
    const requests = await loaded
    t.same(wrong, [], "nothing failed in another way, and no answer was another statement's")
    t.comment(`${pauses} pauses, ${requests} statements; whole again after ${slowest} ms at most`)
  }
)
