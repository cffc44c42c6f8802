import t, { type Test as T } from 'tap'
import { loadConfigText } from '../../../src/engine/config/load.ts'
import { errorReply, Unavailable } from '../../../src/engine/operations/errors.ts'
import type { FiatCurrency } from '../../../src/lightning/money/prices.ts'
import { plainText } from '../../../src/lightning/money/decimal.ts'
import { openPrices, type OpenedPrices, openSourceCalls } from '../../../src/lightning/money/open.ts'
import type { AskSource } from '../../../src/lightning/money/feed.ts'
import type { SourceName } from '../../../src/lightning/money/sources.ts'
import { silentLog, type Log } from '../../../src/platform/telemetry/log.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { PRICE_FAULTS, pricesYaml, startFakePrices } from '../../fakes/prices.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const NAMES: readonly SourceName[] = ['coinbase', 'coinbase-exchange', 'kraken', 'coingecko']

async function openFeed(t: T, settings = '') {
  const clock = new ManualClock('2026-11-21T12:00:00.000Z')
  const fake = await startFakePrices({ clock })
  const lines: string[] = []
  const note = (fields: object | string, message?: string) => {
    lines.push(`${message ?? ''} ${JSON.stringify(fields)}`)
  }
  const log: Log = { ...silentLog, info: note, warn: note, error: note }
  const metrics = new Metrics()
  const calls = openSourceCalls()
  const answers: string[] = []
  let told = Promise.withResolvers<void>()
  const ask: AskSource = async (url, signal) => {
    const body = await calls.ask(url, signal)
    answers.push(url)
    told.resolve()
    told = Promise.withResolvers()
    return body
  }
  const answered = async (count: number) => {
    while (answers.length < count) await told.promise
  }
  const prices = openPrices(await configOf(`lightning: { primary: { kind: lnd } }\n${pricesYaml(fake)}\n${settings}`), {
    clock,
    log,
    metrics,
    ask
  })
  t.teardown(async () => {
    await prices.close()
    await calls.close()
    await fake.close()
  })
  return { prices, fake, clock, lines, metrics, answered }
}

async function configOf(text: string) {
  return await loadConfigText('gateway.yaml', text, {})
}

async function priceOf(prices: OpenedPrices, currency: FiatCurrency = 'USD') {
  return plainText((await prices.quote(currency)).price)
}

async function refusalOf(prices: OpenedPrices, currency: FiatCurrency = 'USD') {
  return await prices.satoshis(currency, '5').then(
    () => null,
    (error: unknown) => {
      if (error instanceof Unavailable) return error
      throw error
    }
  )
}

t.test('an amount becomes satoshis at the median of the sources, in each currency', async t => {
  const { prices, fake } = await openFeed(t)
  Object.assign(fake.own, { coinbase: '100000', 'coinbase-exchange': '100100', kraken: '99900', coingecko: '100020' })
  t.equal(await priceOf(prices), '100010')
  t.equal(await prices.satoshis('USD', '1'), 1000, '999.9 rounded up (decision 47)')
  fake.heal()
  t.equal(await priceOf(prices, 'EUR'), '89000.5')
  t.equal(await priceOf(prices, 'GBP'), '76543.21')
  t.equal(await prices.satoshis('EUR', '89.0005'), 100_000)
  t.ok(
    fake.questions.every(({ headers }) => headers['user-agent'] === 'boltgate'),
    'one source rejects requests without a User-Agent'
  )
})

for (const name of NAMES) {
  t.test(`${name}: whatever goes wrong with it, the others give the price`, async t => {
    for (const fault of PRICE_FAULTS) {
      // Two sources give no time, so that they cannot be stale; one never says the pair.
      if (fault === 'stale' && (name === 'coinbase' || name === 'kraken')) continue
      const { prices, fake, clock, lines, answered } = await openFeed(t)
      fake.faults.set(name, fault)
      if (fault === 'hang') {
        const price = priceOf(prices)
        // The others have answered: only this one takes the time.
        await answered(3)
        clock.advance(5000)
        t.equal(await price, '97123.45', fault)
      } else t.equal(await priceOf(prices), '97123.45', fault)
      t.equal(lines.length, 1, `${fault} is logged: ${lines.join('\n')}`)
      t.match(lines[0], `"source":"${name}"`)
    }
  })
}

t.test('a source that no connection reaches delays no caller beyond its timeout', async t => {
  const clock = new ManualClock()
  const fake = await startFakePrices({ clock })
  const calls = openSourceCalls()
  let left = NAMES.length - 1
  const others = Promise.withResolvers<void>()
  const prices = openPrices(await configOf(`lightning: { primary: { kind: lnd } }\n${pricesYaml(fake)}`), {
    clock,
    log: silentLog,
    metrics: new Metrics(),
    ask: async (url, signal) => {
      // The HTTP client hears of the signal only once it is connected.
      if (url.includes('/0/public/Ticker')) return await new Promise<string>(() => {})
      const body = await calls.ask(url, signal)
      if (--left === 0) others.resolve()
      return body
    }
  })
  t.teardown(async () => {
    await prices.close()
    await calls.close()
    await fake.close()
  })
  const price = priceOf(prices)
  await others.promise
  clock.advance(5000)
  t.equal(await price, '97123.45')
})

t.test('503 price feed unavailable: fewer than two valid answers give no price (contract, Errors)', async t => {
  const { prices, fake, lines } = await openFeed(t)
  for (const name of ['coinbase', 'kraken', 'coingecko'] as const) fake.faults.set(name, 'server error')
  const refusal = await refusalOf(prices)
  t.ok(refusal instanceof Unavailable)
  const reply = errorReply(refusal as Unavailable, { correlationId: 'c', now: 0, mode: 'production' })
  t.equal(reply.status, 503)
  t.match(JSON.parse(String(reply.body)), { error: 'Price feed unavailable', message: String })
  t.same(reply.headers.slice(reply.headers.indexOf('Retry-After')).slice(0, 2), ['Retry-After', '10'])
  t.equal(lines.filter(line => line.startsWith('there is no price')).length, 1)
  t.equal(
    await prices.satoshis('USD', '5').then(
      () => 1,
      () => 0
    ),
    0
  )
})

t.test('sources that contradict each other give no price', async t => {
  const { prices, fake } = await openFeed(t)
  Object.assign(fake.own, { coinbase: '100000', 'coinbase-exchange': '110000', kraken: '120000', coingecko: '130000' })
  t.ok(await refusalOf(prices))
})

t.test('100 concurrent conversions ask each source once, and a cached price asks none', async t => {
  const { prices, fake, clock } = await openFeed(t)
  const all = await Promise.all(Array.from({ length: 100 }, () => prices.satoshis('USD', '10')))
  t.equal(new Set(all).size, 1)
  t.equal(fake.asked(), 4)
  clock.advance(49_999)
  await prices.satoshis('USD', '10')
  t.equal(fake.asked(), 4)
  clock.advance(10_001)
  fake.prices.USD = '98000'
  const later = await Promise.all(Array.from({ length: 100 }, () => prices.satoshis('USD', '98')))
  t.equal(fake.asked(), 8, 'after a minute they are refreshed, once')
  t.same(new Set(later), new Set([100_000]))
})

t.test(
  'a cached price that is about to expire is renewed in the background: a source that hangs delays no caller',
  async t => {
    const { prices, fake, clock, answered } = await openFeed(t)
    t.equal(await priceOf(prices), '97123.45')
    fake.faults.set('kraken', 'hang')
    fake.prices.USD = '98000'
    clock.advance(50_000)
    t.equal(await priceOf(prices), '97123.45', 'the cached one, immediately')
    await answered(4 + 3)
    clock.advance(10_000)
    t.equal(await priceOf(prices), '98000')
    t.equal(fake.asked(), 8)
  }
)

t.test('while no source answers the last price is used for five minutes, and then refused', async t => {
  const { prices, fake, clock, lines } = await openFeed(t)
  const { at } = await prices.quote('USD')
  for (const name of NAMES) fake.faults.set(name, 'server error')
  clock.advance(299_999)
  const kept = await prices.quote('USD')
  t.match(kept, { at, expiresAt: at + 300_000 }, 'no quote outlives the bound')
  t.equal(fake.asked(), 8)
  await prices.quote('USD')
  t.equal(fake.asked(), 8, 'the sources have a rest')
  clock.advance(1)
  t.ok(await refusalOf(prices))
  clock.advance(10_000)
  t.ok(await refusalOf(prices))
  t.equal(fake.asked(), 12)
  t.equal(lines.length, 5, 'each outage is logged once: four sources and the price')
  fake.heal()
  clock.advance(10_000)
  t.equal(await priceOf(prices), '97123.45')
  t.equal(lines.filter(line => line.startsWith('a price source is used again')).length, 4)
  t.equal(lines.filter(line => line.startsWith('there is a price again')).length, 1)
})

t.test('an old response counts by its own time', async t => {
  const { prices, fake, clock } = await openFeed(t)
  for (const name of ['coinbase', 'kraken'] as const) fake.faults.set(name, 'server error')
  const requests = clock.now()
  // Its seconds are whole, so that it is up to one second older.
  clock.advance(500)
  t.equal((await prices.quote('USD')).at, requests)
  fake.faults.set('coingecko', 'stale')
  clock.advance(300_000)
  t.ok(await refusalOf(prices), 'one of two is stale, and what was kept is too old')
})

t.test('a clock that is set back does not prolong a price', async t => {
  class Backwards extends ManualClock {
    back = 0
    override now(): number {
      return super.now() - this.back
    }
  }
  const clock = new Backwards()
  const fake = await startFakePrices({ clock })
  const prices = openPrices(await configOf(`lightning: { primary: { kind: lnd } }\n${pricesYaml(fake)}`), {
    clock,
    log: silentLog,
    metrics: new Metrics()
  })
  t.teardown(async () => {
    await prices.close()
    await fake.close()
  })
  await prices.quote('USD')
  clock.back = 3_600_000
  clock.advance(60_000)
  await prices.quote('USD')
  t.equal(fake.asked(), 8)
})

t.test('answers are counted by source and what became of them', async t => {
  const { prices, fake, metrics } = await openFeed(t)
  fake.faults.set('kraken', 'outlier')
  fake.faults.set('coingecko', 'stale')
  fake.faults.set('coinbase', 'html')
  await refusalOf(prices)
  const text = await metrics.render()
  for (const line of [
    'source="coinbase",result="failed"',
    'source="coingecko",result="stale"',
    'source="kraken",result="outlier"'
  ])
    t.match(text, `boltgate_price_answers_total{${line}} 1`)
})

t.test(
  'the sandbox on both sides has fixed prices and asks no source; one real provider is enough for the market',
  async t => {
    const clock = new ManualClock()
    const requests: string[] = []
    const around = {
      clock,
      log: silentLog,
      metrics: new Metrics(),
      ask: async (url: string) => {
        requests.push(url)
        return '{}'
      }
    }
    const sandbox = openPrices(await configOf('mode: development'), around)
    t.equal(await sandbox.satoshis('USD', '1'), 1000)
    t.match(await sandbox.quote('EUR'), { at: clock.now(), expiresAt: clock.now() + 60_000 })
    t.equal(requests.length, 0)
    await sandbox.close()
    for (const side of ['primary', 'alternate']) {
      requests.length = 0
      const market = openPrices(await configOf(`lightning: { ${side}: { kind: opennode } }`), around)
      t.ok(await refusalOf(market))
      t.same(
        requests.map(url => new URL(url).origin),
        [
          'https://api.coinbase.com',
          'https://api.exchange.coinbase.com',
          'https://api.kraken.com',
          'https://api.coingecko.com'
        ]
      )
      await market.close()
    }
  }
)
