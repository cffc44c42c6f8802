import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { Batch } from '../../../src/platform/database/batch.ts'
import { OutsideTransaction } from '../../../src/platform/database/database.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'

interface Item {
  readonly key: string
  readonly id: number
}

/** One statement as the database gets it. */
interface Statement {
  readonly items: readonly Item[]
  answer(): void
  fail(error: Error): void
}

const lost = () => Object.assign(new Error('the answer was lost'), { code: 'ECONNRESET' })
const refused = () => new Error('a row that cannot be written')

/** A batch over statements that the test answers; a verdict is the item's id as text. */
function watched(clock = new ManualClock(), size?: (item: Item) => number) {
  const statements: Statement[] = []
  const batch = new Batch<Item, string>({
    key: ({ key }) => key,
    clock,
    ...(size === undefined ? {} : { size }),
    write: items => {
      const { promise, resolve, reject } = Promise.withResolvers<string[]>()
      statements.push({
        items,
        answer: () => {
          resolve(items.map(({ id }) => String(id)))
        },
        fail: reject
      })
      return promise
    }
  })
  return { batch, statements, clock, ids: () => statements.map(({ items }) => items.map(({ id }) => id)) }
}

const turn = async () => {
  await setImmediate()
}
/** Until the present turn's work is done: no turn of the loop, in which anything could come in, lies between. */
const work = async () => {
  await new Promise<void>(resolve => {
    process.nextTick(resolve)
  })
}
const item = (id: number, key = `key ${id}`) => ({ key, id })

t.test('one at a time is written in the order of arrival, on its own', async t => {
  const { batch, statements, ids } = watched()
  for (const id of [1, 2, 3]) {
    const verdict = batch.add(item(id))
    await work()
    t.equal(statements.length, id, 'nothing is waited for')
    statements[id - 1]?.answer()
    t.equal(await verdict, String(id))
    await turn()
  }
  t.same(ids(), [[1], [2], [3]])
})

t.test(
  'items that come while a statement is in flight go with the next, sorted by key; each has its own verdict',
  async t => {
    const { batch, statements, ids } = watched()
    const first = batch.add(item(0, 'm'))
    await work()
    const others = [item(1, 'z'), item(2, 'a'), item(3, 'k')].map(each => batch.add(each))
    t.same(ids(), [[0]])
    statements[0]?.answer()
    t.equal(await first, '0')
    await turn()
    t.same(ids(), [[0], [2, 3, 1]])
    statements[1]?.answer()
    t.same(await Promise.all(others), ['1', '2', '3'])
  }
)

t.test('items of one turn go together, also when they come over several promises', async t => {
  const { batch, statements, ids } = watched()
  const late = async (id: number) => {
    for (let step = 0; step < id; step++) await Promise.resolve()
    return batch.add(item(id))
  }
  const all = [0, 1, 5, 20].map(late)
  await work()
  t.same(ids(), [[0, 1, 20, 5]], 'as those do whom another statement has answered together')
  statements[0]?.answer()
  t.same(await Promise.all(all), ['0', '1', '5', '20'])
})

t.test('callers who come again as soon as they are answered go together', async t => {
  const sizes: number[] = []
  const batch = new Batch<Item, null>({
    key: ({ key }) => key,
    write: async items => {
      sizes.push(items.length)
      await turn()
      return items.map(() => null)
    }
  })
  const caller = async (id: number) => {
    for (let time = 0; time < 4; time++) await batch.add(item(id))
  }
  await Promise.all([1, 2, 3, 4].map(caller))
  t.same(sizes, [4, 4, 4, 4], 'not the first of them alone, and the others behind it')
})

t.test('a statement takes so many items, and so many bytes, and the rest in their order', async t => {
  const many = watched()
  for (let id = 0; id < 600; id++) {
    void many.batch.add(item(id, String(id).padStart(3, '0')))
    if (id === 0) await work()
  }
  for (let at = 0; at < 4; at++) {
    many.statements[at]?.answer()
    await turn()
  }
  t.same(
    many.ids().map(ids => ids.length),
    [1, 256, 256, 87]
  )
  t.same(many.ids().flat(), [...Array(600).keys()])
  const large = watched(new ManualClock(), ({ id }) => id)
  for (const id of [1, 900_000, 100_000, 100_001, 2_000_000, 7]) {
    void large.batch.add(item(id))
    if (id === 1) await work()
  }
  for (let at = 0; at < 5; at++) {
    large.statements[at]?.answer()
    await turn()
  }
  t.same(
    large.ids().map(ids => ids.toSorted((one, other) => one - other)),
    [[1], [100_000, 900_000], [100_001], [2_000_000], [7]],
    'one that is larger goes alone'
  )
})

t.test('a statement that hangs delays what comes after it for a tenth of a second, and no longer', async t => {
  const { batch, statements, clock, ids } = watched()
  void batch.add(item(0, 'a'))
  await work()
  const [same, other] = [batch.add(item(1, 'a')), batch.add(item(2, 'b'))]
  clock.advance(99)
  t.same(ids(), [[0]])
  clock.advance(1)
  t.same(ids(), [[0], [2]], 'of its own key nothing')
  void batch.add(item(3, 'c'))
  clock.advance(100)
  t.same(ids(), [[0], [2], [3]])
  statements[1]?.answer()
  t.equal(await other, '2')
  statements[2]?.answer()
  await turn()
  statements[0]?.answer()
  await turn()
  t.same(ids(), [[0], [2], [3], [1]])
  statements[3]?.answer()
  t.equal(await same, '1')
})

t.test(
  'items that waited behind a statement that the database did not answer are lost with it, all together',
  async t => {
    const { batch, statements, clock, ids } = watched()
    const silent = () => Object.assign(new Error('the database is silent'), { code: 'ETIMEDOUT' })
    const outcomes = new Map<number, string>()
    const add = (id: number, key: string) => {
      batch.add(item(id, key)).then(
        () => outcomes.set(id, 'told'),
        () => outcomes.set(id, 'lost')
      )
    }
    for (let id = 0; id < 20; id++) add(id, 'a')
    await work()
    clock.advance(7_000)
    add(20, 'a')
    add(21, 'b')
    clock.advance(3_000)
    statements[0]?.fail(silent())
    await turn()
    clock.advance(100)
    t.same(
      [...outcomes],
      [...Array(20).keys()].map(id => [id, 'lost'])
    )
    t.same(ids(), [[0], [21], [20]], 'what came recently is tried')
    statements[1]?.answer()
    statements[2]?.answer()
    await turn()
    t.same([outcomes.get(20), outcomes.get(21)], ['told', 'told'])
    await batch.drained()
    add(22, 'a')
    await work()
    t.same(ids().at(-1), [22], 'nothing is left of the key')
    statements[3]?.fail(silent())
    await batch.drained()
  }
)

t.test('it is drained when nothing waits and nothing is in flight', async t => {
  const { batch, statements } = watched()
  await batch.drained()
  const verdicts = [batch.add(item(0)), batch.add(item(1, 'key 0')), batch.add(item(2))]
  await work()
  let isDrained = false
  const drained = (async () => {
    await batch.drained()
    isDrained = true
  })()
  for (let at = 0; at < 2; at++) {
    t.notOk(isDrained)
    statements[at]?.answer()
    await turn()
  }
  await drained
  t.same(await Promise.all(verdicts), ['0', '1', '2'])
})

t.test('no interleaving gives a verdict that statements of one item would not', async t => {
  /** A register for each key that one item at a time may take, as a payment is taken. */
  const step = (held: Map<string, number>, { key, id, gives }: Operation) => {
    if (gives) return held.delete(key) ? 'given' : 'nothing to give'
    if (held.has(key)) return `held by ${held.get(key)}`
    held.set(key, id)
    return 'taken'
  }
  interface Operation extends Item {
    readonly gives: boolean
    /** Refused, lost before it was done, or after. */
    readonly fault: 'none' | 'refused' | 'unsent' | 'unheard'
  }
  const operations = fc.array(
    fc.record({
      key: fc.constantFrom('a', 'b', 'c'),
      gives: fc.boolean(),
      fault: fc.constantFrom('none' as const, 'none' as const, 'none' as const, 'refused', 'unsent', 'unheard'),
      // When it comes: with the one before it, or later.
      pause: fc.nat(3)
    }),
    { maxLength: 30 }
  )
  await fc.assert(
    fc.asyncProperty(operations, fc.array(fc.nat(3)), async (given, delays) => {
      const held = new Map<string, number>()
      const alone = new Map<string, number>()
      const done: Operation[] = []
      let statement = 0
      const wait = async (turns: number) => {
        for (let at = 0; at < turns; at++) await turn()
      }
      const batch = new Batch<Operation, string>({
        key: ({ key }) => key,
        clock: new ManualClock(),
        write: async items => {
          const delay = delays[statement++ % Math.max(delays.length, 1)] ?? 0
          await wait(delay)
          if (new Set(items.map(({ key }) => key)).size < items.length) throw new Error('two of one key')
          if (items.some(({ fault }) => fault === 'refused')) throw refused()
          if (items.some(({ fault }) => fault === 'unsent')) throw lost()
          const verdicts = items.map(each => step(held, each))
          done.push(...items)
          await wait(delay)
          if (items.some(({ fault }) => fault === 'unheard')) throw lost()
          return verdicts
        }
      })
      const verdicts: Array<Promise<{ readonly operation: Operation; readonly verdict: string | null }>> = []
      for (const [id, { pause, ...rest }] of given.entries()) {
        const operation = { ...rest, id }
        verdicts.push(
          batch.add(operation).then(
            verdict => ({ operation, verdict }),
            () => ({ operation, verdict: null })
          )
        )
        await wait(pause)
      }
      const told = await Promise.all(verdicts)
      await batch.drained()
      const isDone = new Set(done)
      // Keys do not touch each other, so the order in which the items came is an order of single statements.
      for (const { operation, verdict } of told) {
        const expected = isDone.has(operation) ? step(alone, operation) : null
        if (verdict !== null && verdict !== expected) return false
        // Another caller's fault is reported only where the statement was shared.
        if (operation.fault === 'refused' && verdict !== null) return false
      }
      return isDone.size === done.length && JSON.stringify([...held].sort()) === JSON.stringify([...alone].sort())
    }),
    { numRuns: 150 }
  )
  t.pass('each verdict, and what is left in the end')
})

await eachDatabase(
  t,
  'a shared statement is refused inside a transaction, also where it would go with those of others',
  async (t, database) => {
    const { batch, statements } = watched()
    const under = batch.add(item(1))
    await work()
    const left = Promise.withResolvers<void>()
    let later: Promise<string> | null = null
    await database.transaction(async tx => {
      t.throws(
        () => void batch.add(item(2)),
        OutsideTransaction,
        'it would wait for the transaction, which waits for it'
      )
      await tx`select 1`
      t.throws(() => void batch.add(item(1)), OutsideTransaction)
      later = left.promise.then(() => batch.add(item(3)))
    })
    statements[0]?.answer()
    t.equal(await under, '1')
    left.resolve()
    await work()
    statements[1]?.answer()
    t.equal(await later, '3', 'what the transaction has left running belongs to it no more')
    t.same(
      statements.map(({ items }) => items.map(({ id }) => id)),
      [[1], [3]]
    )
  },
  { migrations: [] }
)
