import { openProxies } from '../../payments/proxies/open.ts'
import { openNotifications } from '../../payments/notifications/open.ts'
import { openPayments } from '../../payments/payments/open.ts'
import { openRefunds } from '../../payments/refunds/open.ts'
import { openWebhooks } from '../../payments/webhooks/open.ts'
import { openBilling } from '../../plans/open.ts'
import { openPlatform, openStorefront } from '../../shop/open.ts'
import { openAdmin } from '../../web/admin/open.ts'
import { openConsole } from '../../web/console/open.ts'
import { openMail } from '../../web/mail/open.ts'
import { openPages } from '../../web/pay/open.ts'
import { openSignIn } from '../../web/sign-in/open.ts'
import type { Core } from './core.ts'
import type { Open } from './domains.ts'

/** The merchant suite: payments, plans, shop and web. */
export type Suite = Awaited<ReturnType<typeof openSuite>>

export async function openSuite(core: Core, opened: Open) {
  const { clock, config, earnings, providers, running, sale, traffic } = core
  const mail = opened(await openMail(core))
  core.events.listen({
    keyRefused: (merchantId, slot, reason) =>
      mail.notices.send(merchantId, 'provider', [
        ['Provider', slot],
        ['Reason', reason]
      ])
  })
  const webhooks = opened(
    openWebhooks({
      ...core,
      failed: (sql, { merchantId, event, host, reason }) =>
        mail.notices.queue(sql, merchantId, 'webhook', [
          ['Event', event],
          ['Endpoint', host],
          ['Reason', reason]
        ])
    })
  )
  sale.onPaid(webhooks.challengesPaid)
  const billing = opened(await openBilling({ ...core, outbox: mail.outbox }))
  const { gate } = billing
  const signIn = opened(openSignIn({ ...core, notices: mail.notices, outbox: mail.outbox }))
  opened(
    openAdmin({
      ...core,
      approved: [billing.approved, signIn.invite],
      earnedSince: from => earnings.since(from, clock.now()),
      traffic: traffic.traffic,
      running: () => running,
      serving: () => running.serving,
      generation: () => running.gateway?.generation ?? 0,
      providers: providers.report,
      upstreams: () => core.forwarder.breakers.report()
    })
  )
  const proxies = opened(openProxies(core))
  const payments = opened(
    openPayments({
      ...core,
      gate,
      changed: [webhooks.paymentChanged, mail.sendReceipt],
      sold: sale.sold('payment')
    })
  )
  const stores = opened(
    openStorefront({
      ...core,
      platform: openPlatform(config(), core),
      gate,
      outbox: mail.outbox,
      orderFailed: webhooks.storeOrderFailed
    })
  )
  const { invoiceFor } = providers
  opened(openRefunds({ ...core, invoiceFor, payments, others: [stores.refundSources], onConfirmed: mail.tellRefunded }))
  opened(openNotifications({ ...core, payments: payments.payments }))
  const { links } = payments
  opened(
    openPages({
      ...core,
      links,
      payments: payments.payments,
      others: [billing.bitcoinPlans, stores.payables],
      sandbox: providers.wallet
    })
  )
  opened(
    openConsole({
      clock,
      jobs: core.jobs,
      prices: core.prices,
      ask: async ctx => {
        if (running.gateway === null) throw new TypeError('a page is requested before there are routes')
        return await running.gateway.ask(ctx)
      },
      merchants: core.merchants,
      sessions: signIn.sessions,
      trail: core.trail,
      publicUrl: core.publicUrl
    })
  )
  return {
    services: {
      proxies: proxies.admission,
      sessions: signIn.sessions,
      signInRecord: signIn.record,
      subscriptionGate: gate
    },
    listedStores: stores.listed,
    listedApis: proxies.listed,
    publishedApi: proxies.published,
    webhooks: webhooks.documented,
    /** Follows other processes' changes; jobs are already running. */
    async start(): Promise<void> {
      await proxies.start()
      await payments.start()
      // Not awaited: only buyers of a plan need the billing provider.
      void billing.start()
    }
  }
}
