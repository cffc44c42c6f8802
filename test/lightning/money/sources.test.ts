import t from 'tap'
import type { FiatCurrency } from '../../../src/lightning/money/prices.ts'
import { plainText } from '../../../src/lightning/money/decimal.ts'
import { PRICE_SOURCES, SourceFault, type SourceName } from '../../../src/lightning/money/sources.ts'

const good: Readonly<Record<SourceName, string>> = {
  coinbase: '{"data":{"amount":"97123.455","base":"BTC","currency":"USD"}}',
  'coinbase-exchange':
    '{"ask":"97130","bid":"97120","volume":"1","trade_id":1,"price":"97123.455","size":"0.1","time":"2026-11-21T12:00:00.123456Z"}',
  kraken: '{"error":[],"result":{"XXBTZUSD":{"a":["1","1","1"],"c":["97123.45500","0.00012"],"o":"1"}}}',
  coingecko: '{"bitcoin":{"usd":97123.455,"last_updated_at":1795262400}}'
}

for (const [name, source] of Object.entries(PRICE_SOURCES)) {
  // The table's own keys.
  const text = good[name as SourceName]
  t.test(`${name}: the documented answer is read exactly`, async t => {
    const { price, at } = source.read(text, 'USD')
    t.equal(plainText(price), '97123.455')
    const time = {
      coinbase: null,
      'coinbase-exchange': Date.parse('2026-11-21T12:00:00.123Z'),
      kraken: null,
      coingecko: 1_795_262_400_000
    }
    t.equal(at, time[name as SourceName])
  })

  t.test(`${name}: what is no answer to the question is refused`, async t => {
    for (const body of [
      '',
      'null',
      '[]',
      '1',
      '"x"',
      '{}',
      '{"error":"x"}',
      '<html></html>',
      text.slice(0, -1),
      `${text}x`,
      text.replaceAll('97123.455', '0'),
      text.replaceAll('97123.455', '-1'),
      text.replaceAll('97123.455', '1e400'),
      text.replaceAll('97123.455', '99999999999999'),
      text.replaceAll('97123.455', '')
    ]) {
      t.throws(() => source.read(body, 'USD'), SourceFault, JSON.stringify(body))
    }
  })
}

t.test('a price in another currency is not mistaken for a supported one', async t => {
  for (const name of ['coinbase', 'kraken', 'coingecko'] as const)
    t.throws(() => PRICE_SOURCES[name].read(good[name], 'EUR'), SourceFault, name)
})

t.test('the formats have their traps', async t => {
  t.throws(
    () => PRICE_SOURCES.kraken.read('{"error":["EService:Unavailable"]}', 'USD'),
    /is an error/,
    'an error comes with 200'
  )
  t.equal(
    plainText(PRICE_SOURCES.kraken.read('{"error":[],"result":{"XBTEUR":{"c":["5.50","1"]}}}', 'EUR').price),
    '5.5',
    'the name of the pair may be the short one'
  )
  t.throws(
    () =>
      PRICE_SOURCES.kraken.read('{"error":[],"result":{"XXBTZUSD":{"c":["1","1"]},"XBTUSD":{"c":["2","1"]}}}', 'USD'),
    SourceFault
  )
  t.throws(
    () => PRICE_SOURCES.kraken.read('{"error":[],"result":{"XXBTZUSD":{"c":[97123,"1"]}}}', 'USD'),
    SourceFault,
    'a number where a text is due'
  )
  t.equal(
    plainText(
      PRICE_SOURCES.coingecko.read('{"bitcoin":{"usd":97123.12345678901234567,"last_updated_at":1}}', 'USD').price
    ),
    '97123.12345678901234567',
    'more digits than a double has'
  )
  t.equal(
    plainText(PRICE_SOURCES.coingecko.read('{"bitcoin":{"usd":9.7e4,"last_updated_at":1}}', 'USD').price),
    '97000'
  )
  t.throws(
    () => PRICE_SOURCES.coingecko.read('{"bitcoin":{"usd":"97000","last_updated_at":1}}', 'USD'),
    SourceFault,
    'a text where a number is due'
  )
  t.throws(() => PRICE_SOURCES.coingecko.read('{"bitcoin":{"usd":97000}}', 'USD'), SourceFault, 'without its time')
  t.throws(
    () => PRICE_SOURCES.coinbase.read('{"data":{"amount":"1e5","base":"BTC","currency":"USD"}}', 'USD'),
    SourceFault
  )
  t.throws(
    () => PRICE_SOURCES.coinbase.read('{"data":{"amount":"5","base":"ETH","currency":"USD"}}', 'USD'),
    SourceFault
  )
  t.throws(() => PRICE_SOURCES['coinbase-exchange'].read('{"price":"5","time":"yesterday"}', 'USD'), SourceFault)
  t.throws(
    () => PRICE_SOURCES['coinbase-exchange'].read('{"price":"5","time":"2026-13-41T25:00:00Z"}', 'USD'),
    SourceFault
  )
})

t.test('the questions are those of the documentation', async t => {
  const asked = (currency: FiatCurrency) =>
    Object.values(PRICE_SOURCES).map(source => `${source.url}${source.path(currency)}`)
  t.same(asked('EUR'), [
    'https://api.coinbase.com/v2/prices/BTC-EUR/spot',
    'https://api.exchange.coinbase.com/products/BTC-EUR/ticker',
    'https://api.kraken.com/0/public/Ticker?pair=XBTEUR',
    'https://api.coingecko.com/api/v3/simple/price?ids=bitcoin&vs_currencies=eur&include_last_updated_at=true'
  ])
})
