/** One payment buys few executions, however often its client leaves before the answer (decision 184). */
import { createServer, type Socket } from 'node:net'
import t from 'tap'
import { countingUpstream, openShop, shopYaml } from '../security/shop.ts'
import { buy } from '../support/gateway.ts'
import { RawClient } from '../support/raw-client.ts'
import { serve } from '../support/serve.ts'
import { until } from '../support/until.ts'

const path = '/paid/order'

for (const [method, executions] of [
  ['POST', 3],
  ['GET', 8]
] as const) {
  void t.test(
    `a client that leaves before each head of its ${method} has the upstream run ${executions} of 8 times`,
    async t => {
      const begun: Array<() => void> = []
      const upstream = await countingUpstream(t, () => {
        begun.shift()?.()
      })
      const { gateway } = await openShop(t, { upstream, yaml: shopYaml(upstream.origin) })
      const authorization = await buy(gateway, path, 'payment', { method })
      for (let time = 0; time < 8; time++) {
        const arrived = new Promise<void>(resolve => {
          begun[0] = resolve
        })
        const client = await RawClient.connect(Number(new URL(gateway.url).port))
        client.send(
          `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nContent-Length: 0\r\n\r\n`
        )
        const refused = client.until('402').then(
          () => 'refused' as const,
          () => 'closed' as const
        )
        const first = await Promise.race([arrived.then(() => 'arrived' as const), refused])
        client.close()
        await refused
        if (first === 'refused') break
        // Its lease is given up in the background.
        await until(
          async () => (await gateway.database.sql`select 1 from challenges where state = 'leased'`).length === 0
        )
      }
      t.equal(upstream.hits.length, executions)
      const metrics = await gateway.adminSend('GET', '/metrics')
      t.match(
        metrics.text,
        new RegExp(`boltgate_clients_gone_total\\{credential="returned"\\} ${method === 'POST' ? 2 : 8}\\n`)
      )
      if (method === 'POST') t.match(metrics.text, /boltgate_clients_gone_total\{credential="spent"\} 1\n/)
    }
  )
}

void t.test(
  'an answer that its upstream breaks, and our own refusals, give the credential of a POST back each time',
  async t => {
    const upstream = await countingUpstream(t, (req, res) => {
      if (upstream.hits.length % 2 === 0) req.socket.resetAndDestroy()
      else res.socket?.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n')
    })
    const { gateway } = await openShop(t, { upstream, yaml: shopYaml(upstream.origin) })
    const authorization = await buy(gateway, path, 'payment', { method: 'POST' })
    for (let time = 0; time < 6; time++) {
      await gateway.send('POST', path, { headers: { authorization } }).catch(() => null)
      await until(
        async () => (await gateway.database.sql`select 1 from challenges where state = 'leased'`).length === 0
      )
    }
    t.equal(upstream.hits.length, 6)
  }
)

void t.test('an upload that its client breaks has the upstream run 3 of 6 times', async t => {
  let arrived: () => void = () => undefined
  const upstream = await countingUpstream(t, () => {
    arrived()
  })
  const { gateway } = await openShop(t, { upstream, yaml: shopYaml(upstream.origin) })
  const authorization = await buy(gateway, path, 'payment', { method: 'POST' })
  const statuses: number[] = []
  for (let time = 0; time < 6; time++) {
    const hasArrived = new Promise<void>(resolve => {
      arrived = resolve
    })
    const client = await RawClient.connect(Number(new URL(gateway.url).port))
    client.send(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`
    )
    const response = client.response('POST')
    await Promise.race([hasArrived, response])
    client.send('no chunk\r\n')
    statuses.push((await response).status)
    client.close()
  }
  t.same(statuses, [400, 400, 400, 402, 402, 402])
  t.equal(upstream.hits.length, 3)
})

void t.test('a client that leaves before its POST is sent on uses up no return', async t => {
  // It never answers the handshake of TLS.
  const waiting: Socket[] = []
  const server = createServer(socket => {
    waiting.push(socket)
    t.teardown(() => socket.destroy())
  })
  const port = await serve(t, server)
  const { gateway } = await openShop(t, { yaml: shopYaml(`https://127.0.0.1:${port}`) })
  const authorization = await buy(gateway, path, 'payment', { method: 'POST' })
  const leased = async () => (await gateway.database.sql`select 1 from challenges where state = 'leased'`).length
  for (let time = 0; time < 5; time++) {
    const client = await RawClient.connect(Number(new URL(gateway.url).port))
    client.send(`POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nContent-Length: 0\r\n\r\n`)
    await until(async () => (await leased()) === 1)
    client.close()
    await until(async () => (await leased()) === 0)
  }
  const [row] = await gateway.database.sql<{ state: string }[]>`select state from challenges`
  t.equal(row?.state, 'unspent')
})
