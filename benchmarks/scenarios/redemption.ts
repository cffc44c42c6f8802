import { randomBytes } from 'node:crypto'
import type { Offer } from '../../src/challenges/offer.ts'
import { Challenges } from '../../src/challenges/service.ts'
import type { ChallengeSettings } from '../../src/challenges/settings.ts'
import type { RequestBody } from '../../src/gateway/body.ts'
import { Context } from '../../src/gateway/context.ts'
import { HeaderList } from '../../src/gateway/headers.ts'
import { NO_ROUTE } from '../../src/gateway/route.ts'
import { encodeInvoice } from '../../src/lightning/bolt11.ts'
import { encodePaymentToken } from '../../src/lightning/payment-credential.ts'
import { paymentHashOf } from '../../src/lightning/preimage.ts'
import { TokenKeyRing } from '../../src/lightning/root-key.ts'
import { systemClock } from '../../src/system/clock.ts'
import { openDatabase, type Database } from '../../src/database/database.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { migrate } from '../../src/database/migrations.ts'
import { migrations } from '../../src/database/migrations/list.ts'
import { spreadOf } from '../measure/statistics.ts'
import { runTimeOfTree } from '../rig/cpu.ts'
import { serversMissing, startServers } from '../rig/servers.ts'
import type { Place } from '../peers/target.ts'
import type { Figure, Study, StudyRow } from './scenario.ts'

const AT_ONCE = 32

const settings: ChallengeSettings = {
  publicHost: 'api.example.com',
  serviceName: 'boltgate',
  defaultPrice: 10,
  tokenValidity: 3_600_000,
  invoiceExpiry: 3_600_000,
  realm: 'api.example.com',
  schemes: ['payment', 'l402'],
  orderByClient: true,
  lsat: false,
  problemBase: 'https://paymentauth.org/problems',
  macaroonLocation: 'l402',
  maxPerClient: 10_000,
  maxPerPlace: 10_000,
  leaseTimeout: 30_000
}

const offer: Offer = {
  amountSats: 10,
  source: 'route',
  service: 'boltgate:0',
  merchantId: null,
  proxyId: null,
  place: 'route:quotes',
  path: '/v1/quote',
  tokenPath: '/v1/quote',
  wildcard: false,
  method: 'GET',
  query: '',
  tokenValiditySeconds: 3600,
  invoiceExpirySeconds: 3600,
  description: 'A quote',
  payee: 'platform',
  bindsDigest: false,
  renewal: 'contract',
  order: null,
  grace: null,
  releaseOn: ['5xx'],
  afterCrash: 'by-method',
  closed: null,
  errorMembers: {}
}

/** A node that signs its invoices here and tells their preimages. */
function payee(preimages: Map<string, string>) {
  const privateKey = randomBytes(32)
  return {
    slot: 'primary',
    kind: 'sandbox',
    async createInvoice(request: {
      readonly amountSats: number
      readonly expirySeconds: number
      readonly description: string
    }) {
      const preimage = randomBytes(32).toString('hex')
      const paymentHash = paymentHashOf(preimage)
      preimages.set(paymentHash, preimage)
      const timestamp = Math.floor(Date.now() / 1000)
      const invoice = encodeInvoice(
        {
          network: 'regtest',
          amountMsat: BigInt(request.amountSats) * 1000n,
          paymentHash,
          paymentSecret: randomBytes(32).toString('hex'),
          timestamp,
          expirySeconds: request.expirySeconds,
          description: request.description
        },
        privateKey
      )
      return {
        chargeId: `sbx_${paymentHash.slice(0, 8)}`,
        invoice,
        paymentHash,
        expiresAt: (timestamp + request.expirySeconds) * 1000,
        network: 'regtest' as const
      }
    }
  }
}

const noBody: RequestBody = Object.freeze({
  length: 0,
  limit: Infinity,
  collected: null,
  bytes: async () => new Uint8Array(),
  stream: () => null
}) as unknown as RequestBody // never read here

function contextOf(authorization: string): Context {
  return new Context(
    {
      method: 'GET',
      target: '/v1/quote',
      headers: new HeaderList(['Authorization', authorization]),
      host: 'api.example.com',
      body: noBody,
      peerAddress: '192.0.2.1',
      clientAddress: '192.0.2.1',
      secure: false,
      httpVersion: '1.1',
      upgrade: null,
      expectsContinue: false,
      correlationId: 'x',
      now: Date.now(),
      startedAt: 0
    },
    NO_ROUTE
  )
}

function median(values: readonly number[]): number {
  return spreadOf(values)?.median ?? NaN
}

/**
 * What is compared: given a credential's payment hash and value, does its work and resolves where an answer could go
 * out.
 */
type Spend = (paymentHash: string, authorization: string) => Promise<void>

function bareUpdate(database: Database): Spend {
  return async paymentHash => {
    const rows = await database.sql`
      update challenges set state = 'spent', scheme = 'payment', spent_at = ${new Date()} where payment_hash = ${paymentHash} and state = 'unspent' returning payment_hash`
    if (rows.length !== 1) throw new Error('nothing was spent')
  }
}

function redeem(challenges: Challenges): Spend {
  return async (_paymentHash, authorization) => {
    const verdict = await challenges.verifier.verify(contextOf(authorization), offer)
    if (verdict.kind !== 'paid' || verdict.lease === null) throw new Error('the credential was refused')
    await challenges.leases.spend(verdict.lease)
  }
}

/** What a redemption costs beside the least that any single use must cost. */
export const redemption: Study = {
  id: 'redemption',
  title: 'A redemption beside one bare UPDATE',
  text: `What a Payment credential costs PostgreSQL, without HTTP: verified, leased and spent by the gateway's own code, beside \`update … where payment_hash = $1 and state = 'unspent'\` on rows of the same table. A redemption is over for its client when the lease is had; the spend is written meanwhile, for all that wait.`,
  charted: 'until it is answered',
  async run(place: Place, scale, say) {
    const labels = ['bare UPDATE', 'redemption', `bare UPDATE, ${AT_ONCE} at once`, `redemption, ${AT_ONCE} at once`]
    const missing = serversMissing()
    if (missing !== null)
      return { rows: labels.map((label, at) => ({ id: `r${at}`, label, absent: missing, figures: {} })), remarks: [] }
    const servers = await startServers(place.folder, null)
    try {
      const database = await openDatabase({
        url: servers.databaseUrl,
        dataDir: place.folder,
        log: silentLog,
        clock: systemClock
      })
      // It listens before it takes statements.
      for (let tries = 0; (await database.health()).status === 'unhealthy' && tries < 100; tries++)
        await new Promise(resolve => {
          setTimeout(resolve, 100)
        })
      await migrate(database, migrations, { clock: systemClock, log: silentLog })
      const preimages = new Map<string, string>()
      const keys = new TokenKeyRing(randomBytes(32))
      const challenges = new Challenges({
        database,
        clock: systemClock,
        log: silentLog,
        payee: () => payee(preimages),
        keys,
        settings
      })
      const ways: readonly Spend[] = [bareUpdate(database), redeem(challenges)]
      const found = labels.map(() => ({ time: [] as number[], postgres: [] as number[], own: [] as number[] }))
      const count = scale === 'quick' ? 150 : 2_000
      for (let round = 0; round < (scale === 'quick' ? 4 : 9); round++) {
        say(`round ${round + 1}`)
        for (const which of round % 2 === 0 ? [0, 1, 2, 3] : [3, 2, 1, 0]) {
          const spend = ways[which % 2]
          const kept = found[which]
          if (spend === undefined || kept === undefined) throw new TypeError('there are two ways')
          const credentials: Array<readonly [string, string]> = []
          for (let made = 0; made < count; made++) {
            const { challenge } = await challenges.mint(offer, { clientKey: String(made), digest: null })
            const { payment, paymentHash } = challenge
            if (payment === null) throw new Error('there is no Payment challenge')
            const token = encodePaymentToken(
              {
                id: payment.id,
                realm: payment.realm,
                method: 'lightning',
                intent: 'charge',
                request: payment.request,
                expires: payment.expires
              },
              preimages.get(paymentHash) ?? ''
            )
            credentials.push([paymentHash, `Payment ${token}`])
          }
          const postgresBefore = runTimeOfTree(servers.postgresPid)
          const ownBefore = process.cpuUsage()
          const times: number[] = []
          const next = credentials.values()
          await Promise.all(
            Array.from({ length: which < 2 ? 1 : AT_ONCE }, async () => {
              for (const [paymentHash, authorization] of next) {
                const begin = performance.now()
                await spend(paymentHash, authorization)
                times.push((performance.now() - begin) * 1000)
              }
            })
          )
          // Its spends belong to it.
          while (challenges.leases.open > 0)
            await new Promise(resolve => {
              setTimeout(resolve, 1)
            })
          const own = process.cpuUsage(ownBefore)
          const postgres = runTimeOfTree(servers.postgresPid)
          // The first round compiles and prepares.
          if (round === 0) continue
          kept.time.push(median(times))
          kept.own.push((own.user + own.system) / count)
          if (postgres !== null && postgresBefore !== null) kept.postgres.push((postgres - postgresBefore) / count)
        }
      }
      await challenges.close()
      await database.close()
      const rows = labels.map((label, at): StudyRow => {
        const { time, postgres, own } = found[at] ?? { time: [], postgres: [], own: [] }
        const figure = (values: readonly number[]): Figure => ({ unit: 'µs', values })
        return {
          id: `r${at}`,
          label,
          absent: null,
          figures: {
            'until it is answered': figure(time),
            'CPU of PostgreSQL': figure(postgres),
            'CPU of the client': figure(own)
          }
        }
      })
      const ratio = (over: number, under: number, what: 'time' | 'postgres'): string => {
        const [left, right] = [found[over]?.[what] ?? [], found[under]?.[what] ?? []]
        return left.length === 0 || right.length === 0 ? '–' : (median(left) / median(right)).toFixed(2)
      }
      return {
        rows,
        remarks: [
          `A redemption to the bare UPDATE: ${ratio(1, 0, 'time')} in time and ${ratio(1, 0, 'postgres')} in PostgreSQL's CPU one after the other, ${ratio(3, 2, 'time')} and ${ratio(3, 2, 'postgres')} with ${AT_ONCE} at once.`
        ]
      }
    } finally {
      await servers.stop()
    }
  }
}
