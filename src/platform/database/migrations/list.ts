import type { Migration } from '../migrations.ts'
import { merchants } from './0001-merchants.ts'
import { challenges } from './0002-challenges.ts'
import { proxies } from './0003-proxies.ts'
import { sandboxInvoices } from './0004-sandbox-invoices.ts'
import { payments } from './0005-payments.ts'
import { refunds } from './0006-refunds.ts'
import { pendingSubscriptions } from './0007-pending-subscriptions.ts'
import { webhooks } from './0008-webhooks.ts'
import { providerSubscriptions } from './0009-provider-subscriptions.ts'
import { storefronts } from './0010-storefronts.ts'
import { storefrontOrders } from './0011-storefront-orders.ts'
import { billing } from './0012-billing.ts'
import { signIn } from './0013-sign-in.ts'
import { signInAddress } from './0014-sign-in-address.ts'
import { soldChallenges } from './0015-sold-challenges.ts'
import { challengeWrites } from './0016-challenge-writes.ts'
import { openOfClient } from './0017-open-of-client.ts'
import { refundSettlements } from './0020-refund-settlements.ts'
import { storefrontTroubles } from './0021-storefront-troubles.ts'
import { proxyRenewal } from './0022-proxy-renewal.ts'
import { priceGrace } from './0023-price-grace.ts'
import { idempotencyKeys } from './0024-idempotency-keys.ts'
import { leasesAfterACrash } from './0025-leases-after-a-crash.ts'
import { sandboxStates } from './0027-sandbox-states.ts'
import { heldOrders } from './0029-held-orders.ts'
import { remadeWording } from './0030-remade-wording.ts'
import { purgeIndexes } from './0031-purge-indexes.ts'
import { challengePages } from './0032-challenge-pages.ts'
import { balances } from './0033-balances.ts'
import { prices } from './0038-prices.ts'
import { sessions } from './0039-sessions.ts'
import { lnurlCharges } from './0040-lnurl-charges.ts'
import { providersOfASlot } from './0041-providers-of-a-slot.ts'
import { soldRows } from './0042-sales.ts'
import { apiKeys } from './0043-api-keys.ts'
import { webhookEndpoints } from './0046-webhook-endpoints.ts'
import { merchantColour } from './0047-merchant-colour.ts'
import { smallIndexes } from './0048-small-indexes.ts'
import { members } from './0050-members.ts'
import { audit } from './0051-audit.ts'
import { firstKeys } from './0052-first-keys.ts'
import { refundsAskedAgain } from './0053-refunds-asked-again.ts'
import { proxyPrices } from './0054-proxy-prices.ts'
import { reservedOrders } from './0055-reserved-orders.ts'
import { traffic } from './0057-traffic.ts'
import { passkeys } from './0060-passkeys.ts'
import { proxyTraffic } from './0061-proxy-traffic.ts'
import { entriesTogether } from './0062-entries-together.ts'
import { entriesByColumn } from './0063-entries-by-column.ts'
import { unknownSize } from './0067-unknown-size.ts'
import { salesByTime } from './0068-sales-by-time.ts'
import { sessionRetries } from './0070-session-retries.ts'
import { webhookPaces } from './0076-webhook-paces.ts'
import { choiceByKey } from './0077-choice-by-key.ts'
import { providerStreams } from './0078-provider-streams.ts'
import { masterCheck } from './0079-master-check.ts'
import { failedSignIns } from './0084-failed-sign-ins.ts'
import { jobs } from './0085-jobs.ts'

/**
 * All migrations in the order in which they run. They are imported by name, not read from the folder, so that the built
 * package has them too.
 */
export const migrations: readonly Migration[] = [
  merchants,
  challenges,
  proxies,
  sandboxInvoices,
  payments,
  refunds,
  pendingSubscriptions,
  webhooks,
  providerSubscriptions,
  storefronts,
  storefrontOrders,
  billing,
  signIn,
  signInAddress,
  soldChallenges,
  challengeWrites,
  openOfClient,
  refundSettlements,
  storefrontTroubles,
  proxyRenewal,
  priceGrace,
  idempotencyKeys,
  leasesAfterACrash,
  sandboxStates,
  heldOrders,
  remadeWording,
  purgeIndexes,
  challengePages,
  balances,
  prices,
  sessions,
  lnurlCharges,
  providersOfASlot,
  soldRows,
  apiKeys,
  webhookEndpoints,
  merchantColour,
  smallIndexes,
  members,
  audit,
  firstKeys,
  refundsAskedAgain,
  proxyPrices,
  reservedOrders,
  traffic,
  passkeys,
  proxyTraffic,
  entriesTogether,
  entriesByColumn,
  unknownSize,
  salesByTime,
  sessionRetries,
  webhookPaces,
  choiceByKey,
  providerStreams,
  masterCheck,
  failedSignIns,
  jobs
]
