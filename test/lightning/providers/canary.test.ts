import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test as T } from 'tap'
import { createLog } from '../../../src/platform/telemetry/log.ts'
import { defaultYaml, startGateway, type Answer } from '../../support/gateway.ts'

const MERCHANT = 'canary-merchant-5d1f0c7e92'
const OPERATOR = 'canary-operator-a80b34c6f1'
const CANARY = /canary-(?:merchant|operator)/

type Reply = (request: IncomingMessage, response: ServerResponse) => void

/** An answer that says the key back, as an error page in debugging or something in front of a provider might. */
function echo(status: number, headers: Readonly<Record<string, string>> = {}, page = false): Reply {
  return ({ headers: { authorization = '' } }, response) => {
    const said = `The key ${authorization} is not good enough, ${authorization.replace('Bearer ', '')}`
    const body = page
      ? `<html>${said}</html>`
      : JSON.stringify({ success: false, message: said, data: { status, code: said, message: said } })
    response
      .writeHead(status, {
        'content-type': page ? 'text/html' : 'application/json',
        'x-echo': authorization,
        location: `/elsewhere?key=${authorization}`,
        ...headers
      })
      .end(body)
  }
}

const FAILURES: ReadonlyArray<readonly [name: string, reply: Reply]> = [
  ...[400, 401, 403, 404, 409, 422, 500, 503].map(
    status => [`${status} that says the key back`, echo(status)] as const
  ),
  ['a page with the key in it', echo(403, {}, true)],
  ['a page as 200', echo(200, {}, true)],
  ['JSON as 200 that is something else', echo(200)],
  ['a redirect', echo(302)],
  [
    'a broken connection',
    ({ socket }) => {
      socket.destroy()
    }
  ],
  [
    'what is no HTTP',
    ({ headers: { authorization = '' }, socket }) => {
      socket.end(`${authorization}\r\n\r\n`)
    }
  ],
  [
    'half an answer',
    ({ headers: { authorization = '' } }, response) => {
      response.writeHead(200, { 'content-length': '10000' }).write(authorization)
      response.socket?.end()
    }
  ],
  ['an answer that does not come', () => {}],
  // Last: for the time that it says, Strike is not called.
  ['429 that says the key back', echo(429)]
]

async function provider(t: T) {
  const made = { url: '', reply: echo(500), asked: 0 }
  const server = createServer((request, response) => {
    made.asked++
    request.on('error', () => {}).resume()
    request.on('end', () => {
      made.reply(request, response)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A server that listens on TCP has an address object.
  made.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return made
}

for (const kind of ['strike', 'opennode'] as const) {
  t.test(`no provider key in a log, an answer or a job, however ${kind} fails`, async t => {
    const fake = await provider(t)
    const lines: string[] = []
    const gateway = await startGateway(t, {
      log: createLog({
        level: 'debug',
        destination: {
          write: line => {
            lines.push(line)
          }
        }
      }),
      env: { OPERATOR_KEY: OPERATOR },
      yaml: defaultYaml({
        replace: [
          [
            'primary:   { kind: sandbox }',
            `primary: { kind: ${kind}, key: "\${OPERATOR_KEY}", url: "${fake.url}", timeout: 1s }`
          ]
        ]
      })
    })
    await gateway.merchantSend('PUT', '/api/merchant/primary-key', { primaryApiKey: MERCHANT })
    const validate = () => gateway.merchantSend('POST', '/api/merchant/validate-primary')
    const create = (orderId: string, amount: number, currency: string): Promise<Answer> =>
      gateway.merchantSend('POST', '/api/payments', { orderId, amount, currency })
    for (const [name, reply] of FAILURES) {
      await t.test(name, async t => {
        lines.length = 0
        // Four calls that may fail, then one that is answered: the breaker opens at the fifth failure in a row.
        fake.reply = reply
        const answers = [
          await validate(),
          await create(`${name} 1`, 0.0001, 'BTC'),
          await create(`${name} 2`, 5, 'USD'),
          await gateway.send('GET', '/demo/quote')
        ]
        t.ok(fake.asked > 0, 'the provider was called')
        fake.reply = echo(400)
        answers.push(await validate())
        t.notOk(
          answers.some(({ status }) => status === 201 || status === 402 || status === 500),
          answers.map(({ status }) => status).join(' ')
        )
        fake.asked = 0
        const jobs = await gateway.database.sql`select data, reason from jobs`
        t.notMatch(JSON.stringify(answers.map(({ headers, text }) => [headers, text])), CANARY, 'answers')
        t.notMatch(lines.join(''), CANARY, 'log')
        t.notMatch(JSON.stringify(jobs), CANARY, 'jobs')
        t.ok(lines.length >= answers.length, 'the log in use is checked')
      })
    }
  })
}
