import { hash } from 'node:crypto'

/** A share of a balance that a key may spend: in all, or in each calendar day or month (UTC). */
interface KeyBudget {
  /** Counts together what all keys below this caveat spend: 64 hex characters, by all caveats up to it. */
  readonly id: string
  readonly msat: number
  readonly period: 'day' | 'month' | null
}

/** What a holder narrowed a key to a balance to. */
export interface KeyLimits {
  readonly budgets: readonly KeyBudget[]
  /** Null: all. */
  readonly models: readonly string[] | null
}

const BUDGET = /^([1-9][0-9]{0,14})(?:\/(day|month))?$/
const MAX_BUDGETS = 8

/** Adds the `budget_msat` caveat at this place of `caveats`. A string is its fault. */
export function withBudget(
  limits: KeyLimits | null,
  value: string,
  caveats: readonly Uint8Array[],
  at: number
): KeyLimits | string {
  const [, digits, period] = BUDGET.exec(value) ?? []
  const budgets = limits?.budgets ?? []
  if (digits === undefined || budgets.length === MAX_BUDGETS)
    return `Caveat budget_msat must be millisatoshis, or those per day or month, such as 5000/day, at most ${MAX_BUDGETS} times`
  // `charge_id` is among the caveats, so that no two payments share a budget.
  const upTo = caveats.slice(0, at + 1)
  const id = hash('sha256', JSON.stringify(upTo.map(caveat => Buffer.from(caveat).toString('base64'))))
  // The expression allows no other period.
  const added = { id, msat: Number(digits), period: (period as KeyBudget['period'] | undefined) ?? null }
  return { budgets: [...budgets, added], models: limits?.models ?? null }
}

/** Adds a `model` caveat: a list with commas, of which a repeated one keeps what both name. */
export function withModels(limits: KeyLimits | null, value: string): KeyLimits {
  const models = new Set(value.split(','))
  return { budgets: limits?.budgets ?? [], models: limits?.models?.filter(model => models.has(model)) ?? [...models] }
}
