/** One bar; `spread` is drawn as a whisker. */
export interface Bar {
  readonly label: string
  readonly value: number
  readonly low: number
  readonly high: number
  readonly own: boolean
}

/** One line of points. */
export interface Line {
  readonly label: string
  readonly points: ReadonlyArray<readonly [x: number, y: number]>
  readonly own: boolean
}

const WIDTH = 760
const LABEL = 250
const ROW = 30
const COLOURS = ['#0b7453', '#c2571a', '#3f63b5', '#8a4fa3', '#8d7a12', '#5f6b76', '#b3364f']

/** Readable on white and on black pages: the reader's own preference decides. */
const STYLE = `<style>
  text { font: 13px system-ui, sans-serif; fill: #17211d }
  .title { font-weight: 600; font-size: 15px }
  .quiet { fill: #5a6a63 }
  .axis { stroke: #8a9691; stroke-width: 1 }
  .grid { stroke: #8a9691; stroke-opacity: .25 }
  .own { fill: #0b7453 } .peer { fill: #93a59d }
  .whisker { stroke: #17211d; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e7eeea } .quiet { fill: #a5b4ad } .peer { fill: #5d6f67 } .own { fill: #2fae83 } .whisker { stroke: #e7eeea }
  }
</style>`

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

function picture(title: string, height: number, inside: string): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escape(title)}">
${STYLE}
<text class="title" x="0" y="18">${escape(title)}</text>
${inside}
</svg>
`
}

/** Bars from the left, one under another, with the lowest and highest round as a whisker. */
export function barChart(title: string, unit: string, bars: readonly Bar[]): string {
  const most = Math.max(...bars.map(({ high }) => high), Number.MIN_VALUE)
  const room = WIDTH - LABEL - 90
  const at = (value: number): number => LABEL + (value / most) * room
  const rows = bars.map(({ label, value, low, high, own }, index) => {
    const y = 36 + index * ROW
    return `<text x="${LABEL - 8}" y="${y + 14}" text-anchor="end">${escape(label)}</text>
<rect class="${own ? 'own' : 'peer'}" x="${LABEL}" y="${y}" width="${Math.max(1, at(value) - LABEL).toFixed(1)}" height="20" rx="3"/>
<path class="whisker" fill="none" d="M${at(low).toFixed(1)} ${y + 10}H${at(high).toFixed(1)}M${at(low).toFixed(1)} ${y + 6}v8M${at(high).toFixed(1)} ${y + 6}v8"/>
<text x="${(at(high) + 8).toFixed(1)}" y="${y + 14}">${value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString('en')} ${escape(unit)}</text>`
  })
  return picture(title, 46 + bars.length * ROW, rows.join('\n'))
}

/** Lines over a common x-axis, from zero. */
export function lineChart(title: string, xUnit: string, yUnit: string, lines: readonly Line[]): string {
  const points = lines.flatMap(line => line.points)
  const right = Math.max(...points.map(([x]) => x), 1)
  const top = Math.max(...points.map(([, y]) => y), Number.MIN_VALUE)
  const [left, bottom, width, height] = [56, 300, WIDTH - 250, 250]
  const x = (value: number): string => (left + (value / right) * width).toFixed(1)
  const y = (value: number): string => (bottom - (value / top) * height).toFixed(1)
  const grid = [0, 0.25, 0.5, 0.75, 1].map(
    share =>
      `<path class="grid" d="M${left} ${y(top * share)}h${width}"/><text class="quiet" x="${left - 6}" y="${Number(y(top * share)) + 4}" text-anchor="end">${(top * share).toFixed(2)}</text>`
  )
  const ticks = [...new Set(points.map(([value]) => value))].map(
    value =>
      `<text class="quiet" x="${x(value)}" y="${bottom + 18}" text-anchor="middle">${value.toLocaleString('en')}</text>`
  )
  const drawn = lines.map(({ label, points: own, own: ours }, index) => {
    const colour = COLOURS[index % COLOURS.length] ?? '#000'
    const path = own.map(([px, py], number) => `${number === 0 ? 'M' : 'L'}${x(px)} ${y(py)}`).join('')
    return `<path fill="none" stroke="${colour}" stroke-width="${ours ? 3 : 1.8}" d="${path}"/>${own.map(([px, py]) => `<circle cx="${x(px)}" cy="${y(py)}" r="3" fill="${colour}"/>`).join('')}
<rect x="${left + width + 18}" y="${52 + index * 22}" width="14" height="4" fill="${colour}"/><text x="${left + width + 40}" y="${58 + index * 22}">${escape(label)}</text>`
  })
  return picture(
    title,
    340,
    [
      ...grid,
      `<path class="axis" d="M${left} ${bottom}h${width}"/>`,
      ...ticks,
      `<text class="quiet" x="${left + width}" y="${bottom + 34}" text-anchor="end">${escape(xUnit)}</text><text class="quiet" x="${left}" y="40">${escape(yUnit)}</text>`,
      ...drawn
    ].join('\n')
  )
}
