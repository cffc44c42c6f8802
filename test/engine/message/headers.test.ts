import t from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'

const sample = () => new HeaderList(['Host', 'a', 'X-One', '1', 'x-one', '2', 'Other', 'o', 'X-ONE', '3'])

t.test('names are found in any case, values never taken for names', async t => {
  const list = new HeaderList(['A', 'x-one', 'X-One', 'v'])
  t.equal(list.get('x-one'), 'v')
  t.equal(list.get('v'), undefined)
  t.equal(list.has('a'), true)
  t.equal(list.has('absent'), false)
})

t.test('get gives the first value and all gives every one in order', async t => {
  t.equal(sample().get('x-one'), '1')
  t.same(sample().all('x-one'), ['1', '2', '3'])
  t.same(sample().all('absent'), [])
})

t.test('set keeps the first place, the new spelling, and no other line of the name', async t => {
  const list = sample()
  list.set('X-oNe', 'new')
  t.same(list.pairs, ['Host', 'a', 'X-oNe', 'new', 'Other', 'o'])
  list.set('Fresh', 'f')
  t.same(list.pairs.slice(-2), ['Fresh', 'f'])
})

t.test('delete removes every line, adjacent ones too', async t => {
  const list = new HeaderList(['a', '1', 'A', '2', 'b', '3', 'a', '4'])
  list.delete('a')
  t.same(list.pairs, ['b', '3'])
  list.delete('absent')
  t.same(list.pairs, ['b', '3'])
})

t.test('a token is added once, whatever its case', async t => {
  const list = new HeaderList()
  list.addToken('Vary', 'Origin')
  list.addToken('Vary', 'origin')
  list.addToken('Vary', 'Accept')
  t.same(list.pairs, ['Vary', 'Origin, Accept'])
})

t.test('a token joins the lines of a list field without losing one', async t => {
  const list = new HeaderList(['vary', 'A', 'X', 'x', 'Vary', 'B,C'])
  list.addToken('Vary', 'c')
  t.same(list.all('vary'), ['A', 'B,C'], 'it was on the second line')
  list.addToken('Vary', 'D')
  t.same(list.pairs, ['Vary', 'A, B,C, D', 'X', 'x'])
})

t.test('a star already says every token, an empty field none', async t => {
  const star = new HeaderList(['Vary', '*'])
  star.addToken('Vary', 'Origin')
  t.same(star.pairs, ['Vary', '*'])
  const empty = new HeaderList(['Vary', ''])
  empty.addToken('Vary', 'Origin')
  t.same(empty.pairs, ['Vary', 'Origin'])
})

t.test('names of Object.prototype are ordinary names', async t => {
  const list = new HeaderList(['__proto__', 'p'])
  t.equal(list.get('__proto__'), 'p')
  t.equal(list.has('constructor'), false)
})
