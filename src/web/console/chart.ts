import { t } from '../../engine/formats/language.ts'
import { scaleBand, scaleLinear } from 'd3-scale'
import { line, stack, stackOrderNone } from 'd3-shape'
import { utcFormat } from 'd3-time-format'
import type { VNode } from 'preact'
import { html } from '../kit/document.ts'

export type ChartStep = 'hour' | 'day' | 'month'

export interface ChartSeries {
  readonly name: string
  readonly values: readonly number[]
}

export interface ColumnChart {
  /** Caption of the data table. */
  readonly title: string
  readonly step: ChartStep
  /** Start of each column, ascending. */
  readonly times: readonly number[]
  /** Bottom first. */
  readonly series: readonly ChartSeries[]
  readonly format: (value: number) => string
}

/** Lines over time; null is a gap. */
export interface LineChart extends Omit<ColumnChart, 'series'> {
  readonly series: ReadonlyArray<{ readonly name: string; readonly values: ReadonlyArray<number | null> }>
}

/** Start of each column, those without points too. */
export function timesOf(step: ChartStep, { from, to }: { readonly from: string; readonly to: string }): number[] {
  const times: number[] = []
  const at = new Date(from)
  while (at < new Date(to) && times.length < 1000) {
    times.push(at.getTime())
    if (step === 'hour') at.setUTCHours(at.getUTCHours() + 1)
    else if (step === 'day') at.setUTCDate(at.getUTCDate() + 1)
    else at.setUTCMonth(at.getUTCMonth() + 1)
  }
  return times
}

/** Makes lines of points; `without` replaces missing ones. */
export function chartLines<P extends { readonly at: string }>(points: readonly P[], times: readonly number[]) {
  const byTime = new Map(points.map(point => [Date.parse(point.at), point]))
  return (name: string, of: (point: P) => number | null, without: number | null = 0) => ({
    name,
    values: times.map(time => {
      const point = byTime.get(time)
      return point === undefined ? without : of(point)
    })
  })
}

// ViewBox units; the picture scales with the page.
const WIDTH = 720
const HEIGHT = 220
const LEFT = 56
const BOTTOM = 26
const TOP = 8
/** Most labels below the columns. */
const LABELS = 8
/** Colors in the style; further series are merged. */
const COLOURS = 5

const labelOf = {
  hour: utcFormat('%H:%M'),
  day: utcFormat('%-d %b'),
  month: utcFormat('%b %Y')
} satisfies Record<ChartStep, (date: Date) => string>

const wholeLabelOf = {
  hour: utcFormat('%Y-%m-%d %H:%M'),
  day: utcFormat('%Y-%m-%d'),
  month: utcFormat('%Y-%m')
} satisfies Record<ChartStep, (date: Date) => string>

/** Column chart with a data table for accessibility. Times in UTC, like the sums. */
export function columnChart(chart: ColumnChart): VNode {
  const series = fewer(chart.series)
  const sums = chart.times.map((_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0))
  const shown = series.length < 2 ? series : [...series, { name: t('Total'), values: sums }]
  return withTable({ ...chart, series: shown }, series.length, drawing({ ...chart, series }, Math.max(...sums, 0)))
}

/** Line chart with a data table. At most as many lines as colors. */
export function lineChart(chart: LineChart): VNode {
  const highest = Math.max(...chart.series.flatMap(({ values }) => values.map(value => value ?? 0)), 0)
  const { x, y } = scales(chart, highest)
  const { title, times, series } = chart
  const drawn = line<number | null>()
    .defined(value => value !== null)
    .x((_, at) => round((x(times[at] ?? 0) ?? 0) + x.bandwidth() / 2))
    .y(value => round(y(value ?? 0)))
  return withTable(
    chart,
    series.length,
    html`
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${t(title)}: ${series.map(({ name }) => name).join(', ')}`}>
      ${rules(y)}
      ${series.map(({ values }, at) => html`<path class=${`trace trace-${at}`} d=${drawn(values)} />`)}
      ${labels(chart, x)}
    </svg>`
  )
}

function withTable({ title, step, times, series, format }: LineChart, colours: number, picture: VNode): VNode {
  const whole = (time: number): string => wholeLabelOf[step](new Date(time))
  return html`
    <figure class="chart">
      ${picture}
      ${
        colours < 2
          ? null
          : html`<ul class="legend">${series
              .slice(0, colours)
              .map(({ name }, at) => html`<li><span class=${`key tone-${at}`}></span><bdi>${name}</bdi></li>`)}</ul>`
      }
      <details>
        <summary>Show as table</summary>
        <div class="scroll" tabindex="0" role="region" aria-label=${t(title)}>
          <table class="figures">
            <caption class="unseen">${t(title)}</caption>
            <thead><tr><th scope="col">Time (UTC)</th>${series.map(
              ({ name }) => html`<th scope="col"><bdi>${name}</bdi></th>`
            )}</tr></thead>
            <tbody>${times.map(
              (time, at) =>
                html`<tr><th scope="row">${whole(time)}</th>${series.map(
                  ({ values }) => html`<td>${values[at] === null ? '–' : format(values[at] ?? 0)}</td>`
                )}</tr>`
            )}</tbody>
          </table>
        </div>
      </details>
    </figure>`
}

function scales({ times }: Pick<LineChart, 'times'>, highest: number) {
  const x = scaleBand<number>()
    .domain([...times])
    .range([LEFT, WIDTH])
    .paddingInner(0.22)
    .paddingOuter(0.1)
  const y = scaleLinear()
    .domain([0, Math.max(highest, 1)])
    .nice(4)
    .range([HEIGHT - BOTTOM, TOP])
  return { x, y }
}

function rules(y: ReturnType<typeof scales>['y']): VNode[] {
  return y.ticks(4).map(
    tick => html`<g>
          <line class="rule" x1=${LEFT} x2=${WIDTH} y1=${y(tick)} y2=${y(tick)} />
          <text class="mark" x=${LEFT - 8} y=${y(tick) + 4} text-anchor="end">${short(tick)}</text>
        </g>`
  )
}

function labels(
  { step, times }: Pick<LineChart, 'step' | 'times'>,
  x: ReturnType<typeof scales>['x']
): Array<VNode | null> {
  const every = Math.max(1, Math.ceil(times.length / LABELS))
  return times.map((time, at) =>
    at % every === 0
      ? html`<text class="mark" x=${round((x(time) ?? 0) + x.bandwidth() / 2)} y=${HEIGHT - 6} text-anchor="middle">${labelOf[step](new Date(time))}</text>`
      : null
  )
}

function drawing({ title, step, times, series, format }: ColumnChart, highest: number): VNode {
  const { x, y } = scales({ times }, highest)
  const layers = stack<number, string>()
    .keys(series.map(({ name }) => name))
    .value((at, name) => series.find(one => one.name === name)?.values[at] ?? 0)
    .order(stackOrderNone)(times.map((_, at) => at))
  const total = series.reduce((sum, { values }) => sum + values.reduce((one, value) => one + value, 0), 0)
  return html`
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${t`${t(title)}: ${format(total)} in total`}>
      ${rules(y)}
      ${layers.map(
        (layer, colour) =>
          html`<g class=${`tone-${colour}`}>${layer.map((part, at) => {
            const time = times[at] ?? 0
            const [from, to] = part
            const height = y(from) - y(to)
            return height <= 0
              ? null
              : html`<rect x=${round(x(time) ?? 0)} y=${round(y(to))} width=${round(x.bandwidth())} height=${round(height)} rx="2">
              <title>${`${wholeLabelOf[step](new Date(time))} · ${layer.key}: ${format(to - from)}`}</title>
            </rect>`
          })}</g>`
      )}
      ${labels({ step, times }, x)}
    </svg>`
}

/** The first few, and the others merged. */
function fewer(series: readonly ChartSeries[]): readonly ChartSeries[] {
  if (series.length <= COLOURS) return series
  const kept = series.slice(0, COLOURS - 1)
  const others = series.slice(COLOURS - 1)
  const length = Math.max(...others.map(({ values }) => values.length))
  const values = Array.from({ length }, (_, at) => others.reduce((sum, one) => sum + (one.values[at] ?? 0), 0))
  return [...kept, { name: t`${others.length} others`, values }]
}

/** `1200` as `1.2k`. */
function short(value: number): string {
  for (const [unit, size] of [
    ['G', 1e9],
    ['M', 1e6],
    ['k', 1e3]
  ] as const)
    if (value >= size) return `${Number((value / size).toPrecision(3))}${unit}`
  return String(Number(value.toPrecision(3)))
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}
