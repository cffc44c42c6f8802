import type { VNode } from 'preact'
import type { ProxyTrafficView } from '../../../accounts/traffic/merchant-operations.ts'
import type { EarningsView } from '../../../selling/sales/operations.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import { lineChart } from '../chart.ts'
import type { Asked } from '../page.ts'
import { figure } from '../parts.ts'
import { count, percent } from '../words.ts'

const DAY = 86_400_000
const DAYS = 30
/** What an account's APIs sell: requests, and balances that last for many. */
const SOLD_BY_APIS: ReadonlySet<string | null> = new Set(['proxy', 'bundle'])

/** How many of those who were asked to pay did so, by day; null while nobody was asked. */
export async function askedAndPaidSection({ api, ctx }: Asked): Promise<VNode | null> {
  const from = new Date(ctx.now - (DAYS - 1) * DAY).toISOString()
  const [traffic, earned] = await Promise.all([
    api.get<ProxyTrafficView>(`/api/merchant/traffic${queryOf({ from, step: '1d' })}`),
    api.get<EarningsView>(`/api/merchant/earnings${queryOf({ from, by: 'day', of: 'source' })}`)
  ])
  const { asked } = traffic.total
  const paid = earned.points.filter(({ key }) => SOLD_BY_APIS.has(key))
  if (asked === 0) return null
  const times: number[] = []
  for (let at = Date.parse(traffic.from); at < Date.parse(traffic.to) && times.length <= DAYS; at += DAY) times.push(at)
  const byDay = (points: ReadonlyArray<readonly [at: string, sum: number]>): number[] => {
    const sums = new Map<number, number>()
    for (const [at, sum] of points) sums.set(Date.parse(at), (sums.get(Date.parse(at)) ?? 0) + sum)
    return times.map(time => sums.get(time) ?? 0)
  }
  const sales = paid.reduce((sum, point) => sum + point.sales, 0)
  return html`
    <section aria-labelledby="asked">
      <h2 id="asked">Asked to pay, and paid</h2>
      <dl class="figures-row">
        ${figure('Asked to pay', count(asked), '402s in 30 days')}
        ${figure('Paid', count(sales), `${percent(sales, asked)} of them`)}
      </dl>
      ${lineChart({
        title: 'Asked to pay, and paid, by day',
        step: 'day',
        times,
        format: count,
        series: [
          { name: 'Asked to pay (402)', values: byDay(traffic.points.map(({ at, asked: one }) => [at, one])) },
          { name: 'Paid', values: byDay(paid.map(({ at, sales: one }) => [at, one])) }
        ]
      })}
    </section>`
}
