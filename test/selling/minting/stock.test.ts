import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { Stock, type Perishable, type StockResult } from '../../../src/selling/minting/stock.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const KEEPS = 600_000

interface Thing extends Perishable {
  readonly id: number
  readonly key: string
}

interface Making {
  readonly key: string
  readonly maker: string
  readonly begun: number
  finish(handOutUntil?: number): void
  fail(error?: unknown): void
}

/** A stock whose pending invoices a test completes by hand. */
function bench(pause = 5_000) {
  const clock = new ManualClock()
  const counts: Record<StockResult, number> = { hit: 0, miss: 0, unused: 0 }
  const making: Making[] = []
  const begun = new Map<string, number>()
  let ids = 0
  const stock = new Stock<Thing>({
    clock,
    counted: (result, count) => {
      counts[result] += count
    },
    pauseAfter: () => pause
  })
  const take = async (key = 'a', { most = 50, maker = 'm' }: { most?: number; maker?: string } = {}) => {
    const taken = stock.take({
      key,
      maker,
      most,
      keeps: KEEPS,
      make: () => {
        begun.set(key, (begun.get(key) ?? 0) + 1)
        const made = Promise.withResolvers<Thing>()
        const at = clock.now()
        const one: Making = {
          key,
          maker,
          begun: at,
          finish: handOutUntil => {
            making.splice(making.indexOf(one), 1)
            made.resolve({ id: ids++, key, handOutUntil: handOutUntil ?? at + KEEPS })
          },
          fail: error => {
            making.splice(making.indexOf(one), 1)
            made.reject(error ?? new Error('no'))
          }
        }
        making.push(one)
        return made.promise
      }
    })
    // It is replaced after what its taker does in the same turn.
    await Promise.resolve()
    return taken
  }
  const all = async (end: (one: Making) => void) => {
    while (making.length > 0) {
      for (const one of making.slice()) end(one)
      await turn()
    }
  }
  return { clock, counts, making, begun, stock, take, all, made: () => ids, finishAll: () => all(one => one.finish()) }
}

async function turn() {
  await setImmediate()
}

/** The same numbers for the same seed (mulberry32). */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

t.test('in any order of events, nothing is handed out twice or late, and no more is begun than requested', async t => {
  for (let seed = 1; seed <= 300; seed++) {
    const { clock, counts, making, begun, stock, take } = bench()
    const random = numbers(seed)
    const taken = new Set<number>()
    const asked = new Map<string, number>()
    let [atClear, misses] = [0, 0]
    for (let step = 0; step < 150; step++) {
      const what = random(12)
      if (what < 6) {
        const key = 'abc'[random(3)] ?? 'a'
        asked.set(key, (asked.get(key) ?? 0) + 1)
        const thing = await take(key, { most: 1 + (seed % 5) })
        if (thing === null) misses++
        else {
          if (taken.has(thing.id)) t.fail(`seed ${seed}: ${thing.id} was handed out twice`)
          if (thing.key !== key) t.fail(`seed ${seed}: of ${thing.key} for ${key}`)
          if (clock.now() > thing.handOutUntil) t.fail(`seed ${seed}: past its time`)
          if (thing.id < atClear) t.fail(`seed ${seed}: from before everything was discarded`)
          taken.add(thing.id)
        }
      } else if (what < 10) {
        const one = making[random(making.length || 1)]
        const end = random(6)
        if (end === 0) one?.fail()
        else if (end === 1) one?.finish(clock.now() + 1)
        else one?.finish()
        await turn()
      } else if (what === 10) clock.advance(random(KEEPS / 3))
      else if (random(4) === 0) {
        // What is still being made is discarded when it comes.
        for (const one of making.slice()) one.finish()
        stock.clear()
        await turn()
        if (stock.level !== 0) t.fail(`seed ${seed}: something came after everything was discarded`)
        atClear = Number.MAX_SAFE_INTEGER
        break
      }
      for (const [key, count] of begun)
        if (count > (asked.get(key) ?? 0)) t.fail(`seed ${seed}: ${count} of ${key} were begun for ${asked.get(key)}`)
    }
    if (counts.hit !== taken.size || counts.miss !== misses) t.fail(`seed ${seed}: counted otherwise`)
  }
  t.pass('300 seeds')
})

t.test(
  'it grows to what is requested concurrently, never above its maximum, and shrinks by what was not taken',
  async t => {
    const { clock, counts, begun, stock, take, finishAll } = bench()
    for (let requests = 0; requests < 30; requests++) await take()
    await finishAll()
    t.equal(stock.level, 29)
    for (let calls = 0; calls < 29; calls++) t.not(await take(), null)
    t.equal(await take(), null)
    await finishAll()
    t.equal(stock.level, 30)
    for (let requestCount = 0; requestCount < 500; requestCount++) await take()
    await finishAll()
    t.equal(stock.level, 50)
    clock.advance(KEEPS + 1)
    t.equal(stock.level, 0)
    t.equal(counts.unused, 50)
    const before = begun.get('a')
    t.equal(await take(), null)
    await finishAll()
    t.equal(begun.get('a'), before, 'nothing is made for a time that is over')
  }
)

t.test('under steady demand almost no client waits, however long an invoice takes', async t => {
  const { clock, counts, making, take } = bench()
  // 100 a second, each made within 150 ms.
  for (let ms = 0; ms < 20_000; ms += 10) {
    await take()
    clock.advance(10)
    for (const one of making.slice()) if (clock.now() - one.begun >= 150) one.finish()
    await turn()
  }
  t.ok(counts.miss <= 20, `${counts.miss} of 2,000 waited`)
})

t.test('it holds so many of all keys together, and what is too old makes room', async t => {
  const { clock, stock, take, finishAll } = bench()
  for (let key = 0; key < 45; key++) {
    for (let requests = 0; requests < 51; requests++) await take(String(key))
    await finishAll()
  }
  t.equal(stock.level, 2_000)
  clock.advance(KEEPS + 1)
  for (let requests = 0; requests < 4; requests++) await take('new')
  await finishAll()
  t.equal(stock.level, 3)
})

/** A stock in which 20 of `a` lie ready, at rest. */
async function stocked() {
  const all = bench()
  const { clock, take, finishAll, stock } = all
  for (let n = 0; n < 21; n++) await take()
  await finishAll()
  await clock.advance(60_000)
  return { ...all, ready: () => stock.level }
}

t.test('of a burst nothing is made while the stock suffices, and all that was taken after it', async t => {
  const { clock, making, take, ready } = await stocked()
  t.equal(ready(), 20)
  await take()
  t.equal(making.length, 1, 'for a lone client immediately')
  for (let n = 0; n < 10; n++) {
    await clock.advance(49)
    t.ok(await take())
  }
  t.equal(making.length, 1)
  await clock.advance(49)
  t.equal(making.length, 1)
  await clock.advance(1)
  t.equal(making.length, 11)
})

t.test('a burst that takes three quarters of what lay ready is not waited for', async t => {
  const { clock, making, take } = await stocked()
  await take()
  await clock.advance(1)
  for (let n = 2; n < 15; n++) await take()
  t.equal(making.length, 1)
  await take()
  t.equal(making.length, 15)
})

t.test('a burst that lasts for more than a second is not waited for', async t => {
  const { clock, making, take } = await stocked()
  for (let n = 0; n < 11; n++) {
    await take()
    await clock.advance(45)
  }
  for (let n = 0; n < 11; n++) {
    // Of another key, which keeps the burst going.
    await take('b', { maker: 'n' })
    t.equal(making.filter(({ key }) => key === 'a').length, 1)
    await clock.advance(45)
  }
  await take('b', { maker: 'n' })
  await clock.advance(10)
  t.equal(making.filter(({ key }) => key === 'a').length, 11)
})
