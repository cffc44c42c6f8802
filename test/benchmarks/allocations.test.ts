import { readFileSync } from 'node:fs'
import t from 'tap'
import { measured } from '../../benchmarks/micro/allocations.ts'
import { cases } from '../../benchmarks/micro/cases.ts'

// Written by `npm run bench:micro -- --write`.
const { tolerance, bytes } = JSON.parse(
  readFileSync(new URL('../../benchmarks/micro/allocations.json', import.meta.url), 'utf8')
) as {
  readonly tolerance: number
  readonly bytes: Readonly<Record<string, number>>
}

t.test("no piece of a request's way allocates more than it did", async t => {
  const now = await measured('bytes')
  t.same(Object.keys(bytes).toSorted(), cases.map(({ id }) => id).toSorted(), 'every case has its figure')
  for (const { id, text } of cases) {
    const found = now.get(id) ?? NaN
    const most = (bytes[id] ?? 0) * (1 + tolerance) + 8
    t.ok(found <= most, `${id}, ${text}: ${Math.round(found)} bytes, at most ${Math.round(most)}`)
    t.ok(
      found > (bytes[id] ?? 0) * (1 - 2 * tolerance) - 16,
      `${id}: ${Math.round(found)} bytes is far below ${bytes[id] ?? 0}: write down the gain with npm run bench:micro -- --write`
    )
  }
})
