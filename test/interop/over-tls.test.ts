/** A browser and mppx as published pay and stream over TLS, the browser by HTTP/2. */
import { createServer } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { Agent, fetch, getGlobalDispatcher, setGlobalDispatcher } from 'undici'
import { certificateFiles } from '../engine/listener/support.ts'
import { startGateway } from '../support/gateway.ts'
import { serve } from '../support/serve.ts'
import { noBrowser, openBrowser, openPage } from '../web/pay/browser.ts'
import { lightningClient, loadMppx, mppxProgram } from './mppx-client.ts'

async function openSecure(t: T) {
  const upstream = createServer(async (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    for (let event = 1; event <= 3; event++) {
      response.write(`data: ${event}\n\n`)
      await setTimeout(1)
    }
    response.end()
  })
  const port = await serve(t, upstream)
  const { cert, key } = certificateFiles(['localhost'])
  const gateway = await startGateway(t, {
    yaml: [
      'data: ${BOLTGATE_DATA}',
      `server: { listen: "127.0.0.1:0", http2: true, tls: [{ cert: "${cert}", key: "${key}" }] }`,
      'routes:',
      `  - { match: { path: /v1/* }, chain: paid, price: 5 sats, upstream: { url: "http://127.0.0.1:${port}" } }`
    ].join('\n')
  })
  const url = gateway.url.replace('http://127.0.0.1', 'https://localhost')
  const agent = new Agent({ connect: { rejectUnauthorized: false } })
  const before = getGlobalDispatcher()
  // mppx calls the global fetch, which takes no certificate of a test.
  setGlobalDispatcher(agent)
  t.teardown(async () => {
    setGlobalDispatcher(before)
    await agent.close()
  })
  const pay = async (invoice: string) => {
    const response = await fetch(`${url}/sandbox/pay`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ invoice })
    })
    return ((await response.json()) as { preimage: string }).preimage
  }
  return { url, pay }
}

t.test('a browser pays and reads an event stream over HTTP/2', { skip: noBrowser }, async t => {
  const { url, pay } = await openSecure(t)
  const { page } = await openPage(t, await openBrowser(t), { ignoreHTTPSErrors: true })
  await page.goto(`${url}/v1/events`)
  const spoken = 'performance.getEntriesByType("navigation")[0].nextHopProtocol'
  t.equal(await page.evaluate(spoken), 'h2')
  const ask = (authorization = '') =>
    page.evaluate(
      `fetch('/v1/events', { headers: ${JSON.stringify(authorization === '' ? {} : { authorization })} })
        .then(async each => ({ status: each.status, challenge: each.headers.get('www-authenticate'), text: await each.text() }))`
    ) as Promise<{ status: number; challenge: string; text: string }> /* written in the page */
  const { status, challenge } = await ask()
  t.equal(status, 402)
  const [, macaroon, invoice] = /L402 macaroon="([^"]+)", invoice="([^"]+)"/.exec(challenge) ?? []
  const paid = await ask(`L402 ${macaroon}:${await pay(invoice ?? '')}`)
  t.match(paid, { status: 200, text: 'data: 1\n\ndata: 2\n\ndata: 3\n\n' })
})

t.test('mppx pays over TLS', { skip: mppxProgram() === null && 'mppx is not installed' }, async t => {
  const { url, pay } = await openSecure(t)
  const client = lightningClient(await loadMppx(), pay)
  const response = await client.fetch(`${url}/v1/events`)
  t.equal(response.status, 200)
  t.equal(await response.text(), 'data: 1\n\ndata: 2\n\ndata: 3\n\n')
})
