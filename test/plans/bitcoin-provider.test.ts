import t from 'tap'
import { JobTable } from '../../src/platform/jobs/table.ts'
import { pricesYaml, startFakePrices } from '../fakes/prices.ts'
import { strikeTill } from '../journeys/tills.ts'
import { defaultYaml, startGateway } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { ManualClock } from '../support/manual-clock.ts'

t.test(
  "plans at a provider of the real format: the platform's own key, its notification, and polling where that was lost",
  async t => {
    const clock = new ManualClock(Date.now())
    const till = await strikeTill(t, clock)
    const prices = await startFakePrices({ clock })
    t.teardown(() => prices.close())
    const yaml = defaultYaml({
      replace: [['primary:   { kind: sandbox }', `primary:   { kind: strike, url: "${till.url}", key: "${till.key}" }`]]
    })
    const gateway = await startGateway(t, { yaml: `${yaml}\n${pricesYaml(prices)}\n`, clock })
    const jobs = new JobTable(gateway.database)
    // An hour of the clock ends idle connections, so none is left to rest.
    const close = { connection: 'close' }
    const { apiKey } = (
      await gateway.send('POST', '/api/admin/merchants', {
        headers: { ...close, 'x-api-key': gateway.adminKey },
        body: { name: 'Acme', email: 'acme@example.com' }
      })
    ).json() as { apiKey: string }
    const buy = async () => {
      const answer = await gateway.send('POST', '/api/bitcoin/create-subscription', {
        headers: { ...close, 'x-api-key': apiKey },
        body: { plan: 'individual', email: 'acme@example.com' }
      })
      if (answer.status !== 201) throw new Error(answer.text)
      return answer.json() as { lightningInvoice: string; payUrl: string }
    }
    const isPaid = async (payUrl: string) =>
      ((await gateway.send('GET', `${payUrl}/status`, { headers: close })).json() as { status: string }).status ===
      'paid'
        ? true
        : null
    const end = async () => {
      const [row] = await gateway.database.sql<
        { current_period_end: Date }[]
      >`select current_period_end from merchants where email = 'acme@example.com'`
      return row?.current_period_end.getTime() ?? 0
    }

    await t.test('a notification gives the month, and as often as it comes only once', async t => {
      const { lightningInvoice, payUrl } = await buy()
      till.pay(lightningInvoice)
      t.equal(await isPaid(payUrl), null, 'no provider has said so yet')
      t.same(await till.notify?.(lightningInvoice, 3), [200, 200, 200])
      await eventually('the plan is paid', () => isPaid(payUrl))
      const first = await end()
      t.ok(first > clock.now() + 27 * 86_400_000)
      t.same(await till.notify?.(lightningInvoice), [200])
      await eventually('the notification is looked into', async () =>
        (await jobs.counts()).every(({ name, waiting, running }) => name !== 'notifications' || waiting + running === 0)
          ? true
          : null
      )
      t.equal(await end(), first)
    })

    await t.test(
      'a payment whose notification was lost is found by asking, also after the invoice has expired',
      async t => {
        const before = await end()
        const { lightningInvoice, payUrl } = await buy()
        till.pay(lightningInvoice)
        clock.advance(3_600_000 + 60_000)
        await eventually('polling finds the payment', async () => {
          const paid = await isPaid(payUrl)
          clock.advance(30_000)
          await jobs.bringForward('poll-primary')
          return paid
        })
        t.ok((await end()) > before + 27 * 86_400_000, 'one more month')
      }
    )
  }
)
