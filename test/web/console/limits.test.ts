import t from 'tap'
import { createLog } from '../../../src/platform/telemetry/log.ts'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { asPerson, sessionOf } from './session.ts'

t.test("consoles: open tabs cost neither the account's limits nor the shop's, and log one line per page", async t => {
  const lines: string[] = []
  const log = createLog({
    level: 'info',
    destination: {
      write: line => {
        lines.push(line)
      }
    }
  })
  const yaml = defaultYaml({ policies: '  webhook: { limit: 100, window: 1m }' })
  // All of it is one minute.
  const gateway = await startGateway(t, { yaml, log, clock: new ManualClock() })
  const statuses = async (count: number, send: () => Promise<{ status: number }>) => {
    const found = new Set<number>()
    for (let nth = 0; nth < count; nth++) found.add((await send()).status)
    return [...found]
  }
  const merchant = await sessionOf(gateway, gateway.merchant.apiKey)
  const operator = await sessionOf(gateway, gateway.adminKey)
  lines.length = 0
  t.same(await statuses(60, () => asPerson(gateway, merchant, '/console')), [200], 'five tabs')
  t.same(await statuses(60, () => asPerson(gateway, operator, '/operator')), [200])
  const requests = lines.filter(line => line.includes('"msg":"request"'))
  t.equal(requests.length, 120)
  t.ok(requests.every(line => /"route":"[^"]*(console|operator)/.test(line)))
  t.same(await statuses(200, () => gateway.merchantSend('GET', '/api/payments')), [200], 'the shop has its whole limit')
  t.equal((await gateway.merchantSend('GET', '/api/payments')).status, 429)
  t.same(await statuses(3, () => asPerson(gateway, merchant, '/console')), [200], 'which leaves the console alone')
})
