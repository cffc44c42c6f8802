/**
 * PostgreSQL and Redis are killed and stopped at random moments while clients buy: what was delivered stays spent, what
 * was not is good afterwards, once, and the gateway sells again automatically. The short form runs in the suite, on servers
 * of its own where they are installed; for the long one say how often:
 *
 *   POSTGRES_KILLS=100 REDIS_KILLS=50 REDIS_PAUSES=200 TAP_TIMEOUT=9000 node test/faults/servers-killed.test.ts
 */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { countingUpstream, shopYaml } from '../security/shop.ts'
import { challengeOf, credentialOf, type Answer } from '../support/gateway.ts'
import { serversOnly } from '../support/database.ts'
import { eventually, spawnGateway, wellFormedRefusal, type GatewayProcess } from '../support/gateway-process.ts'
import { ownPostgres, ownRedis, type OwnServer } from '../support/own-servers.ts'

const number = (name: string, otherwise: number) => Number(process.env[name] ?? otherwise)
const path = '/paid/item'
const clients = 8
/** Milliseconds that one bears it. */
const longest = number('LONGEST', 1_000)

/** What is done to a server, and undone. */
interface Harm {
  readonly what: string
  readonly times: number
  readonly begin: () => void | Promise<void>
  readonly end: () => void | Promise<void>
}

interface Bought {
  readonly method: 'GET' | 'POST'
  readonly authorization: string
  /** Answers of 200 that came for it. */
  delivered: number
}

/** Clients of one round: what they have bought, and how often they got a Retry-After. */
class Buyers {
  readonly #t: T
  readonly #gateway: GatewayProcess
  readonly bought: Bought[] = []
  refused = 0

  constructor(t: T, gateway: GatewayProcess) {
    this.#t = t
    this.#gateway = gateway
  }

  /** Null where the gateway says that it cannot at the moment (503, and when to come again); nothing else may come. */
  async #ask(
    method: string,
    way: string,
    expected: readonly number[],
    options: Parameters<GatewayProcess['send']>[2] = {}
  ): Promise<Answer | null> {
    const answer = await this.#gateway.send(method, way, options)
    if (expected.includes(answer.status)) return answer
    this.refused++
    if (answer.status !== 503 || !wellFormedRefusal(answer))
      this.#t.fail(`${method} ${way} was answered ${answer.status}: ${answer.text}`)
    // A client with a Retry-After does not retry immediately.
    await wait(100)
    return null
  }

  /** Buys one credential, if it is sold. */
  async buy(method: Bought['method']): Promise<Bought | null> {
    const offer = await this.#ask(method, path, [402])
    if (offer === null) return null
    const challenge = challengeOf(offer, 'payment')
    const invoice = challenge.parameters.get('invoice') ?? ''
    const paid = await this.#ask('POST', '/sandbox/pay', [200], { body: { invoice } })
    if (paid === null) return null
    const { preimage } = paid.json() as { preimage: string }
    const one = { method, authorization: credentialOf(challenge, preimage), delivered: 0 }
    this.bought.push(one)
    return one
  }

  /** Shows a credential; null where it cannot be judged yet. */
  async show(one: Bought): Promise<number | null> {
    const answer = await this.#ask(one.method, path, [200, 402], { headers: { authorization: one.authorization } })
    if (answer?.status === 200) one.delivered++
    return answer === null || (answer.status === 402 && /another request/.test(answer.text)) ? null : answer.status
  }
}

async function campaign(t: T, gateway: GatewayProcess, { times, begin, end }: Harm) {
  const sums = { bought: 0, refused: 0, doubled: 0, lost: 0, slowest: 0 }
  for (let time = 0; time < times; time++) {
    const buyers = new Buyers(t, gateway)
    let stopped = false
    const work = Array.from({ length: clients }, async (_, index) => {
      for (;;) {
        if (stopped) return
        const one = await buyers.buy(index % 2 === 0 ? 'GET' : 'POST')
        if (one !== null) await buyers.show(one)
      }
    })
    await wait(Math.random() * 300)
    await begin()
    await wait(Math.random() * longest)
    await end()
    const ended = performance.now()
    await eventually('it sells again', async () => {
      const one = await buyers.buy('POST')
      return one !== null && (await buyers.show(one)) === 200
    })
    sums.slowest = Math.max(sums.slowest, Math.round(performance.now() - ended))
    stopped = true
    await Promise.all(work)
    for (const one of buyers.bought) {
      await eventually('the credential is judged', () => buyers.show(one))
      sums.bought++
      if (one.delivered > 1) sums.doubled++
      if (one.delivered === 0) sums.lost++
    }
    sums.refused += buyers.refused
  }
  t.comment(JSON.stringify({ times, ...sums }))
  t.equal(sums.doubled, 0, `none of ${sums.bought} was delivered twice`)
  t.equal(sums.lost, 0, 'none was lost')
}

/** A gateway on servers of the test's own; null where they are not installed. */
async function onOwnServers(t: T) {
  const postgres = await ownPostgres(t)
  const redis = await ownRedis(t)
  if (postgres === null || redis === null) return null
  const upstream = await countingUpstream(t)
  const yaml = shopYaml(upstream.origin, {
    replace: [
      ['mode: development', 'payment: { leaseTimeout: 2s, maxOutstanding: { address: 10000 } }\nmode: development']
    ]
  })
  const gateway = await spawnGateway(t, {
    yaml,
    documented: false,
    env: { DATABASE_URL: postgres.url, REDIS_URL: redis.url }
  })
  return { gateway, postgres, redis }
}

const harms: ReadonlyArray<(servers: { readonly postgres: OwnServer; readonly redis: OwnServer }) => Harm> = [
  ({ postgres }) => ({
    what: 'PostgreSQL is killed',
    times: number('POSTGRES_KILLS', 2),
    begin: () => postgres.kill(),
    end: () => postgres.start()
  }),
  ({ redis }) => ({
    what: 'Redis is killed',
    times: number('REDIS_KILLS', 2),
    begin: () => redis.kill(),
    end: () => redis.start()
  }),
  ({ redis }) => ({
    what: 'Redis is paused',
    times: number('REDIS_PAUSES', 3),
    begin: () => {
      redis.pause()
    },
    end: () => {
      redis.resume()
    }
  })
]

void t.test(
  'while PostgreSQL or Redis is killed or paused, nothing is delivered twice, nothing lost, and sales resume automatically',
  {
    // Its servers are its own, in every environment.
    skip: serversOnly() && 'it has run without servers',
    timeout: 120_000 + (number('POSTGRES_KILLS', 2) + number('REDIS_KILLS', 2) + number('REDIS_PAUSES', 3)) * 30_000
  },
  async t => {
    const servers = await onOwnServers(t)
    if (servers === null) {
      t.pass('no PostgreSQL and Redis here', { skip: 'postgresql and redis-server are not installed' })
      return
    }
    for (const harm of harms.map(make => make(servers))) {
      await t.test(`${harm.what} ${harm.times} times`, { timeout: 60_000 + harm.times * 30_000 }, async t => {
        await campaign(t, servers.gateway, harm)
      })
    }
  }
)
