/**
 * Paid requests at a steady rate while two of three servers die, hang and return. No GET is lost, since one server
 * always lives, and no credential of a POST is delivered twice. The short form runs in the suite; the long one:
 *
 *   RATE=1000 SECONDS=60 TAP_TIMEOUT=600 node test/faults/upstream-campaign.test.ts
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { shopYaml } from '../security/shop.ts'
import { buy } from '../support/gateway.ts'
import { eventually, spawnGateway } from '../support/gateway-process.ts'
import { serve } from '../support/serve.ts'

const RATE = Number(process.env['RATE'] ?? 100)
const SECONDS = Number(process.env['SECONDS'] ?? 4)
/** Milliseconds between two changes of a server, and between two requests of a client with a credential. */
const CHANGE = 500
const TICK = 10
const PATH = '/paid/item'

/** A server that counts what it did for each payment, and can be made to fail. */
class Upstream {
  readonly #server: Server
  readonly #held = new Set<ServerResponse>()
  readonly done: Map<string, number>
  origin = ''
  state: 'well' | 'dead' | 'hanging' = 'well'
  answered = 0

  constructor(done: Map<string, number>) {
    this.done = done
    this.#server = createServer((req, res) => {
      if (this.state === 'hanging') {
        this.#held.add(res)
        return
      }
      const paid = String(req.headers['x-l402-payment-hash'])
      if (req.method === 'POST') this.done.set(paid, (this.done.get(paid) ?? 0) + 1)
      this.answered++
      req.resume()
      res.end('sold')
    })
  }

  async start(t: T): Promise<this> {
    this.origin = `http://127.0.0.1:${await serve(t, this.#server)}`
    return this
  }

  async become(state: Upstream['state']): Promise<void> {
    if (this.state === 'dead')
      await new Promise<void>(resolve => {
        this.#server.listen(Number(new URL(this.origin).port), '127.0.0.1', resolve)
      })
    this.state = state
    for (const res of this.#held) res.destroy()
    this.#held.clear()
    if (state !== 'dead') return
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }
}

t.test(
  `${RATE} requests a second for ${SECONDS} s past servers that die, hang and return`,
  { timeout: 120_000 + SECONDS * 5_000 },
  async t => {
    const done = new Map<string, number>()
    const servers = await Promise.all([0, 1, 2].map(() => new Upstream(done).start(t)))
    const [steady, ...others] = servers
    const yaml = shopYaml('http://127.0.0.1:1', {
      replace: [
        ['mode: development', 'payment: { maxOutstanding: { address: 10000 } }\nmode: development'],
        [
          'upstream: { url: "http://127.0.0.1:1" }',
          `upstream: { url: [ ${others.map(({ origin }) => `"${origin}"`).join(', ')} ], timeout: 300ms, connections: 4096, fallback: [ { url: "${steady?.origin ?? ''}" } ] }`
        ]
      ]
    })
    const gateway = await spawnGateway(t, { yaml, documented: false })
    const token = await buy(gateway, PATH)
    const singles: string[] = []
    for (let nth = 0; nth < SECONDS * 10; nth++) singles.push(await buy(gateway, PATH, 'payment', { method: 'POST' }))

    const statuses: Record<'GET' | 'POST', Map<number, number>> = { GET: new Map(), POST: new Map() }
    const send = async (method: 'GET' | 'POST', authorization: string) => {
      const { status } = await gateway.send(method, PATH, { headers: { authorization } })
      statuses[method].set(status, (statuses[method].get(status) ?? 0) + 1)
      return status
    }
    const end = performance.now() + SECONDS * 1_000
    const isOver = () => performance.now() >= end
    const latencies: number[] = []

    const changes = (async () => {
      const seen = { dead: 0, hanging: 0 }
      for (let nth = 0; !isOver(); nth++) {
        const one = others[nth % 2]
        const state = (['dead', 'hanging'] as const)[(nth >> 1) % 2] ?? 'dead'
        await one?.become(state)
        seen[state]++
        await wait(CHANGE)
        await one?.become('well')
        await wait(CHANGE / 5)
      }
      return seen
    })()
    const gets = (async () => {
      const under: Promise<unknown>[] = []
      const begin = performance.now()
      for (let sent = 0; !isOver(); await wait(TICK))
        for (const due = ((performance.now() - begin) / 1_000) * RATE; sent < due; sent++) {
          const from = performance.now()
          under.push(send('GET', token).then(() => latencies.push(performance.now() - from)))
        }
      await Promise.all(under)
      return under.length
    })()
    const delivered = new Map<string, number>()
    const posts = (async () => {
      for (const one of singles) {
        // As a client does that has paid: again until it is served.
        await eventually('a payment is served', async () => {
          const status = await send('POST', one)
          if (status === 200) delivered.set(one, (delivered.get(one) ?? 0) + 1)
          return status === 200 || status === 402 ? status : null
        })
        // And once more, which must not be served.
        if ((await send('POST', one)) === 200) delivered.set(one, (delivered.get(one) ?? 0) + 1)
      }
    })()
    const [seen, count] = await Promise.all([changes, gets, posts])
    latencies.sort((one, other) => one - other)
    const at = (share: number) => Math.round(latencies[Math.floor(latencies.length * share)] ?? 0)
    t.comment(
      JSON.stringify({
        gets: count,
        perSecond: Math.round(count / SECONDS),
        ...seen,
        GET: Object.fromEntries(statuses.GET),
        POST: Object.fromEntries(statuses.POST),
        servedBy: servers.map(({ answered }) => answered),
        milliseconds: { p50: at(0.5), p99: at(0.99), most: Math.round(latencies.at(-1) ?? 0) }
      })
    )
    t.same([...statuses.GET.keys()], [200], 'no GET was lost')
    t.ok(
      [...delivered.values()].every(times => times === 1),
      'no credential was delivered twice'
    )
    t.equal(delivered.size, singles.length, 'every payment was served')
    t.ok(
      [...done.values()].every(times => times === 1),
      'no POST was done twice'
    )
  }
)
