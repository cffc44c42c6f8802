/** What a person sees who follows a link that leads nowhere; programs get the contract's JSON. */
import t from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { errorResponse } from '../../../src/engine/operations/error-page.ts'
import { notFound } from '../../../src/engine/operations/errors.ts'
import { startGateway } from '../../support/gateway.ts'

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8'

t.test('errors in a browser', async t => {
  const gateway = await startGateway(t)
  const asked = (path: string, accept: string, method = 'GET') => gateway.send(method, path, { headers: { accept } })

  for (const [path, status, words] of [
    ['/no-such-page', 404, 'Nothing is served at this path.'],
    ['/l402/proxy/no-such-api/x', 404, /not found/i],
    ['/jobs', 401, /admin key/]
  ] as const)
    await t.test(`${path} is a page for browsers, and JSON for programs`, async t => {
      const page = await asked(path, BROWSER)
      t.equal(page.status, status)
      t.match(page.headers['content-type'], /^text\/html/)
      t.match(page.headers['content-security-policy'], /default-src 'none'/)
      t.match(page.headers['cache-control'], /no-store/)
      t.match(page.text, words)
      t.match(page.text, String(page.headers['x-correlation-id']))
      for (const accept of ['*/*', 'application/json', 'text/html;q=0.5, application/json']) {
        const json = await asked(path, accept)
        t.equal(json.status, status)
        t.match(json.headers['content-type'], /^application\/json/)
      }
      t.match((await asked(path, BROWSER, 'POST')).headers['content-type'], /json/)
      t.equal((await asked(path, BROWSER, 'HEAD')).text, '')
    })

  await t.test('text of others is shown, and does not become markup', async t => {
    const page = await asked('/storefront/%3Cscript%3Ealert(1)%3C%2Fscript%3E', BROWSER)
    t.match(page.headers['content-type'], /^text\/html/)
    t.notMatch(page.text, /<script/)
  })

  for (const [path, to] of [
    ['/console/', '../console'],
    ['/operator/?a=b', '../operator?a=b'],
    ['/storefront/demo/', '../demo']
  ] as const)
    await t.test(`${path} leads to the page without the slash`, async t => {
      const answer = await asked(path, BROWSER)
      t.match(answer, { status: 308, headers: { location: to } })
    })
  await t.test('the API is for programs', async t => {
    t.match((await asked('/api/merchant/me', BROWSER)).headers['content-type'], /json/)
  })

  await t.test('programs are not redirected, and nothing is above the root', async t => {
    t.equal((await asked('/console/', '*/*')).status, 404)
    t.equal((await asked('//', BROWSER)).status, 404)
  })
})

t.test('errors in a browser: the work grows with the length of a path, not with its square', async t => {
  const headers = new HeaderList(['accept', BROWSER])
  const path = `/${'a'.repeat(2_000_000)}`
  const around = { correlationId: 'c', now: 0, mode: 'production' } as const
  const answer = errorResponse({ headers, method: 'GET', path, query: '', upgrade: null }, notFound(), around)
  t.equal(answer.status, 404)
})
