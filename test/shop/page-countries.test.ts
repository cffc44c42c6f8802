import t from 'tap'
import { addressRules, COUNTRIES, countryCode, countryName } from '../../src/shop/countries.ts'

t.test('two letters or an English name to two capital letters', async t => {
  const cases: ReadonlyArray<readonly [string, string | null]> = [
    ['US', 'US'],
    ['us', 'US'],
    [' de ', 'DE'],
    ['UK', 'GB'],
    ['USA', 'US'],
    ['U.S.A.', 'US'],
    ['United States', 'US'],
    ['the United States of America', 'US'],
    ['Great Britain', 'GB'],
    ['england', 'GB'],
    ['The Netherlands', 'NL'],
    ['Holland', 'NL'],
    ['Turkey', 'TR'],
    ['Türkiye', 'TR'],
    ['Turkiye', 'TR'],
    ["Cote d'Ivoire", 'CI'],
    ['Côte d’Ivoire', 'CI'],
    ['Ivory Coast', 'CI'],
    ['Czech Republic', 'CZ'],
    ['Czechia', 'CZ'],
    ['Korea, Republic of', null],
    ['Republic of Korea', 'KR'],
    ['South Korea', 'KR'],
    ['Trinidad and Tobago', 'TT'],
    ['Trinidad & Tobago', 'TT'],
    ['Saint Lucia', 'LC'],
    ['St. Lucia', 'LC'],
    ['ST', 'ST'],
    ['Hong Kong', 'HK'],
    ['Kosovo', 'XK'],
    ['Viet Nam', 'VN'],
    ['XX', null],
    ['EU', null],
    ['ZZ', null],
    ['AN', null],
    ['Atlantis', null],
    ['', null],
    ['u', null],
    ['USAA', null],
    ['constructor', null],
    ['123', null]
  ]
  for (const [text, code] of cases) t.equal(countryCode(text), code, text)
})

t.test('every country of the standard is listed once, and is found by its own name', async t => {
  t.equal(COUNTRIES.length, 250, 'the 249 of ISO 3166-1, and Kosovo')
  t.equal(new Set(COUNTRIES.map(({ code }) => code)).size, 250)
  t.equal(new Set(COUNTRIES.map(({ name }) => name)).size, 250)
  for (const { code, name } of COUNTRIES) {
    t.equal(countryCode(name), code)
    t.equal(countryCode(code.toLowerCase()), code)
    t.equal(countryName(code), name)
    t.not(name, code, 'this Node knows its name')
  }
})

t.test('which countries have states that carriers need, and ZIPs', async t => {
  for (const code of ['US', 'CA', 'AU']) t.match(addressRules(code), { stateNeeded: true, zipNeeded: true }, code)
  for (const code of ['DE', 'FR', 'GB', 'SE'])
    t.match(addressRules(code), { stateNeeded: false, zipNeeded: true }, code)
  for (const code of ['AE', 'HK', 'PA', 'IE', 'QA', ''])
    t.match(addressRules(code), { stateNeeded: false, zipNeeded: false }, code)
  t.match(addressRules('US'), { stateLabel: 'State', zipLabel: 'ZIP code' })
  t.match(addressRules('GB'), { stateLabel: 'County', zipLabel: 'Postcode' })
  t.match(addressRules('XK'), { stateLabel: 'State or region', zipLabel: 'Postal code' })
})
