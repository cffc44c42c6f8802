import { adminOperations } from '../admin/operations.ts'
import { SqlAdminStore } from '../admin/store.ts'
import { bitcoinOperations } from '../billing/bitcoin/operations.ts'
import { billingOperations } from '../billing/operations.ts'
import { sandboxBillingOperations } from '../billing/sandbox/operations.ts'
import { challengeOperations, hasChallenge } from '../challenges/operations.ts'
import { priceList } from '../challenges/pricing.ts'
import { leaseOperations } from '../challenges/lease-operations.ts'
import { revocationOperations } from '../challenges/revocation-operations.ts'
import { demoOperations } from '../demo/operations.ts'
import { discoveryOperations } from '../discovery/operations.ts'
import { metricsOperation } from '../gateway/metrics-operation.ts'
import type { AnyOperation } from '../gateway/operation.ts'
import { accountView } from '../merchants/account.ts'
import { dashboardOperations } from '../admin/jobs-dashboard.ts'
import { merchantOperations } from '../merchants/operations.ts'
import { notificationOperations } from '../notifications/operations.ts'
import { ICON_SVG } from '../pages/document.ts'
import { pageOperations } from '../pages/operations.ts'
import { checkoutOperations } from '../payments/checkout-sessions.ts'
import { paymentOperations } from '../payments/operations.ts'
import { healthOperations } from '../discovery/health.ts'
import { providerOperations } from '../providers/operations.ts'
import { proxyOperations } from '../proxies/operations.ts'
import { refundAdminOperations } from '../refunds/admin-operations.ts'
import { isProxyId } from '../proxies/store.ts'
import { refundOperations } from '../refunds/operations.ts'
import { signInOperations } from '../sign-in/operations.ts'
import { sentWebhooks } from '../webhooks/documented.ts'
import { webhookOperations } from '../webhooks/operations.ts'
import type { Parts, Running, Surroundings } from './parts.ts'

/** The operations of each internal upstream, by its name in `gateway.yaml`. */
export interface Mounted {
  readonly api: readonly AnyOperation[]
  readonly demo: readonly AnyOperation[]
  /** All of them, as the OpenAPI document lists them. */
  readonly all: readonly AnyOperation[]
}

/** Mounts the operations of every domain on its services. */
export function mountOperations(parts: Parts, running: Running, around: Surroundings): Mounted {
  const {
    production,
    metrics,
    budgets,
    providers,
    merchants,
    payees,
    challenges,
    proxyStore,
    proxies,
    payments,
    refunds,
    refundSettlements,
    jobs,
    webhooks,
    news,
    storefront,
    settled,
    billing,
    sandboxBilling,
    bitcoinPlans,
    signIns,
    approved
  } = parts
  const { clock, log, database, publicUrl } = around
  const { sandbox } = providers
  const all: AnyOperation[] = []
  const api: AnyOperation[] = [
    ...healthOperations(database, clock, { ready: () => running.serving, budgets: () => budgets.report() }),
    metricsOperation(metrics),
    ...discoveryOperations({
      publicUrl,
      config: () => running.config,
      prices: () => priceList(running.config),
      operations: () => all,
      webhooks: sentWebhooks,
      icon: ICON_SVG,
      stores: async () =>
        (await storefront.storefronts.listed()).map(({ slug, registryDescription }) => ({
          slug,
          description: registryDescription
        }))
    }),
    ...providerOperations({
      sandbox,
      mode: running.config.mode,
      onSettled: settled,
      onChanged: paymentHash => payments.settled(paymentHash)
    }),
    ...challengeOperations({
      challenges,
      clock,
      database,
      publicUrl,
      config: () => running.config,
      countProxies: (sql, merchantId) => proxyStore.count(sql, merchantId)
    }),
    ...leaseOperations(challenges),
    ...revocationOperations({
      challenges,
      ownerOf: async proxyId =>
        isProxyId(proxyId) ? ((await proxyStore.byIds([proxyId]))[0]?.merchantId ?? null) : null,
      isMerchant: async id => (await merchants.byId(id)) !== null
    }),
    ...proxyOperations(proxies),
    ...merchantOperations({
      merchants,
      production,
      plans: () => running.config.plans,
      publicUrl,
      validate: async (merchant, slot) => {
        const verdict = await payees.validate(merchant, slot)
        if (verdict?.isValid === true) await news.keyIsGood(merchant.id, slot)
        return verdict
      },
      countProxies: merchantId => proxyStore.counts(merchantId),
      hasPaidPayment: merchantId => payments.hasPaid(merchantId),
      hasChallenge: merchantId => hasChallenge(database.sql, merchantId)
    }),
    ...webhookOperations(webhooks),
    ...notificationOperations(news.notifications),
    ...storefront.operations(),
    ...billingOperations(billing),
    ...sandboxBillingOperations(sandboxBilling),
    ...bitcoinOperations(bitcoinPlans),
    ...signInOperations({ signIns, publicUrl }),
    ...dashboardOperations({ jobs, clock }),
    ...paymentOperations(payments),
    ...checkoutOperations(payments),
    ...refundOperations(refunds),
    ...refundAdminOperations(refundSettlements),
    ...pageOperations({
      payments,
      others: [bitcoinPlans],
      watch: payments,
      merchant: id => merchants.byId(id),
      clock,
      log,
      publicUrl,
      sandbox:
        production || sandbox === null
          ? null
          : {
              pay: async invoice => {
                await settled((await sandbox.settle(invoice)).paymentHash)
              }
            }
    }),
    ...adminOperations({
      database,
      store: new SqlAdminStore(database),
      merchants,
      clock,
      production,
      approved,
      account: async merchant => accountView(merchant, running.config.plans, await proxyStore.counts(merchant.id))
    })
  ]
  const demo = demoOperations()
  all.push(...api, ...demo)
  return { api, demo, all }
}
