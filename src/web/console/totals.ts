import { iso } from '../../engine/formats/iso-time.ts'
import { t } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { ListTotal } from '../../engine/operations/keyset.ts'
import { html } from '../kit/document.ts'
import { queryOf } from './api.ts'
import type { PageRequest } from './page.ts'
import type { Filter } from './lists.ts'
import { figure } from './parts.ts'
import { count, percent, sats } from './words.ts'

const DAY = 86_400_000

/** Common periods in UTC, by name with their first moment. */
function periods(now: number): ReadonlyArray<readonly [name: string, from: string]> {
  const today = Math.floor(now / DAY) * DAY
  const month = iso(now).slice(0, 8)
  return [
    ['Today', iso(today)],
    ['7 days', iso(today - 6 * DAY)],
    ['30 days', iso(today - 29 * DAY)],
    ['This month', `${month}01T00:00:00.000Z`]
  ]
}

/** Links that choose a common period and keep the other filters. */
export function presets({ ctx, link }: Pick<PageRequest, 'ctx' | 'link'>, path: string, filter: Filter): VNode {
  return html`
    <nav class="pager" aria-label="Periods (UTC)">${periods(ctx.now).map(
      ([name, from]) =>
        html`<a href=${link(`${path}${queryOf({ ...filter, from, to: null })}`)} aria-current=${from === filter['from'] && !filter['to'] ? 'true' : null}>${t(name)}</a>`
    )}</nav>`
}

/**
 * Count and sum of a filtered list, beside the period of the same length before.
 * @param list operation of the list, which takes `sum`
 * @throws ApiRefusal
 */
export async function totals(
  { api, ctx, worth }: PageRequest,
  list: string,
  filter: Filter,
  what: string
): Promise<VNode> {
  const of = async (span: Filter): Promise<ListTotal> => {
    const target = `${list}${queryOf({ ...filter, ...span, sum: 'true', limit: 1 })}`
    return (await api.get<{ readonly total?: ListTotal }>(target)).total ?? { count: 0, sats: 0 }
  }
  const from = Date.parse(filter['from'] ?? '')
  const to = filter['to'] ? Date.parse(filter['to']) : ctx.now
  const before = from < to ? { from: iso(2 * from - to), to: iso(from) } : null
  const [now, then] = await Promise.all([of({}), before === null ? null : of(before)])
  const beside = (one: number, other: number | undefined): string | null =>
    other === undefined
      ? null
      : t`${count(other)} in the previous period${other === 0 ? '' : `, ${change(one, other)}`}`
  const received = await valued({ worth }, [now.sats])
  return html`
    <dl class="figures-row">
      ${figure(what, count(now.count), beside(now.count, then?.count))}
      ${figure('Received', received(now.sats), beside(now.sats, then?.sats))}
    </dl>`
}

/** Formats satoshis with their value in the reader's currency, where it is known. */
export async function valued(
  { worth }: Pick<PageRequest, 'worth'>,
  amounts: readonly number[]
): Promise<(satoshis: number) => string> {
  const values = new Map(await Promise.all([...new Set(amounts)].map(async one => [one, await worth(one)] as const)))
  return satoshis => {
    const value = values.get(satoshis) ?? null
    return `${sats(satoshis)}${value === null ? '' : ` (${value})`}`
  }
}

function change(one: number, other: number): string {
  return one < other ? `−${percent(other - one, other)}` : `+${percent(one - other, other)}`
}
