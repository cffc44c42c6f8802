/** Times at both ends of the calendar, which JavaScript writes in a form that neither PostgreSQL nor an answer takes. */
import t from 'tap'
import { stepsOf } from '../../../src/selling/sales/steps.ts'
import { asPerson, sessionOf } from '../../web/console/session.ts'
import { eachDatabase } from '../../support/database.ts'
import { startGateway } from '../../support/gateway.ts'

const ENDS = [
  '0000-01-01',
  '0001-01-01',
  '0001-01-01T00:00:00%2B02:00',
  '9999-12-31',
  '9999-12-31T23:59:59Z',
  '9999-12-31T23:59:59-14:00'
]

await eachDatabase(
  t,
  'a list is filtered by any time that can be read, at the ends of the calendar too',
  async (t, database) => {
    const gateway = await startGateway(t, { database })
    const created = await gateway.merchantSend('POST', '/api/payments', {
      orderId: 'a',
      amount: '0.00001',
      currency: 'BTC'
    })
    t.equal(created.status, 201)
    const lists = [
      ...['/api/payments', '/api/merchant/sales', '/api/merchant/audit'].flatMap(path => [
        `${path}?from=`,
        `${path}?to=`
      ]),
      '/api/l402/challenges?since=',
      '/api/merchant/webhooks/deliveries?since='
    ]
    for (const list of lists)
      for (const end of ENDS) {
        const answer = await gateway.merchantSend('GET', `${list}${end}`)
        t.equal(answer.status, 200, `${list}${end}`)
      }
    for (const path of ['/api/admin/sales', '/api/admin/audit'])
      for (const query of ENDS.flatMap(end => [`from=${end}`, `to=${end}`])) {
        const answer = await gateway.adminSend('GET', `${path}?${query}`)
        t.equal(answer.status, 200, `${path}?${query}`)
      }
    const found = async (query: string) =>
      ((await gateway.merchantSend('GET', `/api/payments?${query}`)).json() as { payments: unknown[] }).payments.length
    t.equal(await found('from=0000-01-01'), 1)
    t.equal(await found('from=0000-01-01&to=9999-12-31T23:59:59-14:00'), 1)
    t.equal(await found('to=0001-01-01T00:00:00%2B02:00'), 0)
    t.equal(await found('from=9999-12-31T23:59:59-14:00'), 0)
    t.equal(await found('after=999999999999999-a'), 1, 'a cursor is a time too')
    const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
    for (const end of ['0000-01-01', '9999-12-31'])
      t.equal((await asPerson(gateway, cookie, `/console/payments?from=${end}&to=${end}`)).status, 200, end)
  }
)

await eachDatabase(
  t,
  'sums by step are computed for the years 1 to 9999, and refused where a step leaves them',
  async (t, database) => {
    const gateway = await startGateway(t, { database })
    const headers = { 'x-api-key': gateway.adminKey }
    for (const path of ['/api/merchant/earnings', '/api/merchant/traffic', '/api/admin/earnings', '/api/admin/metrics'])
      for (const query of ENDS.flatMap(end => [
        `from=${end}`,
        `to=${end}`,
        `to=${end}&step=1d`,
        `to=${end}&by=month`
      ])) {
        const answer = path.startsWith('/api/admin')
          ? await gateway.send('GET', `${path}?${query}`, { headers })
          : await gateway.merchantSend('GET', `${path}?${query}`)
        t.match(answer.status, /^[24]00$/, `${path}?${query}`)
      }
    const earnings = (query: string) => gateway.merchantSend('GET', `/api/merchant/earnings?${query}`)
    t.match((await earnings('by=month&from=0001-01-01&to=0001-06-01')).json(), {
      from: '0001-01-01T00:00:00.000Z',
      to: '0001-06-01T00:00:00.000Z'
    })
    t.match((await earnings('to=9999-12-31')).json(), { to: '9999-12-31T00:00:00.000Z' })
    const refused = await earnings('to=9999-12-31T23:59:59Z')
    t.equal(refused.status, 400)
    t.match(refused.json(), { errors: { To: ['Must be in the years 1 to 9999, and so must the end of its step.'] } })
    t.match((await earnings('to=0001-01-02')).json(), { errors: { From: [/in the years 1 to 9999/] } })
  }
)

t.test('months of the years 1 to 99 are of those years, not of the 20th century', async t => {
  t.same(stepsOf('month', { from: Date.parse('0099-11-05T00:00:00Z'), to: Date.parse('0100-01-02T00:00:00Z') }, 0), {
    from: Date.parse('0099-11-01T00:00:00Z'),
    to: Date.parse('0100-02-01T00:00:00Z')
  })
})

await eachDatabase(t, 'the end of a period that no database could keep is refused', async (t, database) => {
  const gateway = await startGateway(t, { database })
  const change = (currentPeriodEnd: string) =>
    gateway.adminSend('PUT', `/api/admin/merchants/${gateway.merchant.id}`, { currentPeriodEnd })
  for (const end of ['0000-01-01', '0001-01-01T00:00:00+02:00', '9999-12-31T23:59:59-14:00']) {
    const answer = await change(end)
    t.equal(answer.status, 400, end)
    t.match(answer.json(), { errors: { CurrentPeriodEnd: ['Must be in the years 1 to 9999, in UTC.'] } })
  }
  t.equal((await change('9999-12-31T23:59:59Z')).status, 200)
})
