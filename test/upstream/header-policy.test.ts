import t from 'tap'
import { responseHeaders } from '../../src/upstream/header-policy.ts'

/** How often a name is put in lower case, which is once for each look at one. */
function looks (run: () => void): number {
  const original = Object.getOwnPropertyDescriptor(String.prototype, 'toLowerCase')
  if (original === undefined) throw new TypeError('strings have toLowerCase')
  const { toLowerCase } = String.prototype
  let count = 0
  Object.defineProperty(String.prototype, 'toLowerCase', { ...original, value (this: string) {
    count++
    return Reflect.apply(toLowerCase, this, [])
  } })
  try {
    run()
  } finally {
    Object.defineProperty(String.prototype, 'toLowerCase', original)
  }
  return count
}

t.test('a head full of names in Connection is looked at as often as it has names and lines, not as their product', async t => {
  const names = Array.from({ length: 2_000 }, (_, at) => `x-named-${at}`)
  const lines = Array.from({ length: 2_000 }, (_, at) => [`X-Line-${at}`, '1']).flat()
  let kept = 0
  const count = looks(() => { kept = responseHeaders(['Connection', names.join(','), ...lines, 'X-Named-7', 'gone'], 200).pairs.length })
  t.ok(count <= 5 * (2_000 + 2_000), `${count} looks`)
  t.same(responseHeaders(['Connection', names.join(','), 'X-Named-7', 'gone', 'X-Line', 'stays', 'x-NAMED-1999', 'gone'], 200).pairs.filter(text => /gone|stays/.test(text)), ['stays'])
  t.ok(kept >= lines.length, 'what is not named stays')
})
