import { randomBytes } from 'node:crypto'
import type { Test as T } from 'tap'
import { Ledger } from '../../../src/selling/balances/ledger.ts'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import type { Payee } from '../../../src/lightning/providers/payee.ts'
import type { Payout, PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import { SessionNews } from '../../../src/selling/sessions/news.ts'
import { RefundOverrides } from '../../../src/selling/sessions/refund-rules.ts'
import { SessionRefunds } from '../../../src/selling/sessions/refunds.ts'
import { SessionStore } from '../../../src/selling/sessions/store.ts'
import { systemRandom } from '../../../src/platform/system/ids.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { newBalance } from '../balances/fixture.ts'
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

  get payee(): Payee {
    const parts: Partial<Payee> = {
      slot: 'primary',
      kind: 'sandbox',
      capabilities: {
        onchain: false,
        hostedCheckout: false,
        notifies: false,
        payout: {
          lightning: true,
          chain: false,
          ...(this.once ? { once: true } : {}),
          ...(this.mostFee === null ? {} : { mostFee: this.mostFee })
        }
      },
      payOut: request => {
        this.sent.push(request)
        return this.pay()
      },
      lookUpPayout: request => {
        this.looked.push(request)
        return this.known()
      }
    }
    return parts as Payee // No more of it is asked for.
  }
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

export function setting(t: T, database: Database) {
  const clock = new ManualClock()
  const provider = new Provider()
  /** The refunds that ended, as they are counted. */
  const ended: string[] = []
  const counters = { ...UNCOUNTED, refund: (status: string, sats: number) => ended.push(`${status} ${sats}`) }
  const [store, balances] = [new SessionStore(database), new BalanceStore(database)]
  const gateway = () => {
    const ledger = new Ledger({ store: new BalanceStore(database), database, clock, log: silentLog })
    t.teardown(() => ledger.close())
    const refunds = new SessionRefunds({
      store,
      balances,
      ledger,
      database,
      payees: { maker: () => provider.payee },
      news: new SessionNews(database, silentLog),
      counters,
      clock,
      random: systemRandom,
      log: silentLog
    })
    return { ledger, refunds, overrides: new RefundOverrides({ store, refunds, database, clock, log: silentLog }) }
  }
  const open = async (depositedMsat = 100_000, invoice = returnInvoice({ at: clock.now() })) => {
    const balance = newBalance(clock, { kind: 'session', depositedMsat })
    await balances.open(balance)
    await store.open(database.sql, {
      id: balance.id,
      openChallenge: randomBytes(8).toString('hex'),
      network: 'regtest',
      chargeId: 'charge',
      providerSlot: 'primary',
      providerKind: 'sandbox',
      openedAt: clock.now(),
      idleMs: 300_000,
      returnInvoice: invoice,
      returnHash: decodeInvoice(invoice, { zeroAmount: true }).paymentHash
    })
    return balance.id
  }
  return { clock, provider, ended, store, balances, open, ...gateway(), other: gateway() }
}
