import { createServer, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { openSourceCalls } from '../../../src/lightning/money/open.ts'
import { noBudget } from '../../../src/lightning/provider-calls/budgets.ts'
import { ProviderHttp } from '../../../src/lightning/provider-calls/provider-call.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { guardedConnector } from '../../../src/engine/upstream/connector.ts'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { outboundCall } from '../../../src/engine/upstream/outbound.ts'
import { serve } from '../../support/serve.ts'

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'
const BODY = JSON.stringify({ a: CONTINUE })
const ANSWER = `HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(BODY)}\r\n\r\n${BODY}`
const BEFORE = [
  '',
  CONTINUE,
  CONTINUE.repeat(5),
  'HTTP/1.1 100 \r\nX-A: b\r\n\r\n',
  'HTTP/1.1 102 Processing\r\n\r\n',
  `HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n${CONTINUE}`
]

t.test('outgoing calls: unexpected interim responses are skipped, however they arrive', async t => {
  let before = ''
  let size = 0
  const server = createServer((socket: Socket) => {
    socket.on('error', () => {})
    socket.on('data', () => {
      const text = before + ANSWER
      if (size === 0) socket.write(text)
      else void inPieces(socket, text)
    })
  })
  const url = `http://127.0.0.1:${await serve(t, server)}`
  const inPieces = async (socket: Socket, text: string) => {
    for (let at = 0; at < text.length; at += size) {
      socket.write(text.slice(at, at + size))
      await setImmediate()
    }
  }
  const guard = new AddressGuard({ production: false })
  const outbound = outboundCall(guard)
  const sources = openSourceCalls()
  const provider = (more: object) =>
    new ProviderHttp({
      url,
      timeout: 10_000,
      clock: systemClock,
      budget: noBudget('test', systemClock),
      authorize: () => ({}),
      messageOf: () => null,
      ...more
    })
  const providers = [provider({}), provider({ connect: guardedConnector(guard, { tls: null, timeout: 5000 }) })]
  t.teardown(async () => {
    await Promise.all([sources.close(), ...providers.map(each => each.close())])
  })
  const headers = ['content-type', 'text/plain']
  const calls: Record<string, () => Promise<unknown>> = {
    webhooks: async () =>
      String((await outbound({ method: 'POST', url, headers, body: Buffer.from('x'), timeout: 5000, keep: 100 })).body),
    'addresses of users': async () =>
      String((await outbound({ method: 'GET', url, headers: [], timeout: 5000, keep: 100 })).body),
    'price sources': () => sources.ask(url, AbortSignal.timeout(5000)),
    ...Object.fromEntries(
      providers.flatMap((http, at) =>
        (['GET', 'POST'] as const).map(method => [
          `provider ${at} ${method}`,
          async () =>
            JSON.stringify((await http.within(null, call => call({ method, path: '/', body: { b: 1 } }))).body)
        ])
      )
    )
  }
  for (before of BEFORE)
    for (size of [0, 1, 7])
      for (const [name, call] of Object.entries(calls))
        t.equal(await call(), BODY, `${name}: ${JSON.stringify(before)} in pieces of ${size}`)
  before = CONTINUE.repeat(10_000)
  size = 0
  await t.rejects(outbound({ method: 'GET', url, headers: [], timeout: 5000 }), 'but not without end')
})
