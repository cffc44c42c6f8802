/** Pages in the reader's language: which one it is, what is translated, and whether the catalogs have everything. */
import { globSync, readFileSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import t from 'tap'
import { renderToString } from 'preact-render-to-string'
import { catalog, messages } from '../../../.ci/messages.mjs'
import { readerLanguage, speaking, t as text } from '../../../src/engine/formats/language.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { html, rewritten } from '../../../src/web/kit/document.ts'
import { sessionOf } from '../console/session.ts'
import { startGateway } from '../../support/gateway.ts'

t.test('language: the cookie, else the best of Accept-Language, else English', async t => {
  for (const [accepted, cookie, language] of [
    ['', '', 'en'],
    ['de-AT, de;q=0.9, en;q=0.8', '', 'de'],
    ['fr, es;q=0.5, de;q=0.4', '', 'es'],
    ['de;q=0, en', '', 'en'],
    ['*', '', 'en'],
    ['fr', '', 'en'],
    ['de;q=x', '', 'en'],
    ['de', 'a=b; boltgate-language=es', 'es'],
    ['de', 'boltgate-language=fr', 'de'],
    ['de', 'not-boltgate-language=es', 'de']
  ] as const)
    t.equal(readerLanguage(new HeaderList(['Accept-Language', accepted, 'Cookie', cookie])), language, accepted)
})

t.test('templates: sentences keep their tags and values, in the order of the translation', async t => {
  const upper = (source: string) => {
    const found: string[] = []
    const result = rewritten(source, message => {
      found.push(message)
      return message === 'See <0>{0}</0> of <1>{1}</1>.' ? '<1>{1}</1>: <0>{0}</0>!' : message.toUpperCase()
    })
    return { found, result }
  }
  t.same(upper('<p class="a">See <b>{0}</b> of <a href={1}>{2}</a>.</p>'), {
    found: ['See <0>{0}</0> of <1>{1}</1>.'],
    result: '<p class="a"><a href={1}>{2}</a>: <b>{0}</b>!</p>'
  })
  t.same(upper('<nav aria-label="Pages">\n  {0}\n  <a href={1}>Older</a>\n</nav><p>{2}</p>').found, ['Pages', 'Older'])
  t.same(upper('<p><strong>a  b</strong></p><p>{0} · {1}</p>').found, ['a b'])
})

t.test('values: what users wrote is never translated, and translations are text', async t => {
  const page = (name: string) => speaking('de', () => renderToString(html`<p title=${name}>Paid</p><p>${name}</p>`))
  t.equal(page('Paid'), '<p title="Paid">Bezahlt</p><p>Paid</p>')
  t.equal(page('<script>'), '<p title="&lt;script>">Bezahlt</p><p>&lt;script></p>')
  t.equal(
    speaking('de', () => text`Pay ${'{0}'}`),
    '{0} bezahlen'
  )
})

t.test('catalogs: complete, without stale entries, with the values and tags of their messages', async t => {
  const all = messages()
  const sources = globSync('src/**/*.ts').map(file => readFileSync(file, 'utf8'))
  const isThere = (message: string) =>
    all.has(message) ||
    Object.values(STATUS_CODES).includes(message) ||
    sources.some(source => source.includes(`'${message}'`) || source.includes(`"${message}"`))
  const parts = (message: string) => (message.match(/\{\d+\}|<[^>]*>?/g) ?? []).sort()
  for (const language of ['de', 'es'] as const) {
    const known: Readonly<Record<string, string>> = catalog(language)
    t.same(
      Object.keys(known).filter(message => !isThere(message)),
      [],
      `${language}: stale`
    )
    for (const [message, translation] of Object.entries(known)) {
      t.same(parts(translation), parts(message), `${language}: ${message}`)
      t.notMatch(translation, /"|^\s|\s$|^$/, `${language}: ${message}`)
    }
    const missing = [...all].filter(([message]) => !Object.hasOwn(known, message))
    t.same(
      missing.map(([message]) => message),
      [],
      `${language}: missing`
    )
  }
})

t.test('pages: in the language of the request, which a link changes', async t => {
  const gateway = await startGateway(t)
  const send = (path: string, headers: Readonly<Record<string, string>>) => gateway.send('GET', path, { headers })
  const accept = 'text/html'

  const plain = await send('/sign-in', { accept })
  t.match(plain.text, /<html lang="en">/)
  t.match(plain.headers, { 'content-language': 'en', vary: /Accept-Language/, 'set-cookie': undefined })
  const german = await send('/sign-in', { accept, 'accept-language': 'de-DE,de;q=0.9' })
  t.match(german.text, /<html lang="de"/)
  t.match(german.text, /Anmelden/)
  t.equal(german.headers['content-language'], 'de')

  await t.test('a link keeps the query, and a cookie the choice', async t => {
    const page = await send('/sign-in?next=console&lang=es', { accept, 'accept-language': 'de' })
    t.match(page.text, /Iniciar sesión/)
    t.match(page.text, /href="\?next=console&amp;lang=de"/)
    t.match(
      String(page.headers['set-cookie']),
      /boltgate-language=es; Path=\/; Max-Age=31536000; HttpOnly; SameSite=Lax(?:,|$)/
    )
    t.match((await send('/sign-in', { accept, cookie: 'boltgate-language=es' })).text, /<html lang="es"/)
  })
  await t.test('another language is ignored', async t => {
    const page = await send('/sign-in?lang=%22%3E%3Cscript%3E', { accept })
    t.match(page.headers, { 'content-language': 'en', 'set-cookie': undefined })
    t.notMatch(page.text, /<script>/)
  })
  await t.test('errors in a browser', async t => {
    const page = await send('/no-such-page', { accept, 'accept-language': 'es' })
    t.match(page.text, /No hay nada en esta ruta/)
    t.match(page.headers, { 'content-language': 'es' })
  })
  await t.test('JSON stays English', async t => {
    t.match((await send('/no-such-page', { accept: '*/*', 'accept-language': 'de' })).text, /Nothing is served/)
  })
  await t.test('what a page reads from the API, which answers clients in English', async t => {
    const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
    t.match((await send('/console', { accept, cookie, 'accept-language': 'de' })).text, /Webhook-URL eintragen/)
    const key = { 'x-api-key': gateway.merchant.apiKey, 'accept-language': 'de' }
    t.match((await send('/api/merchant/quickstart', key)).text, /Set a webhook URL/)
  })
  await t.test('the home page and a price', async t => {
    t.match((await send('/', { accept, 'accept-language': 'de' })).text, /Zahlen Sie nur, was Sie nutzen/)
  })
})
