import t from 'tap'
import { Deadlines, type Waiting } from '../../../src/engine/upstream/deadlines.ts'
import { ManualClock } from '../../support/manual-clock.ts'

class Item implements Waiting {
  touched = 0
  place = -1
  suspended = false
  readonly name: string
  readonly patience: number
  readonly #end: (item: Item) => void

  constructor(name: string, patience: number, end: (item: Item) => void) {
    this.name = name
    this.patience = patience
    this.#end = end
  }

  expire(): void {
    this.#end(this)
  }
}

function build() {
  const clock = new ManualClock()
  const deadlines = new Deadlines(clock, () => {
    /* nothing to tidy */
  })
  const ended: string[] = []
  const item = (name: string, patience: number) => {
    const made = new Item(name, patience, it => {
      ended.push(it.name)
      deadlines.delete(it)
    })
    deadlines.add(made)
    return made
  }
  return { clock, deadlines, ended, item }
}

t.test('each expires once in its time, whichever others leave before and at the same time', async t => {
  const { clock, deadlines, ended, item } = build()
  const [a, , c] = [item('a', 1), item('b', 1), item('c', 9), item('d', 1), item('e', 3), item('f', 1)]
  deadlines.delete(a as Item /* the first of the list */)
  clock.advance(100)
  t.strictSame(ended, [])
  clock.advance(100)
  t.strictSame(ended.toSorted(), ['b', 'd', 'f'])
  t.equal(deadlines.size, 2)
  clock.advance(200)
  t.strictSame(ended.slice(3), ['e'])
  deadlines.delete(c as Item /* the third of the list */)
  deadlines.delete(c as Item /* as above */)
  t.equal(deadlines.size, 0, 'leaving twice removes no other')
  clock.advance(5000)
  t.equal(ended.length, 4)
})

t.test('one that ends another while it expires affects no third', async t => {
  const { clock, deadlines, ended, item } = build()
  const first = item('first', 1)
  const last = new Item('last', 1, it => {
    ended.push(it.name)
    deadlines.delete(it)
    deadlines.delete(first)
  })
  item('middle', 1)
  deadlines.add(last)
  deadlines.add(last)
  t.equal(deadlines.size, 3, 'it is listed once')
  clock.advance(200)
  t.strictSame(ended, ['last', 'middle'])
  t.equal(deadlines.size, 0)
})

t.test('the time of one that is suspended does not run', async t => {
  const { clock, deadlines, ended, item } = build()
  const waiting = item('waiting', 2)
  waiting.suspended = true
  clock.advance(1000)
  t.strictSame(ended, [])
  waiting.suspended = false
  clock.advance(200)
  t.strictSame(ended, [])
  clock.advance(100)
  t.strictSame(ended, ['waiting'])
  deadlines.close()
})
