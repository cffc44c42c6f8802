import { randomBytes } from 'node:crypto'
import tap, { type Test as T } from 'tap'
import type { ChallengeCounters } from '../../../src/selling/holding/counters.ts'
import type { Offer } from '../../../src/selling/offers/offer.ts'
import type { ChallengePayee } from '../../../src/selling/minting/payee.ts'
import type { NewChallenge, OnPaid, SentChallenge } from '../../../src/selling/holding/challenge.ts'
import type { MintRequest } from '../../../src/selling/minting/minting.ts'
import { openSelling, type Selling, type SellingOptions } from '../../../src/selling/challenges/open.ts'
import type { Challenges } from '../../../src/selling/challenges/service.ts'
import type { ChallengeSettings } from '../../../src/selling/offers/settings.ts'
import { ChallengeStore } from '../../../src/selling/holding/store.ts'
import type { RouteConfig } from '../../../src/engine/config/schema.ts'
import { decodeInvoice, type InvoiceNetwork } from '../../../src/lightning/codecs/bolt11.ts'
import { addCaveat, decodeMacaroonBase64, macaroonToBase64 } from '../../../src/lightning/l402/macaroon.ts'
import { encodePaymentToken } from '../../../src/lightning/payment-scheme/payment-credential.ts'
import { TokenKeyRing } from '../../../src/lightning/l402/root-key.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { ProviderRefused } from '../../../src/lightning/provider-calls/errors.ts'
import type { CallBudget } from '../../../src/lightning/provider-calls/budgets.ts'
import type { InvoiceStock } from '../../../src/lightning/providers/payee.ts'
import type { ChargeRequest } from '../../../src/lightning/provider-calls/provider.ts'
import { openTestDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { newInvoice } from '../../support/invoices.ts'

/** A provider account that signs real regtest invoices and knows every preimage. */
export class FakePayee implements ChallengePayee {
  readonly slot = 'primary'
  readonly kind: string
  instead: ChallengePayee | null = null
  readonly requests: ChargeRequest[] = []
  /** What the next invoices get wrong, or an error to throw. */
  fault: Error | 'amount' | 'hash' | 'expired' | null = null
  network: InvoiceNetwork = 'regtest'
  /** Takes the hash of a description, drops it, or refuses. */
  hashes: boolean | 'refused' = true
  /** Awaited before each invoice is made. */
  gate: Promise<void> | null = null
  /** How invoices of it are made ahead; none where it is null. */
  ahead: InvoiceStock | null = null
  /** What its calls are taken from. */
  budget: CallBudget | null = null
  readonly #preimages = new Map<string, string>()
  readonly #clock: ManualClock
  constructor(clock: ManualClock, kind = 'sandbox') {
    this.#clock = clock
    this.kind = kind
  }

  async createInvoice(request: ChargeRequest) {
    this.requests.push(request)
    await this.gate
    await this.budget?.spend('others', null, request.priority ?? 'keyed')
    if (this.fault instanceof Error) throw this.fault
    if (request.hashed !== undefined && this.hashes === 'refused')
      throw new ProviderRefused('request', 'It takes no hashes.')
    const { expirySeconds, description, hashed, amountSats } = request
    const { invoice, preimage, paymentHash, createdAt } = newInvoice({
      at: this.#clock.now() - (this.fault === 'expired' ? expirySeconds * 1000 : 0),
      network: this.network,
      lie: this.fault === 'amount' ? 'amount' : null,
      amountSats,
      expirySeconds,
      description,
      descriptionHash: this.hashes === true ? hashed?.hash : undefined
    })
    this.#preimages.set(paymentHash, preimage)
    return {
      chargeId: `sbx_${paymentHash.slice(0, 8)}`,
      invoice,
      paymentHash: this.fault === 'hash' ? '0'.repeat(64) : paymentHash,
      expiresAt: createdAt + expirySeconds * 1000,
      network: this.network
    }
  }

  /** Pays an invoice. */
  pay(invoice: string): string {
    const preimage = this.#preimages.get(decodeInvoice(invoice).paymentHash)
    if (preimage === undefined) throw new Error('an invoice of another payee')
    return preimage
  }
}

/** The store with its calls counted, and faults where a test puts them. */
export class WatchedStore {
  readonly calls: string[] = []
  /** Methods that reject. */
  readonly broken = new Set<keyof ChallengeStore>()
  /** Methods that do their work and then reject, as when only the answer is lost. */
  readonly deaf = new Set<keyof ChallengeStore>()
  /** Methods that do their work immediately, and wait before they answer. */
  readonly late = new Map<keyof ChallengeStore, Promise<void>>()
  /** Methods that wait before they begin. */
  readonly slow = new Map<keyof ChallengeStore, Promise<void>>()
  readonly store: ChallengeStore

  constructor(database: Database) {
    const inner = new ChallengeStore(database)
    this.store = new Proxy<ChallengeStore>(inner, {
      get:
        (_target, name) =>
        async (...args: unknown[]) => {
          // Only methods of the interface are asked for.
          const method = name as keyof ChallengeStore
          this.calls.push(method)
          if (this.broken.has(method)) throw Object.assign(new Error('the database is down'), { code: 'ECONNREFUSED' })
          await this.slow.get(method)
          const late = this.late.get(method)
          const result: unknown = await Reflect.apply(inner[method] as (...args: unknown[]) => unknown, inner, args)
          await late
          if (this.deaf.has(method)) throw Object.assign(new Error('the answer was lost'), { code: 'ECONNRESET' })
          return result
        }
    })
  }
}

/** Counts what is counted, as text. */
export class Counted implements ChallengeCounters {
  readonly lines: string[] = []
  challenge(source: string, again: boolean): void {
    this.lines.push(`challenge ${source} ${again ? 'again' : 'new'}`)
  }
  observed(source: string): void {
    this.lines.push(`observed ${source}`)
  }
  free(source: string): void {
    this.lines.push(`free ${source}`)
  }
  payment(source: string, scheme: string, amountSats: number): void {
    this.lines.push(`payment ${source} ${scheme} ${amountSats}`)
  }
  verified(scheme: string, result: string): void {
    this.lines.push(`verified ${scheme} ${result}`)
  }
  clientGone(credential: string): void {
    this.lines.push(`client gone: ${credential}`)
  }
  ahead(result: string, count: number): void {
    this.lines.push(`ahead ${result} ${count}`)
  }
  ambiguous(count: number): void {
    this.lines.push(`ambiguous ${count}`)
  }
}

export const settings: ChallengeSettings = {
  serviceName: 'boltgate',
  publicHost: 'api.example.com',
  tokenValidity: 3_600_000,
  invoiceExpiry: 600_000,
  realm: 'api.example.com',
  schemes: ['l402', 'payment'],
  x402Origin: null,
  x402First: false,
  orderByClient: true,
  lsat: false,
  maxPerClient: 10,
  maxPerPlace: 40,
  macaroonLocation: 'l402',
  leaseTimeout: 30_000
}

export const master = Buffer.from('a master secret of at least thirty-two bytes')

/** One gateway's pay-per-request. */
interface Gateway {
  readonly challenges: Challenges
  readonly selling: Selling
  readonly watched: WatchedStore
}

export interface Fixture extends Gateway {
  readonly clock: ManualClock
  readonly database: Database
  readonly payee: FakePayee
  readonly counted: Counted
  readonly keys: TokenKeyRing
  /**
   * Resolves when the database has answered what was asked of it until now: the embedded one has a single connection.
   */
  asked(): Promise<void>
  /** Another gateway on the same database and clock. */
  another(gateway: string): Gateway
}

let shared: Promise<Database> | null = null
let networks = 0

/** A client address that no other test of this process has: what one test leaves open must not count in another. */
export function freshAddress(): string {
  networks++
  return `198.51.${networks >> 8}.${networks & 255}`
}

/** The whole service, with a clock of its own, over a database that the tests of one file share. */
export async function fixture(
  t: T,
  changes: Partial<ChallengeSettings> = {},
  paid?: OnPaid,
  more: Partial<SellingOptions> = {}
): Promise<Fixture> {
  shared ??= openTestDatabase(tap)
  return fixtureOn(t, await shared, new ManualClock(), changes, paid, more)
}

/** The whole service over a database that is there. */
export function fixtureOn(
  t: T,
  database: Database,
  clock: ManualClock,
  changes: Partial<ChallengeSettings> = {},
  paid?: OnPaid,
  more: Partial<SellingOptions> = {}
): Fixture {
  const payee = new FakePayee(clock)
  const keys = new TokenKeyRing(master)
  const counted = new Counted()
  const make = (gateway: string) => {
    const watched = new WatchedStore(database)
    const selling = openSelling({
      database,
      clock,
      log: silentLog,
      payee: () => payee,
      counters: counted,
      store: watched.store,
      gateway,
      keys,
      ...(paid === undefined ? {} : { paid }),
      ...more,
      settings: { ...settings, ...changes }
    })
    t.teardown(() => selling.close())
    return { challenges: selling.challenges, selling, watched }
  }
  const asked = async () => {
    // Once to let what has just begun send its statement, and once behind it.
    for (let time = 0; time < 2; time++) await database.sql`select 1`
  }
  return { clock, database, payee, counted, keys, asked, another: make, ...make('gateway-1') }
}

/** An operator's route as the configuration gives it. */
export function route(changes: Partial<RouteConfig> = {}): RouteConfig {
  // The parts that only the compiler of routes looks at are left out.
  return {
    name: 'quotes',
    match: { path: ['/v1/*'] },
    chain: 'paid',
    upstream: { kind: 'url', url: ['http://127.0.0.1:1'] },
    price: 10,
    tokenPath: 'exact',
    invoices: true,
    releaseOn: ['5xx', 'client-gone'],
    afterCrash: 'by-method',
    renewal: 'contract',
    priceGrace: 0,
    ...changes
  } as RouteConfig
}

/** When `newChallenge` was made. */
export const MADE_AT = Date.parse('2026-11-21T00:00:00.123Z')

/** A row of `challenges` for 10 satoshis, with a payment hash of its own. */
export function newChallenge(changes: Partial<NewChallenge> = {}): NewChallenge {
  return {
    paymentHash: randomBytes(32).toString('hex'),
    source: 'route',
    service: 'boltgate:0',
    merchantId: null,
    proxyId: null,
    place: 'route:a',
    resource: '/a',
    path: '/a',
    method: 'GET',
    query: '',
    amountSats: 10,
    price: null,
    asked: null,
    digest: null,
    binding: 'b',
    payment: { id: 'id', realm: 'r', expires: '2026-11-21T00:10:00Z' },
    wording: { location: 'l402', caveatPath: null },
    tokenId: '0'.repeat(64),
    invoice: 'lnbcrt1',
    network: 'regtest',
    chargeId: 'c',
    providerSlot: 'primary',
    providerKind: 'sandbox',
    clientKey: '203.0.113.1',
    idempotencyKey: null,
    description: 'd',
    createdAt: MADE_AT,
    expiresAt: MADE_AT + 600_000,
    tokenExpiresAt: MADE_AT + 3_600_000,
    ...changes
  }
}

/** An offer for `GET /v1/quote`. */
export function offer(changes: Partial<Offer> = {}): Offer {
  return {
    amountSats: 10,
    fiat: null,
    asked: null,
    source: 'route',
    meter: null,
    sessions: null,
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
    invoiceExpirySeconds: 600,
    description: 'A quote',
    payee: 'platform',
    bindsDigest: true,
    renewal: 'contract',
    order: null,
    grace: null,
    releaseOn: ['5xx', 'client-gone'],
    afterCrash: 'by-method',
    closed: null,
    errorMembers: {},
    ...changes
  }
}

/** A challenge of a client of its own. */
export async function minted(
  { selling }: Pick<Fixture, 'selling'>,
  changes: Partial<Offer> = {},
  request: Partial<MintRequest> = {}
): Promise<SentChallenge> {
  const requests = { clientKey: freshAddress(), digest: null, ...request }
  return (await selling.minting.mint(offer(changes), requests)).challenge
}

/** The parameters of the Payment line among the values of WWW-Authenticate. */
export function paymentParameters(lines: readonly string[]): Record<string, string> {
  const line = lines.find(value => value.startsWith('Payment '))
  if (line === undefined) throw new Error('there is no Payment line')
  return Object.fromEntries([...line.matchAll(/([a-z]+)="([^"]*)"/g)].map(match => [match[1] ?? '', match[2] ?? '']))
}

/** Macaroon and invoice of the L402 line. */
export function l402Parameters(lines: readonly string[]): { readonly macaroon: string; readonly invoice: string } {
  const match = lines
    .map(value => /^L402 macaroon="([^"]+)", invoice="([^"]+)"/.exec(value))
    .find(found => found !== null)
  if (match?.[1] === undefined || match[2] === undefined) throw new Error('there is no L402 line')
  return { macaroon: match[1], invoice: match[2] }
}

const ECHOED = ['id', 'realm', 'method', 'intent', 'request', 'expires', 'digest']

/**
 * A modern credential for the challenge of an answer. `changes` edits what is echoed; an empty text leaves a member
 * out.
 */
export function modern(
  lines: readonly string[],
  preimage: string,
  changes: Readonly<Record<string, string>> = {}
): string {
  const parameters = { ...paymentParameters(lines), ...changes }
  const echoed = Object.fromEntries(
    Object.entries(parameters).filter(([name, value]) => ECHOED.includes(name) && value !== '')
  )
  return `Payment ${encodePaymentToken(echoed, preimage)}`
}

/** The macaroon with one more caveat, as any holder can make it. */
export function narrowed(macaroon: string, caveat: string): string {
  return macaroonToBase64(addCaveat(decodeMacaroonBase64(macaroon), caveat))
}
