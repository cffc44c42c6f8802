import { randomBytes } from 'node:crypto'
import type { Test as T } from 'tap'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import type { Clock } from '../../src/platform/system/clock.ts'
import type { ProviderSlot } from '../../src/lightning/providers/slot-keys.ts'
import type { KindName } from '../../src/lightning/provider-calls/provider.ts'
import { startFakeLnd, type Permission } from '../fakes/lnd.ts'
import { startFakeOpenNode } from '../fakes/opennode.ts'
import { STRIKE_SCOPES, startFakeStrike } from '../fakes/strike.ts'

/** What goes wrong with a request at every fake. */
export type TillFault = 'hang' | 'lost after' | 'html' | 'server error'
/** What a request asks for. */
export type TillCall = 'create' | 'look up' | 'list' | 'pay out'

/** A kind's fake, as far as the journeys need to know it. */
export interface Till {
  readonly kind: KindName
  readonly slot: ProviderSlot
  readonly url: string
  /** Of the account, with every permission. */
  readonly key: string
  /** Satoshis of 25 US dollars and of 9.20 euros, by the converter of the kind. */
  readonly sats: { readonly usd: number; readonly eur: number }
  /** How often the poller lists an account with open payments, in milliseconds. */
  readonly polled: number
  /** Another key of the same account. */
  anotherKey(): string
  /** Another one that may not make invoices, and the name of what it lacks. */
  keyWithoutInvoices(): { readonly key: string; readonly lacks: RegExp }
  /** Another one that may take payments and send nothing, and the name of what it lacks. */
  keyWithoutPayouts(): { readonly key: string; readonly lacks: RegExp }
  /** The key is no longer good. */
  revoke(key: string): void
  /** Invoices that were made. */
  charges(): number
  /** Payouts that were taken: what left the account. */
  payouts(): number
  /** Requests that came. */
  requests(): number
  /** Pays an invoice over Lightning without a notification; returns the preimage. */
  pay(invoice: string): string
  /**
   * Sends the notification about an invoice, as often as asked; null where the kind sends none. The statuses that it
   * was answered.
   */
  readonly notify: ((invoice: string, times?: number) => Promise<ReadonlyArray<number | null>>) | null
  /** Payouts stay in flight until `finishPayouts`. */
  slowPayouts(): void
  finishPayouts(): void
  fail(fault: TillFault, call: TillCall): void
  /** Called when a request is left without an answer. */
  onHang(then: () => void): void
}

/** Strike, in the primary slot. */
export async function strikeTill(
  t: T,
  clock: Clock
): Promise<Till & { readonly fake: Awaited<ReturnType<typeof startFakeStrike>> }> {
  const key = `strike-${randomBytes(6).toString('hex')}`
  const fake = await startFakeStrike({ key, clock })
  t.teardown(() => fake.close())
  const { account } = fake
  const calls: Record<TillCall, RegExp> = {
    create: /^POST \/v1\/receive-requests$/,
    'look up': /^GET \/v1\/receive-requests\/[^/]+\/receives$/,
    list: /^GET \/v1\/receive-requests\/receives$/,
    'pay out': /^PATCH \/v1\/payment-quotes\//
  }
  const idOf = (invoice: string) => {
    const held = [...account.requests.values()].find(request => request.invoice === invoice)
    if (held === undefined) throw new Error('no receive request has this invoice')
    return held.id
  }
  const keyWithout = (scope: (typeof STRIKE_SCOPES)[number], key: string) => {
    fake.addKey(
      key,
      STRIKE_SCOPES.filter(other => other !== scope),
      account
    )
    return { key, lacks: new RegExp(scope.replaceAll('.', '\\.')) }
  }
  let keys = 0
  return {
    kind: 'strike',
    slot: 'primary',
    url: fake.url,
    key,
    fake,
    sats: { usd: 25_000, eur: 10_000 },
    polled: 60_000,
    anotherKey: () => {
      const another = `${key}-${++keys}`
      fake.addKey(another, STRIKE_SCOPES, account)
      return another
    },
    keyWithoutInvoices: () => keyWithout('partner.receive-request.create', `${key}-no-invoices`),
    keyWithoutPayouts: () => keyWithout('partner.payment-quote.lightning.create', `${key}-no-payouts`),
    revoke: old => {
      fake.revokeKey(old)
    },
    charges: () => account.requests.size,
    payouts: () => account.payments.size,
    requests: () => fake.requests.length,
    pay: invoice => {
      const id = idOf(invoice)
      account.receive(id, 'LIGHTNING', 'COMPLETED')
      return account.request(id).preimage
    },
    notify: async (invoice, times = 1) => {
      for (let time = 0; time < times; time++) fake.announce('receive-request.receive-completed', idOf(invoice))
      // Those that were refused before are sent again first.
      return (await fake.deliver()).slice(-times)
    },
    slowPayouts: () => {
      account.isSlow = true
    },
    finishPayouts: () => {
      for (const payment of account.payments.values())
        if (payment.state === 'PENDING') account.settle(payment.id, 'COMPLETED')
    },
    fail: (fault, call) => {
      fake.fail(fault, calls[call])
    },
    onHang: then => {
      fake.onHang = then
    }
  }
}

/** OpenNode, in the alternate slot. */
export async function openNodeTill(
  t: T,
  clock: Clock
): Promise<Till & { readonly fake: Awaited<ReturnType<typeof startFakeOpenNode>> }> {
  const key = `opennode-${randomBytes(6).toString('hex')}`
  const fake = await startFakeOpenNode({ key, clock })
  t.teardown(() => fake.close())
  const { account } = fake
  const calls: Record<TillCall, RegExp> = {
    create: /^POST \/v1\/charges$/,
    'look up': /^GET \/v1\/charge\//,
    list: /^GET \/v1\/charges$/,
    'pay out': /^POST \/v2\/withdrawals$/
  }
  const chargeOf = (invoice: string) => {
    const held = [...account.charges.values()].find(({ payreq }) => payreq === invoice)
    if (held === undefined) throw new Error('no charge has this invoice')
    return held
  }
  let keys = 0
  const addKey = (...permissions: Parameters<typeof fake.addKey>[1] & object) => {
    const another = `${key}-${++keys}`
    fake.addKey(another, permissions, account)
    return another
  }
  return {
    kind: 'opennode',
    slot: 'alternate',
    url: fake.url,
    key,
    fake,
    sats: { usd: 50_000, eur: 20_240 },
    polled: 60_000,
    anotherKey: () => addKey('Read', 'Invoices', 'Withdrawals'),
    keyWithoutInvoices: () => ({ key: addKey('Read', 'Withdrawals'), lacks: /Invoices/ }),
    keyWithoutPayouts: () => ({ key: addKey('Read', 'Invoices'), lacks: /Withdrawals/ }),
    revoke: old => {
      fake.revokeKey(old)
    },
    charges: () => account.charges.size,
    payouts: () => account.withdrawals.size,
    requests: () => fake.requests.length,
    pay: invoice => {
      const held = chargeOf(invoice)
      account.payLightning(held.id)
      return held.preimage
    },
    notify: async (invoice, times = 1) => {
      const statuses: Array<number | null> = []
      for (let time = 0; time < times; time++) statuses.push((await fake.notify(chargeOf(invoice)))?.status ?? null)
      return statuses
    },
    // Every withdrawal is.
    slowPayouts: () => {},
    finishPayouts: () => {
      for (const { id, status } of account.withdrawals.values())
        if (status === 'pending') account.moveWithdrawal(id, 'confirmed')
    },
    fail: (fault, call) => {
      fake.fail(fault, calls[call])
    },
    onHang: then => {
      fake.onHang = then
    }
  }
}

/** A node of the merchant's own, in the primary slot. */
export async function lndTill(
  t: T,
  clock: Clock
): Promise<Till & { readonly fake: Awaited<ReturnType<typeof startFakeLnd>> }> {
  const fake = await startFakeLnd({ clock })
  t.teardown(() => fake.close())
  const { wallet } = fake
  const calls: Record<TillCall, RegExp> = {
    create: /^POST \/v1\/invoices$/,
    'look up': /^GET \/v1\/invoice\//,
    list: /^GET \/v1\/invoices$/,
    'pay out': /^POST \/v2\/router\/send$/
  }
  const receiving: readonly Permission[] = ['info:read', 'invoices:read', 'invoices:write']
  return {
    kind: 'lnd',
    slot: 'primary',
    url: fake.url,
    key: fake.key(),
    fake,
    // At the price feed's 97,123.45 dollars and 89,000.5 euros, up to the next satoshi.
    sats: { usd: 25_741, eur: 10_338 },
    polled: 10_000,
    anotherKey: () => fake.key(),
    keyWithoutInvoices: () => ({ key: fake.key(['info:read', 'invoices:read']), lacks: /invoices:write/ }),
    keyWithoutPayouts: () => ({ key: fake.key(receiving), lacks: /offchain:read/ }),
    revoke: old => {
      fake.revoke(old)
    },
    charges: () => wallet.invoices.size,
    payouts: () => wallet.payments.size + wallet.transactions.length,
    requests: () => fake.requests.length,
    pay: invoice => wallet.settle(decodeInvoice(invoice).paymentHash),
    notify: null,
    // A payout in flight keeps its answer open; lnd's own way to be slow is a lost answer to us.
    slowPayouts: () => {},
    finishPayouts: () => {
      wallet.mine()
    },
    fail: (fault, call) => {
      fake.fail(fault, calls[call])
    },
    onHang: then => {
      fake.onHang = then
    }
  }
}
