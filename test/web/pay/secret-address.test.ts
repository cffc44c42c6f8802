import { inspect } from 'node:util'
import t from 'tap'
import type { Log } from '../../../src/platform/telemetry/log.ts'
import { startGateway } from '../../support/gateway.ts'

t.test(
  'the address of a pay page is in no line of the log, however it is requested (contract, Payment: treat it as a secret)',
  async t => {
    const lines: string[] = []
    const write = (fields: object | string, message?: string) => {
      lines.push(inspect([fields, message], { depth: 10 }))
    }
    const log: Log = { debug: write, info: write, warn: write, error: write }
    const gateway = await startGateway(t, { log })
    const made = await gateway.merchantSend('POST', '/api/payments', { orderId: 'secret', amount: 1, currency: 'USD' })
    t.equal(made.status, 201)
    const { payUrl } = made.json() as { payUrl: string }
    const path = new URL(payUrl).pathname
    const token = path.split('/')[2] ?? ''
    t.equal(token.length, 43)
    for (const [method, target] of [
      ['GET', path],
      ['HEAD', path],
      ['POST', path],
      ['PUT', path],
      ['DELETE', path],
      ['OPTIONS', path],
      ['GET', `${path}/`],
      ['GET', `${path}?x=1`],
      ['GET', `${path}.`],
      ['POST', `${path}/events`],
      ['GET', `${path}/events/`],
      ['GET', `${path}/x/y`],
      ['GET', `/pay//${token}`],
      ['GET', `/pay/%61${token}`]
    ] as const) {
      const before = lines.length
      await gateway.send(method, gateway.url + target)
      t.equal(
        lines.slice(before).find(line => line.includes(token)),
        undefined,
        `${method} ${target.replace(token, '…')}`
      )
    }
    await gateway.send('GET', '/health')
    await gateway.close()
    t.ok(
      lines.some(line => line.includes('/health')),
      'the log was listened to'
    )
    t.equal(
      lines.find(line => line.includes(token)),
      undefined
    )
  }
)
