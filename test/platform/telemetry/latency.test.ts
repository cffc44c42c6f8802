import t from 'tap'
import { LATENCY_BOUNDS, LATENCY_PART_BOUNDS, percentile } from '../../../src/platform/telemetry/latency.ts'
import { Faults } from '../../../src/platform/telemetry/tallies.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'

const NAME = 'took_seconds'

/** Buckets with what was observed in them. */
function countsOf(values: readonly number[]) {
  const metrics = new Metrics()
  const cell = metrics.latencyCells(NAME, 'Time', ['route']).cell({ route: 'a' })
  for (const value of values) cell.observe(value)
  const [found] = metrics.latencies(NAME)
  return new Map(Array.from(found?.counts ?? [], (count, bucket) => [bucket, count] as const).filter(([, n]) => n > 0))
}

t.test('each bound of Prometheus is the last of its parts, and all ascend', async t => {
  t.equal(LATENCY_PART_BOUNDS.length, LATENCY_BOUNDS.length * 4)
  t.same(
    LATENCY_PART_BOUNDS.filter((_, at) => at % 4 === 3),
    LATENCY_BOUNDS
  )
  t.ok(LATENCY_PART_BOUNDS.every((bound, at) => at === 0 || bound > (LATENCY_PART_BOUNDS[at - 1] ?? 0)))
})

t.test('a percentile is within a sixth of the true one, from half a millisecond to half a minute', async t => {
  let seed = 7
  const random = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647
  for (const middle of [0.0008, 0.004, 0.03, 0.2, 1.5, 9]) {
    const values = Array.from({ length: 20_000 }, () => middle * Math.exp(random() - 0.5))
    const sorted = values.toSorted((a, b) => a - b)
    for (const share of [0.5, 0.9, 0.99]) {
      const found = percentile(countsOf(values), share) ?? 0
      const real = sorted[Math.floor(share * sorted.length)] ?? 1
      t.ok(Math.abs(found - real) / real < 1 / 6, `${middle} s at ${share}: ${found} for ${real}`)
    }
  }
})

t.test(
  'no requests have no percentile, one on a bound is in the bucket below it, and what is above all is the highest',
  async t => {
    t.equal(percentile(new Map(), 0.5), null)
    t.same([...countsOf([0.001]).keys()], [3])
    t.same([...countsOf([0.0010001]).keys()], [4])
    t.equal(percentile(countsOf([400]), 0.99), 30)
  }
)

t.test('failure reasons are counted once each, and no more kinds are kept than can be read', async t => {
  const faults = new Faults()
  const one = { route: 'a', status: 502, message: 'gone', correlationId: 'first' }
  faults.add({ ...one, at: 1 })
  faults.add({ ...one, at: 5, correlationId: 'last' })
  for (let i = 0; i < 500; i++) faults.add({ ...one, message: `${i} ${'x'.repeat(1000)}`, at: 9 })
  const all = faults.take()
  t.equal(all.length, 100)
  t.same(all[0], { ...one, times: 2, firstAt: 1, lastAt: 5, correlationId: 'last' })
  t.ok(all.every(({ message }) => message.length <= 300))
  t.same(faults.take(), [])
})
