import { randomBytes } from 'node:crypto'
import type { Test as T } from 'tap'
import { Ledger } from '../../../src/selling/balances/ledger.ts'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import type { Payee } from '../../../src/lightning/providers/payee.ts'
import type { Payout, PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import { PayoutUncertain } from '../../../src/lightning/provider-calls/errors.ts'
import { SessionNews } from '../../../src/selling/sessions/news.ts'
import { RefundOverrides } from '../../../src/selling/sessions/refund-rules.ts'
import { SessionRefunds } from '../../../src/selling/sessions/refunds.ts'
import { SessionStore } from '../../../src/selling/sessions/store.ts'
import { systemRandom } from '../../../src/platform/system/ids.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { opened } from '../balances/fixture.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { returnInvoice } from './fixture.ts'

export const PAID: Payout = { payoutId: 'p1', status: 'confirmed', feeSats: 1, transactionHash: null, processedAt: 1 }

/** A provider that answers what the test says, and writes down what it was asked. */
export class Provider {
  readonly sent: PayoutRequest[] = []
  readonly looked: PayoutRequest[] = []
  pay: () => Promise<Payout> = () => Promise.resolve(PAID)
  known: () => Promise<Payout | null> = () => Promise.resolve(null)
  /** Whether it pays a request once, however often it is asked. */
  once = true
  /** What a payment may cost, where it takes no limit for that. */
  mostFee: { sats: number; percent: number } | null = null

  pays(): void {
    this.pay = () => Promise.resolve(PAID)
  }

  fails(error: Error): void {
    this.pay = async () => {
      throw error
    }
  }

  /** The outcome of requests is not heard. */
  loses(): void {
    this.fails(new PayoutUncertain(new Error('reset')))
  }

  knows(): void {
    this.known = () => Promise.resolve(PAID)
  }

  get payee(): Payee {
    const terms = { ...(this.once ? { once: true } : {}), ...(this.mostFee === null ? {} : { mostFee: this.mostFee }) }
    return payeeOf(terms, {
      payOut: request => {
        this.sent.push(request)
        return this.pay()
      },
      lookUpPayout: request => {
        this.looked.push(request)
        return this.known()
      }
    })
  }
}

export function payeeOf(terms: object, calls: Pick<Payee, 'payOut' | 'lookUpPayout'>): Payee {
  const payout = { lightning: true, chain: false, ...terms }
  const capabilities = { onchain: false, hostedCheckout: false, notifies: false, payout }
  const parts: Partial<Payee> = { slot: 'primary', kind: 'sandbox', capabilities, ...calls }
  return parts as Payee // No more of it is asked for.
}

const NOTHING = () => {}
const UNCOUNTED = {
  opened: NOTHING,
  toppedUp: NOTHING,
  closed: NOTHING,
  refund: NOTHING,
  paused: NOTHING,
  timedOut: NOTHING
}

interface Process {
  readonly database: Database
  readonly clock: ManualClock
  readonly ledger: Ledger
  readonly counters?: object
  payee(): Payee
}

/** What one gateway does with refunds. */
export function refundsOf({ database, clock, ledger, payee, counters = {} }: Process) {
  const store = new SessionStore(database)
  const ground = { store, database, clock, log: silentLog }
  const refunds = new SessionRefunds({
    ...ground,
    balances: new BalanceStore(database),
    ledger,
    payees: { maker: payee },
    news: new SessionNews(database, silentLog),
    counters: { ...UNCOUNTED, ...counters },
    random: systemRandom
  })
  return { refunds, overrides: new RefundOverrides({ ...ground, refunds }) }
}

/** Opens a session; its id. */
export async function openSession(
  database: Database,
  clock: ManualClock,
  depositedMsat: number,
  returnInvoice: string
): Promise<string> {
  const { id } = await opened(new BalanceStore(database), clock, { kind: 'session', depositedMsat })
  await new SessionStore(database).open(database.sql, {
    id,
    openChallenge: randomBytes(8).toString('hex'),
    network: 'regtest',
    chargeId: 'charge',
    providerSlot: 'primary',
    providerKind: 'sandbox',
    openedAt: clock.now(),
    idleMs: 300_000,
    returnInvoice,
    returnHash: decodeInvoice(returnInvoice, { zeroAmount: true }).paymentHash
  })
  return id
}

export function setting(t: T, database: Database) {
  const clock = new ManualClock()
  const provider = new Provider()
  /** The refunds that ended, as they are counted. */
  const ended: string[] = []
  const counters = { refund: (status: string, sats: number) => ended.push(`${status} ${sats}`) }
  const gateway = () => {
    const ledger = new Ledger({ store: new BalanceStore(database), database, clock, log: silentLog })
    t.teardown(() => ledger.close())
    return { ledger, ...refundsOf({ database, clock, ledger, counters, payee: () => provider.payee }) }
  }
  const open = (depositedMsat = 100_000, invoice = returnInvoice({ at: clock.now() })) =>
    openSession(database, clock, depositedMsat, invoice)
  const own = gateway()
  const closed = async (id: string) => {
    await own.refunds.close(id, 'client', 'c')
    await own.refunds.refund(id)
  }
  const store = new SessionStore(database)
  return { clock, provider, ended, store, open, closed, ...own, other: gateway() }
}
