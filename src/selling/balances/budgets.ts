import { iso } from '../../engine/formats/iso-time.ts'
import { unescape } from 'node:querystring'
import { isByField, type MeterConfig } from '../../engine/checks/meter.ts'
import type { Context, PaymentLimits } from '../../engine/message/context.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Challenge } from '../holding/challenge.ts'
import { readField } from '../prices/request-field.ts'
import { budgetId } from './balance.ts'
import type { Ledger } from './ledger.ts'
import type { Metering } from './meter.ts'
import type { BalanceReservation } from './slice.ts'
import type { BalanceStore } from './store.ts'

const DAY = 86_400_000

type Budget = PaymentLimits['budgets'][number]

export interface BudgetOptions {
  readonly store: Pick<BalanceStore, 'open'>
  readonly ledger: Pick<Ledger, 'reserve' | 'release'>
  readonly clock: Clock
}

/**
 * Why a narrowed key does not pay for a request, for its holder; null if its model is allowed. An API that has the model
 * in its path ignores one in the body, so that each that is named must be allowed.
 */
export async function refusedModel(
  { models }: PaymentLimits,
  ctx: Context,
  { model }: Metering,
  { prices, usage }: MeterConfig
): Promise<string | null> {
  if (models === null) return null
  const isInPath = isByField(prices) && 'path' in prices.by
  const values =
    usage === 'gemini'
      ? [geminiModel(ctx.path)]
      : [model, isInPath ? await readField(prices.by, ctx) : null, await readField({ json: 'model' }, ctx)]
  const named = values.filter(each => each !== null)
  if (named.length > 0 && named.every(each => typeof each === 'string' && models.includes(each))) return null
  return `This key is limited to the models ${models.join(', ')}`
}

function geminiModel(path: string): string | null {
  const [segment = '', ...more] = path.slice(path.lastIndexOf('/') + 1).split(/:(?=[A-Za-z]+$)/)
  return segment === '' || more.length === 0 ? null : unescape(segment)
}

/**
 * Reserves from each budget of a narrowed key. A string is the reason of a refusal, after which nothing is reserved.
 * @throws Error without the database
 */
export async function reserveBudgets(
  { budgets }: PaymentLimits,
  msat: number,
  challenge: () => Promise<Challenge | null>,
  options: BudgetOptions
): Promise<readonly BalanceReservation[] | string> {
  const taken: BalanceReservation[] = []
  let isWhole = false
  try {
    for (const budget of budgets) {
      const { id, until } = periodOf(budget, options.clock.now())
      let answer = await options.ledger.reserve(id, msat)
      if (answer.kind === 'refused' && answer.why === 'unknown' && (await open(id, budget, until, challenge, options)))
        answer = await options.ledger.reserve(id, msat)
      if (answer.kind === 'refused') return usedUp(budget, answer.leftMsat, msat, until)
      taken.push(answer)
    }
    isWhole = true
    return taken
  } finally {
    if (!isWhole) for (const reservation of taken) void options.ledger.release(reservation)
  }
}

function usedUp({ msat, period }: Budget, leftMsat: number, neededMsat: number, until: number | null): string {
  const every = period === null ? '' : ` per ${period}`
  const reset = until === null ? '' : `. It resets at ${iso(until)}`
  return `The budget of this key has ${leftMsat} of ${msat} millisatoshis${every} left, and this request needs ${neededMsat}${reset}`
}

/** `until`: when the period ends; null for a budget in all. */
function periodOf({ id, period }: Budget, now: number): { readonly id: string; readonly until: number | null } {
  if (period === null) return { id: budgetId(id, ''), until: null }
  const today = new Date(now)
  const until =
    period === 'day'
      ? Date.UTC(today.getUTCFullYear(), today.getUTCMonth(), today.getUTCDate() + 1)
      : Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + 1)
  return { id: budgetId(id, `:${today.toISOString().slice(0, period === 'day' ? 10 : 7)}`), until }
}

async function open(
  id: string,
  { msat }: Budget,
  until: number | null,
  find: () => Promise<Challenge | null>,
  { store, clock }: BudgetOptions
): Promise<boolean> {
  const challenge = await find()
  if (challenge === null) return false
  const { merchantId, proxyId, place, tokenExpiresAt } = challenge
  await store.open({
    id,
    kind: 'budget',
    merchantId,
    proxyId,
    place,
    unit: 'unit',
    depositedMsat: msat,
    openedAt: clock.now(),
    // Requests that began in the period settle after it.
    expiresAt: until === null ? tokenExpiresAt : until + DAY
  })
  return true
}
