import { createServer } from 'node:http'
import t from 'tap'
import { WebSocketServer, WebSocket } from 'ws'
import { buy, startGateway } from '../../support/gateway.ts'

t.test('an upgrade over a proxy follows the same header policy as any answer, and names the proxy', async t => {
  const server = createServer()
  const sockets = new WebSocketServer({ server })
  sockets.on('headers', headers => {
    headers.push('Payment-Receipt: forged', 'X-L402-Proxy-Id: forged', 'X-Kept: yes')
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => {
    sockets.close()
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const gateway = await startGateway(t)
  const created = await gateway.merchantSend('POST', '/api/proxy', {
    name: 'ws',
    targetBaseUrl: `http://127.0.0.1:${port}`,
    defaultPriceSats: 2
  })
  const { proxyId } = created.json() as { proxyId: string }
  const path = `/l402/proxy/${proxyId}/socket`
  const authorization = await buy(gateway, path)

  const client = new WebSocket(`${gateway.url.replace('http', 'ws')}${path}`, { headers: { authorization } })
  const headers = await new Promise<Record<string, unknown>>((resolve, reject) => {
    client.on('upgrade', answer => {
      resolve(answer.headers)
    })
    client.on('error', reject)
  })
  t.match(headers, { 'x-l402-proxy-id': proxyId, 'x-l402-proxy': 'true', 'x-kept': 'yes', 'x-api-version': '1.0.0' })
  t.equal(headers['payment-receipt'], undefined)
  client.terminate()

  server.closeAllConnections()
  server.close()
  const refused = new WebSocket(`${gateway.url.replace('http', 'ws')}${path}`, { headers: { authorization } })
  const answer = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    refused.on('unexpected-response', (_request, response) => {
      let text = ''
      response
        .setEncoding('utf8')
        .on('data', (piece: string) => {
          text += piece
        })
        .on('end', () => {
          resolve({ status: response.statusCode ?? 0, text })
        })
    })
    refused.on('open', () => {
      reject(new Error('opened'))
    })
    refused.on('error', () => {})
  })
  t.equal(answer.status, 502)
  t.match(JSON.parse(answer.text), { error: String, message: String, proxy_id: proxyId, details: String })
})
