import { renderToString } from 'preact-render-to-string'
import t from 'tap'
import { columnChart, lineChart } from '../../../src/web/console/chart.ts'

const DAY = 86_400_000
const times = [0, DAY, 2 * DAY]
const draw = (series: Parameters<typeof columnChart>[0]['series']) =>
  renderToString(columnChart({ title: 'Earned', step: 'day', times, series, format: String }))

t.test('the table behind the picture has every value, and their sums', async t => {
  const drawn = draw([
    { name: 'a', values: [1, 2, 3] },
    { name: '<script>', values: [10, 0, 5] }
  ])
  const cells = [...drawn.matchAll(/<td>(\d+)<\/td>/g)].map(([, value]) => Number(value))
  t.same(cells, [1, 10, 11, 2, 0, 2, 3, 5, 8])
  t.match(drawn, /1970-01-02/)
  t.notMatch(drawn, /<script>/)
})

t.test('a column for each value that is not 0, as high as its part of the highest', async t => {
  const drawn = draw([{ name: 'a', values: [50, 0, 100] }])
  const heights = [...drawn.matchAll(/<rect [^>]*height="([\d.]+)"/g)].map(([, height]) => Number(height))
  t.equal(heights.length, 2)
  t.ok(Math.abs((heights[1] ?? 0) / (heights[0] ?? 1) - 2) < 0.01, String(heights))
})

t.test('rows beyond five are summed up, and nothing is lost', async t => {
  const drawn = draw(Array.from({ length: 9 }, (_, at) => ({ name: `n${at}`, values: [at, at, at] })))
  t.match(drawn, /5 others/)
  t.match(drawn, /<td>36<\/td>/)
})

t.test('nothing earned draws no column and divides by nothing', async t => {
  t.notMatch(draw([{ name: 'a', values: [0, 0, 0] }]), /<rect|NaN|Infinity/)
})

t.test('a line has a gap where nothing was measured, and its table says so', async t => {
  const drawn = renderToString(
    lineChart({
      title: 'Latency',
      step: 'day',
      times: [0, DAY, 2 * DAY, 3 * DAY],
      series: [
        { name: 'p50', values: [4, null, 8, 2] },
        { name: 'p99', values: [null, null, null, null] }
      ],
      format: value => `${value} ms`
    })
  )
  t.same(
    [...drawn.matchAll(/<td>([^<]+)<\/td>/g)].map(([, value]) => value),
    ['4 ms', '–', '–', '–', '8 ms', '–', '2 ms', '–']
  )
  const [, path = ''] = / d="([^"]*)"/.exec(drawn) ?? []
  t.equal(path.match(/M/g)?.length, 2, 'two pieces')
  t.notMatch(drawn, /NaN|Infinity|null/)
})
