import { randomBytes } from 'node:crypto'
import { challengeCounters } from '../../src/selling/holding/counters.ts'
import { Metrics } from '../../src/platform/telemetry/metrics.ts'
import type { Offer } from '../../src/selling/offers/offer.ts'
import { openSelling, type Selling } from '../../src/selling/challenges/open.ts'
import type { ChallengeSettings } from '../../src/selling/offers/settings.ts'
import type { NewChallenge, SentChallenge } from '../../src/selling/holding/challenge.ts'
import type { RequestBody } from '../../src/engine/message/context.ts'
import { Context, NO_ROUTE } from '../../src/engine/message/context.ts'
import { HeaderList } from '../../src/engine/message/headers.ts'
import { encodeInvoice } from '../../src/lightning/codecs/bolt11-encode.ts'
import { encodePaymentToken } from '../../src/lightning/payment-scheme/payment-credential.ts'
import { paymentHashOf } from '../../src/lightning/codecs/hmac.ts'
import { TokenKeyRing } from '../../src/lightning/l402/root-key.ts'
import { systemClock } from '../../src/platform/system/clock.ts'
import { openDatabase, type Database } from '../../src/platform/database/database.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { migrate } from '../../src/platform/database/migrations.ts'
import { migrations } from '../../src/platform/database/migrations/list.ts'
import { spreadOf } from '../measure/statistics.ts'
import { runTimeOfTree } from '../rig/cpu.ts'
import { serversMissing, startServers } from '../rig/servers.ts'
import type { Place } from '../peers/target.ts'
import type { Figure, Study, StudyRow } from './scenario.ts'

const AT_ONCE = 32

const settings: ChallengeSettings = {
  publicHost: 'api.example.com',
  serviceName: 'boltgate',
  tokenValidity: 3_600_000,
  invoiceExpiry: 3_600_000,
  realm: 'api.example.com',
  schemes: ['payment', 'l402'],
  x402Origin: null,
  x402First: false,
  orderByClient: true,
  lsat: false,
  maxPerClient: 10_000,
  maxPerPlace: 10_000,
  macaroonLocation: 'l402',
  leaseTimeout: 30_000
}

const PRICE = 10

const offer: Offer = {
  amountSats: PRICE,
  fiat: null,
  asked: null,
  meter: null,
  sessions: null,
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

/** A node that signed its invoices beforehand, and returns their preimages. */
class Payee {
  readonly slot = 'primary'
  readonly kind = 'sandbox'
  readonly preimages = new Map<string, string>()
  readonly #stock: Array<ReturnType<Payee['sign']>> = []
  readonly #privateKey = randomBytes(32)

  sign(expirySeconds: number, description: string) {
    const preimage = randomBytes(32).toString('hex')
    const paymentHash = paymentHashOf(preimage)
    this.preimages.set(paymentHash, preimage)
    const timestamp = Math.floor(Date.now() / 1000)
    const invoice = encodeInvoice(
      {
        network: 'regtest',
        amountMsat: BigInt(PRICE) * 1000n,
        paymentHash,
        paymentSecret: randomBytes(32).toString('hex'),
        timestamp,
        expirySeconds,
        description
      },
      this.#privateKey
    )
    return {
      chargeId: `sbx_${paymentHash.slice(0, 8)}`,
      invoice,
      paymentHash,
      expiresAt: (timestamp + expirySeconds) * 1000,
      network: 'regtest' as const
    }
  }

  prepare(count: number): void {
    for (let made = 0; made < count; made++) this.#stock.push(this.sign(offer.invoiceExpirySeconds, offer.description))
  }

  async createInvoice(request: { readonly expirySeconds: number; readonly description: string }) {
    return this.#stock.pop() ?? this.sign(request.expirySeconds, request.description)
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

/** What is compared: each run of a piece of work resolves where an answer could go out. */
interface Way {
  readonly label: string
  /** The way whose figures it is compared with: one statement for each. */
  readonly bare: string | null
  prepare(count: number): Promise<Array<() => Promise<void>>>
}

function waysOf(database: Database, selling: Selling, payee: Payee): readonly Way[] {
  const { sql } = database
  let clients = 0
  const mint = async () => (await selling.minting.mint(offer, { clientKey: String(clients++), digest: null })).challenge
  const prepared = async <T>(count: number, make: () => Promise<T>, work: (made: T) => Promise<void>) => {
    const made: T[] = []
    // Not all concurrently: each is another client's, and all are counted.
    for (let at = 0; at < count; at += AT_ONCE)
      made.push(...(await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - at) }, make))))
    return made.map(one => () => work(one))
  }
  /** A challenge as it would be written, that is not. */
  const unwritten = async (): Promise<NewChallenge> => {
    let made: NewChallenge | null = null
    const record = async (challenge: NewChallenge): Promise<void> => {
      made = challenge
    }
    await selling.minting.mint(offer, { clientKey: String(clients++), digest: null, uncapped: true, record })
    if (made === null) throw new Error('nothing was to be written')
    return made
  }
  const token = ({ payment, paymentHash }: SentChallenge): string => {
    if (payment === null) throw new Error('there is no Payment challenge')
    const { id, realm, request, expires } = payment
    const echoed = { id, realm, method: 'lightning', intent: 'charge', request, expires }
    return `Payment ${encodePaymentToken(echoed, payee.preimages.get(paymentHash) ?? '')}`
  }
  return [
    {
      label: 'bare UPDATE',
      bare: null,
      prepare: count =>
        prepared(count, mint, async ({ paymentHash }) => {
          const rows = await sql`
            update challenges set state = 'spent', scheme = 'payment', spent_at = ${new Date()} where payment_hash = ${paymentHash} and state = 'unspent' returning payment_hash`
          if (rows.length !== 1) throw new Error('nothing was spent')
        })
    },
    {
      label: 'redemption',
      bare: 'bare UPDATE',
      prepare: count =>
        prepared(
          count,
          async () => token(await mint()),
          async authorization => {
            const verdict = await selling.verifier.verify(contextOf(authorization), offer)
            if (verdict.kind !== 'paid' || verdict.lease === null) throw new Error('the credential was refused')
            await selling.leases.spend(verdict.lease)
          }
        )
    },
    {
      label: 'claim of a cold token',
      bare: 'bare UPDATE',
      prepare: count =>
        prepared(count, mint, async ({ paymentHash, chargeId, tokenId }) => {
          const condition = { chargeId, tokenId, price: null, issuedAfter: null }
          if ((await selling.claims.claim(paymentHash, 'l402', null, condition)) === null)
            throw new Error('the token was refused')
        })
    },
    {
      label: 'bare INSERT',
      bare: null,
      prepare: count =>
        prepared(count, unwritten, async row => {
          const { payment, wording } = row
          if (!('location' in wording)) throw new Error('this row is of another kind')
          await sql`
            insert into challenges (payment_hash, source, service, merchant_id, proxy_id, place, resource, path, method, query, amount_sats, digest, binding,
              payment_id, realm, request, payment_expires, macaroon, macaroon_location, caveat_path, token_id, invoice, network, charge_id, provider_slot, provider_kind, client_key, idempotency_key,
              description, created_at, expires_at, token_expires_at)
            values (${row.paymentHash}, ${row.source}, ${row.service}, ${row.merchantId}, ${row.proxyId}, ${row.place},
              ${row.resource}, ${row.path}, ${row.method}, ${row.query}, ${row.amountSats}, ${row.digest}, ${row.binding},
              ${payment?.id ?? null}, ${payment?.realm ?? null}, ${''}, ${payment?.expires ?? null}, ${''}, ${wording.location}, ${wording.caveatPath}, ${row.tokenId},
              ${row.invoice}, ${row.network}, ${row.chargeId}, ${row.providerSlot}, ${row.providerKind}, ${row.clientKey},
              ${row.idempotencyKey}, ${row.description}, ${new Date(row.createdAt)}, ${new Date(row.expiresAt)}, ${new Date(row.tokenExpiresAt)})`
        })
    },
    {
      label: 'challenge of a 402, unsigned',
      bare: 'bare INSERT',
      prepare: async count => {
        payee.prepare(count)
        return Array.from({ length: count }, () => async () => {
          await mint()
        })
      }
    }
  ]
}

interface Found {
  readonly time: number[]
  readonly server: number[]
  readonly both: number[]
}

/** What requests cost the database beside the least that any of their kind must cost. */
export const redemption: Study = {
  id: 'redemption',
  seconds: { quick: 18, full: 70 },
  title: 'Redemptions, claims and 402s beside one bare statement each',
  text: `What a Payment credential, a token that is shown for the first time and a challenge cost, without HTTP, on PostgreSQL and on the embedded database: by the gateway's own code, beside one \`update … where payment_hash = $1 and state = 'unspent'\` and one \`insert\` for each on the same table. A redemption is over for its client when the lease is had; its spend is counted with it. CPU is the client's and the database's together.`,
  charted: 'CPU of both',
  async run(place: Place, scale, say) {
    const missing = serversMissing()
    const rows: StudyRow[] = []
    const remarks: string[] = []
    for (const kind of ['PostgreSQL', 'embedded'] as const) {
      if (kind === 'PostgreSQL' && missing !== null) {
        rows.push({ id: 'postgres', label: 'PostgreSQL', absent: missing, figures: {} })
        continue
      }
      const servers = kind === 'PostgreSQL' ? await startServers(place.folder, null) : null
      const database = await openDatabase({
        url: servers?.databaseUrl ?? 'pglite:memory',
        dataDir: place.folder,
        log: silentLog,
        clock: systemClock
      })
      try {
        // It listens before it takes statements.
        for (let tries = 0; (await database.health()).status === 'unhealthy' && tries < 100; tries++) await pause(100)
        await migrate(database, migrations, { clock: systemClock, log: silentLog })
        await measure(kind, database, servers?.postgresPid ?? null, scale, say, rows, remarks)
      } finally {
        await database.close()
        await servers?.stop()
      }
    }
    return { rows, remarks }
  }
}

async function measure(
  kind: string,
  database: Database,
  serverPid: number | null,
  scale: 'quick' | 'full',
  say: (line: string) => void,
  rows: StudyRow[],
  remarks: string[]
): Promise<void> {
  const payee = new Payee()
  const keys = new TokenKeyRing(randomBytes(32))
  const selling = openSelling({
    database,
    clock: systemClock,
    log: silentLog,
    counters: challengeCounters(new Metrics()),
    payee: () => payee,
    keys,
    settings
  })
  const cases = waysOf(database, selling, payee).flatMap(way =>
    [1, AT_ONCE].map(atOnce => ({ way, atOnce, found: { time: [], server: [], both: [] } as Found }))
  )
  // Thousands of one kind at a time: V8 recompiles what the kind before was not, and few would measure that.
  const countOf = (atOnce: number): number => (scale === 'quick' ? 300 : atOnce === 1 ? 1_000 : 3_000)
  for (let round = 0; round < (scale === 'quick' ? 3 : 4); round++) {
    say(`${kind}, round ${round + 1}`)
    for (const { way, atOnce, found } of round % 2 === 0 ? cases : cases.toReversed()) {
      const count = countOf(atOnce)
      const work = (await way.prepare(count)).values()
      const [serverBefore, bothBefore] = [
        serverPid === null ? null : runTimeOfTree(serverPid),
        runTimeOfTree(process.pid)
      ]
      const times: number[] = []
      await Promise.all(
        Array.from({ length: atOnce }, async () => {
          for (const one of work) {
            const begin = performance.now()
            await one()
            times.push((performance.now() - begin) * 1000)
          }
        })
      )
      // Its spends belong to it.
      while (selling.leases.open > 0) await pause(1)
      const [server, both] = [serverPid === null ? null : runTimeOfTree(serverPid), runTimeOfTree(process.pid)]
      // The first round compiles and prepares.
      if (round === 0) continue
      found.time.push(median(times))
      if (both !== null && bothBefore !== null) found.both.push((both - bothBefore) / count)
      if (server !== null && serverBefore !== null) found.server.push((server - serverBefore) / count)
    }
  }
  await selling.close()
  const ratio = (over: readonly number[], under: readonly number[]): string =>
    over.length === 0 || under.length === 0
      ? '–'
      : median(over.map((value, at) => value / (under[at] ?? Number.NaN))).toFixed(2)
  for (const { way, atOnce, found } of cases) {
    const bare = cases.find(other => other.way.label === way.bare && other.atOnce === atOnce)?.found
    const figure = (values: readonly number[]): Figure => ({ unit: 'µs', values })
    rows.push({
      id: `${kind}-${way.label}-${atOnce}`.replaceAll(/[^\w]+/g, '-').toLowerCase(),
      label: `${kind}: ${way.label}${atOnce === 1 ? '' : `, ${atOnce} at once`}`,
      absent: null,
      figures: {
        'until it is answered': figure(found.time),
        'CPU of both': figure(found.both),
        'CPU of PostgreSQL': figure(found.server)
      }
    })
    if (bare !== undefined)
      remarks.push(
        `${kind}, ${atOnce === 1 ? 'one after the other' : `${atOnce} at once`}: ${way.label} to ${way.bare}, medians of the rounds' ratios: ${ratio(found.both, bare.both)} in CPU, ${ratio(found.time, bare.time)} in time.`
      )
  }
}

async function pause(ms: number): Promise<void> {
  await new Promise(resolve => {
    setTimeout(resolve, ms)
  })
}
