import fc from 'fast-check'
import t from 'tap'
import { paymentPreference, sessionPlace } from '../../../src/selling/offers/accept-payment.ts'
import {
  acceptsGzip,
  prefersCsv,
  prefersHtml,
  prefersJson,
  prefersProblem
} from '../../../src/engine/message/accept.ts'

/** What clients send by themselves, as their sources and documentation have it. */
const BROWSERS = {
  Chrome:
    'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7',
  Firefox: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  'Firefox with images':
    'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/png,image/svg+xml,*/*;q=0.8',
  Safari: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  'Internet Explorer 9': 'text/html, application/xhtml+xml, */*;q=0.9',
  Lynx: 'text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01',
  w3m: 'text/html, text/*;q=0.5, image/*;q=0.4, application/*;q=0.3'
}
const PROGRAMS = {
  'curl, Python requests, Go, Ruby, fetch': '*/*',
  axios: 'application/json, text/plain, */*',
  jQuery: 'application/json, text/javascript, */*; q=0.01',
  'an EventSource': 'text/event-stream',
  'MCP over streamable HTTP': 'application/json, text/event-stream',
  "Java's HttpURLConnection": 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2',
  'an image of a page': 'image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8',
  'a style sheet of a page': 'text/css,*/*;q=0.1',
  'a reader of feeds': 'application/rss+xml, application/atom+xml, application/xml;q=0.9, text/html;q=0.5',
  'an agent that reads Markdown': 'text/markdown, text/html;q=0.9, */*;q=0.1',
  'an agent that takes all alike': 'text/markdown, text/html, */*',
  'a client of problems': 'application/problem+json'
}

t.test('browsers prefer a page', async t => {
  for (const [name, accept] of Object.entries(BROWSERS)) t.ok(prefersHtml(accept), name)
})

t.test('programs do not', async t => {
  for (const [name, accept] of Object.entries(PROGRAMS)) t.notOk(prefersHtml(accept), name)
  t.notOk(prefersHtml(undefined), 'without the field')
})

t.test('quality values decide (RFC 9110, 12.4.2 and 12.5.1)', async t => {
  const yes = [
    'text/html',
    'TEXT/HTML',
    'text/*',
    'text/html;q=0.001',
    'text/html, application/json;q=0.999',
    'application/json;q=0.5, text/html;q=0.6',
    'text/html;charset=utf-8',
    'text/html; charset="UTF-8" ; q=1.000',
    'application/*;q=0.1, text/html;q=0.2',
    '*/*;q=0.4, application/json;q=0, text/html;q=0.5',
    ',, text/html ,',
    'text/html;',
    'text/plain;format="a, b", text/html'
  ]
  const no = [
    '',
    ' ',
    'text/html;q=0',
    'text/html;q=0.000',
    'text/html, application/json',
    'text/html, */*',
    'text/html;q=0.5, application/json;q=0.6',
    'text/html;q=0.5, application/problem+json',
    'text/html;q=0.5, text/plain',
    'text/html;level=1',
    'text/*, text/html;q=0, application/json;q=0',
    'application/json, text/*;q=0.9'
  ]
  for (const accept of yes) t.ok(prefersHtml(accept), accept)
  for (const accept of no) t.notOk(prefersHtml(accept), accept)
})

t.test('a header outside the grammar is no preference for a page', async t => {
  for (const accept of [
    'text/html;q=.5',
    'text/html;q=1.5',
    'text/html;q=0.1234',
    'text/html;q=',
    'text/html;q="1"',
    'text/html, *',
    'text/html, */json',
    'text/html, gzip',
    'text/html text/plain',
    'text/html/xml',
    'text/html, "',
    'text/html;a="unclosed',
    `text/html, ${'a/b,'.repeat(1000)}`
  ])
    t.notOk(prefersHtml(accept), accept.slice(0, 40))
})

t.test('any text at all is answered, quickly', async t => {
  const began = process.cpuUsage()
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'text/html*;q=0.9," \\,'), maxLength: 300 }), accept => {
      t.type(prefersHtml(`text/html${accept}`), 'boolean')
      t.type(prefersJson(accept), 'boolean')
    }),
    { numRuns: 500 }
  )
  prefersHtml(`text/html${';a="'.repeat(500)}`)
  prefersHtml(`text/html${' ;'.repeat(1000)}`)
  t.ok(process.cpuUsage(began).user < 5_000_000)
})

t.test('JSON is preferred by clients that name it, not by those that accept anything', async t => {
  for (const accept of ['application/json', 'application/json, text/html;q=0.9', 'application/*'])
    t.ok(prefersJson(accept), accept)
  for (const accept of ['*/*', 'text/html, */*', 'application/json, */*', undefined, 'text/plain'])
    t.notOk(prefersJson(accept), String(accept))
})

t.test('a problem is preferred by clients that name it with more weight than JSON', async t => {
  const problem = 'application/problem+json'
  for (const accept of [problem, `${problem}, */*`, `${problem}, application/json;q=0.9`, `APPLICATION/Problem+JSON`])
    t.ok(prefersProblem(accept), accept)
  for (const accept of [
    'application/json',
    `${problem};q=0`,
    `${problem}, application/*`,
    'application/*, */*;q=0.1',
    undefined
  ])
    t.notOk(prefersProblem(accept), String(accept))
})

t.test(
  'CSV is preferred by clients that name it with as much weight as JSON, with either parameter of RFC 4180',
  async t => {
    for (const accept of [
      'text/csv',
      'text/csv;header=present',
      'text/csv; \theader=PRESENT; charset=utf-8',
      'text/csv, application/json',
      'text/csv;q=0.2, */*'
    ])
      t.ok(prefersCsv(accept), accept)
    for (const accept of [
      'text/csv;header=absent',
      'text/csv;q=0',
      'text/csv;q=0.9, application/json',
      'text/*',
      '*/*',
      undefined
    ])
      t.notOk(prefersCsv(accept), String(accept))
  }
)

t.test('gzip is accepted as RFC 9110, 12.5.3 says', async t => {
  for (const field of [
    'gzip',
    'br, GZIP',
    '*',
    'gzip;q=0.5',
    'x-gzip',
    'gzip, deflate, br, zstd',
    'identity;q=1, *;q=0.1',
    'gzip, *;q=0',
    '*;q=0, gzip;q=0.1'
  ])
    t.ok(acceptsGzip(field), field)
  for (const field of [
    undefined,
    '',
    'gzip;q=0',
    'gzip; q=0.000',
    'gzip;q=0.0, *',
    '*;q=0',
    'deflate',
    'gzipped',
    'gzip/x',
    '*/*',
    'gzip, text/html'
  ])
    t.notOk(acceptsGzip(field), String(field))
})

/** Readers of weights, each with a range that it prefers, and what it says without a preference. */
const READERS: ReadonlyArray<readonly [range: string, (field: string) => unknown, none: unknown]> = [
  ['text/html', prefersHtml, false],
  ['application/json', prefersJson, false],
  ['application/problem+json', prefersProblem, false],
  ['text/csv', prefersCsv, false],
  ['gzip', acceptsGzip, false],
  ['lightning/charge', paymentPreference, 'neutral'],
  ['lightning/session', sessionPlace, 'after']
]

t.test('every reader of weights takes and refuses the same ones', async t => {
  for (const [range, preference, none] of READERS) {
    const preferred = preference(range)
    t.not(preferred, none, range)
    for (const weight of ['q=1', 'Q=1', ' q=1.000', '\tq=0.5 ', 'q=0.001', 'q=0.1;charset=utf-8'])
      t.equal(preference(`${range};${weight}`), preferred, `${range};${weight}`)
    for (const weight of [
      'q=2',
      'q=1.001',
      'q=-1',
      'q=+1',
      'q=.5',
      'q=0.1234',
      'q=1e0',
      'q=0x1',
      'q=',
      'q="1"',
      'q= 1',
      'q =1',
      '\u00a0q=1'
    ])
      t.equal(preference(`${range};${weight}`), none, `${range};${weight}`)
    for (const field of [
      `${range}, ;`,
      `${range}\u00a0`,
      `${range}, /`,
      `\u00a0${range}`,
      `${range}, ${'a/b,'.repeat(1000)}`
    ])
      t.equal(preference(field), none, JSON.stringify(field.slice(0, 60)))
  }
})
