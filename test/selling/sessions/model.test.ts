/**
 * Whole prepaid sessions in an order of chance: gateways that open, serve, top up, close and die, and a provider that
 * refuses, pays, loses requests and answers, and is down. The money is counted at the provider, not where it is written.
 */
import { randomBytes, randomInt } from 'node:crypto'
import t, { type Test as T } from 'tap'
import type { BalanceReservation } from '../../../src/selling/balances/slice.ts'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { PayoutUncertain, ProviderRefused, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import type { Payee } from '../../../src/lightning/providers/payee.ts'
import type { Payout, PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import { SessionStore } from '../../../src/selling/sessions/store.ts'
import { isReserved, killableLedger, passing, randoms, settled, written } from '../balances/fixture.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { returnInvoice } from './fixture.ts'
import { openSession, payeeOf, refundsOf } from './refund-fixture.ts'

const NOTHING = () => {}
const DEPOSIT = 20_000

/** A node that pays, and the money that has left it. */
class Node {
  /** By reference: what was paid, and whether it has arrived. */
  readonly payments = new Map<string, { invoice: string; amountSats: number; arrived: boolean }>()
  /** By invoice, how often it was paid. */
  readonly paid = new Map<string, number>()
  readonly #late: Array<{ readonly request: PayoutRequest; readonly at: number }> = []
  readonly #seed: () => number
  readonly #once: boolean
  readonly #clock: ManualClock
  calm = false
  /** Called when the gateway that asks is to die before it hears. */
  die: () => void = NOTHING

  constructor(once: boolean, seed: () => number, clock: ManualClock) {
    this.#once = once
    this.#seed = seed
    this.#clock = clock
  }

  get payee(): Payee {
    return payeeOf(this.#once ? { once: true } : {}, {
      payOut: request => this.#payOut(request),
      lookUpPayout: request => this.#lookUp(request)
    })
  }

  /** Pays for requests that were long on their way, though shorter than refunds wait before they count as never sent. */
  arrive(all = false): void {
    const now = this.#clock.now()
    for (const { request } of this.#late.filter(({ at }) => all || at <= now)) this.#pay(request, true)
    this.#late.splice(0, Infinity, ...this.#late.filter(({ at }) => !all && at > now))
  }

  async #payOut(request: PayoutRequest): Promise<Payout> {
    const choice = this.calm ? 0 : this.#seed() % 11
    if (choice === 1) throw new ProviderRefused('request', 'no route')
    if (choice === 2) throw new ProviderUnavailable('away')
    if (choice === 3) throw new PayoutUncertain(new Error('the request was lost'))
    if (choice === 4) return await this.#dies()
    if (choice === 10) {
      this.#late.push({ request, at: this.#clock.now() + (this.#seed() % 450_000) })
      throw new PayoutUncertain(new Error('nothing was heard of the request'))
    }
    this.#pay(request, choice < 8)
    if (choice === 5) throw new PayoutUncertain(new Error('the response was lost'))
    if (choice === 6) return await this.#dies()
    return this.#told(request.reference)
  }

  async #lookUp({ reference }: PayoutRequest): Promise<Payout | null> {
    const choice = this.calm ? 0 : this.#seed() % 6
    if (choice === 1) throw new ProviderUnavailable('away')
    const payment = this.payments.get(reference)
    if (payment === undefined) return null
    if (choice !== 2) payment.arrived = true
    return this.#told(reference)
  }

  #pay({ reference, destination, amountSats }: PayoutRequest, arrived: boolean): void {
    if (destination.type !== 'ln') throw new TypeError('sessions are paid back over Lightning')
    // What pays once knows the request by its reference; every other pays whatever it is asked for.
    if (this.#once && this.payments.has(reference)) return
    this.payments.set(reference, { invoice: destination.invoice, amountSats, arrived })
    this.paid.set(destination.invoice, (this.paid.get(destination.invoice) ?? 0) + 1)
  }

  #told(reference: string): Payout {
    const arrived = this.payments.get(reference)?.arrived === true
    return {
      payoutId: `p ${reference}`,
      status: arrived ? 'confirmed' : 'processing',
      feeSats: 0,
      transactionHash: null,
      processedAt: arrived ? 1 : null
    }
  }

  async #dies(): Promise<never> {
    this.die()
    return await new Promise<never>(NOTHING)
  }
}

interface Sold {
  readonly id: string
  readonly invoice: string
  deposits: number
}

async function anyOrder(t: T, database: Database, once: boolean, seed: () => number) {
  const clock = new ManualClock()
  const node = new Node(once, seed, clock)
  const [store, balances] = [new SessionStore(database), new BalanceStore(database)]
  let names = 0
  const begin = () => {
    const { ledger, kill } = killableLedger(database, clock, `gateway ${++names} ${seed()}`)
    const paying = refundsOf({ database, clock, ledger, payee: () => node.payee })
    return { ledger, ...paying, kill, open: [] as BalanceReservation[] }
  }
  const gateways = [begin(), begin()]
  const sold: Sold[] = []
  const some = <E>(all: readonly E[]) => all[seed() % all.length] as E // There is always one.
  const open = async () => {
    const invoice = returnInvoice({ at: clock.now() })
    sold.push({ id: await openSession(database, clock, DEPOSIT, invoice), invoice, deposits: DEPOSIT })
  }
  const kill = (gateway: (typeof gateways)[number]) => {
    gateway.kill()
    gateways[gateways.indexOf(gateway)] = begin()
  }
  /** What a gateway does, until it is done or the gateway has died at it. */
  const doing = async (gateway: (typeof gateways)[number], act: () => Promise<unknown>) => {
    const diedAt = Promise.withResolvers<void>()
    node.die = diedAt.resolve
    const acted = act().then(() => 'done' as const)
    const died = diedAt.promise.then(() => 'dead' as const)
    if ((await passing(t, clock, database, Promise.race([acted, died]))) === 'dead') kill(gateway)
  }
  /** What the rows say of each session, held against deposits and what has left the node. */
  const sound = async () => {
    for (const { id, invoice, deposits } of sold) {
      const found = await store.find(id)
      if (found === null) throw new Error(`the session ${id} is gone`)
      const { depositedMsat, spentMsat, refundedMsat, heldMsat } = found
      const left = depositedMsat - spentMsat - refundedMsat
      const wrong = [
        depositedMsat === deposits ? '' : 'deposits',
        left >= heldMsat && heldMsat >= 0 ? '' : 'below zero',
        (node.paid.get(invoice) ?? 0) <= 1 ? '' : 'paid back twice',
        refundedMsat === 0 || node.paid.get(invoice) === 1 ? '' : 'refunded without a payment'
      ].filter(text => text !== '')
      if (wrong.length > 0) throw new Error(`${wrong.join(', ')}: ${JSON.stringify(found)}`)
    }
  }

  await open()
  for (let step = 0; step < 90; step++) {
    const gateway = some(gateways)
    const session = some(sold)
    const { id } = session
    const choice = seed() % 100
    if (choice < 8) await open()
    else if (choice < 36) {
      const answer = await passing(t, clock, database, gateway.ledger.reserve(id, 1 + (seed() % 3_000)))
      if (isReserved(answer)) {
        gateway.open.push(answer)
        await store.touch(id, clock.now())
      }
    } else if (choice < 60 && gateway.open.length > 0) {
      const [reservation] = gateway.open.splice(seed() % gateway.open.length, 1)
      if (reservation !== undefined) await settled(gateway.ledger, reservation, seed() % 4_000)
    } else if (choice < 66) {
      const hash = randomBytes(32).toString('hex')
      const added = await Promise.all([1, 2].map(() => balances.topUp(id, hash, 500, clock.now())))
      if (added[0] !== added[1]) throw new Error('of one deposit shown twice only one was credited')
      if (added[0] === true) session.deposits += 500
    } else if (choice < 74)
      await doing(gateway, async () => {
        await Promise.all([gateway.refunds.close(id, 'client', 'c'), some(gateways).refunds.close(id, 'operator')])
        const found = await store.find(id)
        if (found?.closedAt !== null) await Promise.all([gateway.refunds.refund(id), gateway.refunds.refund(id)])
      })
    else if (choice < 78) await doing(gateway, () => gateway.refunds.sweep())
    else if (choice < 82) await doing(gateway, () => gateway.refunds.begin())
    else if (choice < 90) {
      clock.advance(61_000)
      await doing(gateway, () => gateway.refunds.followUp())
    } else if (choice < 93) {
      const found = await store.find(id)
      if (found?.refundStatus === 'failed') await doing(gateway, () => gateway.overrides.sendAgain(id, null))
    } else if (choice < 96) kill(gateway)
    else {
      const ledgers = gateways.map(each => each.ledger)
      await written(clock, ledgers, 61_000)
      await gateway.ledger.sweep()
    }
    node.arrive()
    await sound()
  }

  // The node is well again, and one gateway brings all to its end.
  node.arrive(true)
  node.calm = true
  for (const { ledger, open: left } of gateways) {
    for (const reservation of left) await settled(ledger, reservation, 1)
    await ledger.close()
  }
  const last = begin()
  clock.advance(61_000)
  await last.ledger.sweep()
  for (const { id } of sold) await last.refunds.close(id, 'operator')
  const statuses = async () =>
    await Promise.all(sold.map(async ({ id }) => (await store.find(id))?.refundStatus ?? 'none'))
  for (let round = 0; round < 40; round++) {
    if ((await statuses()).every(status => status === 'confirmed' || status === 'skipped')) break
    await last.refunds.begin()
    clock.advance(901_000)
    await last.refunds.followUp()
    for (const { id, invoice } of sold) {
      const found = await store.find(id)
      const isPaid = node.paid.get(invoice) === 1
      if (found?.refundStatus === 'failed') {
        if (isPaid) throw new Error(`what was paid back is reported as failed: ${JSON.stringify(found)}`)
        await last.overrides.sendAgain(id, null)
      }
    }
  }
  t.ok(
    (await statuses()).every(status => status === 'confirmed' || status === 'skipped'),
    'every session comes to its end'
  )
  await sound()
  for (const { id, invoice } of sold) {
    const found = await store.find(id)
    const left = (found?.depositedMsat ?? 0) - (found?.spentMsat ?? 0) - (found?.refundedMsat ?? 0)
    // After a refusal a part is withheld for the routing fee.
    const withheld = Math.min(10_000, found?.refundedMsat ?? 0)
    if (left < 0 || left >= 1000 + withheld) throw new Error(`${left} millisatoshis are left: ${JSON.stringify(found)}`)
    const payment = [...node.payments.values()].find(one => one.invoice === invoice)
    if ((payment?.amountSats ?? 0) * 1000 !== found?.refundedMsat)
      throw new Error(`${payment?.amountSats} satoshis left the node: ${JSON.stringify(found)}`)
  }
}

void eachDatabase(
  t,
  'whatever the order of events, deposits are what was spent and paid back, and nothing is paid back twice',
  async (t, database) => {
    for (const once of [true, false, true, false]) {
      const begun = Number(process.env['SEED'] ?? randomInt(1, 0x7fffffff))
      await t.test(`seed ${begun}, ${once ? 'paid once' : 'paid as often as requested'}`, async t => {
        await anyOrder(t, database, once, randoms(begun))
      })
    }
  }
)
