import type { Jobs } from '../../platform/jobs/jobs.ts'
import { apiPage, apisPage } from './merchant/apis.ts'
import { merchantChanges, operatorChanges } from './changes.ts'
import { customersPage, paymentPage, paymentsPage } from './merchant/payments.ts'
import { keysPage } from './merchant/keys.ts'
import { membersPage } from './merchant/members.ts'
import { overviewPage } from './merchant/overview.ts'
import { planPage } from './merchant/plan.ts'
import { merchantSales } from './sales.ts'
import { requestsPage } from './merchant/traffic.ts'
import { refundsPage } from './merchant/refunds.ts'
import { searchPage } from './merchant/search.ts'
import { settingsPage } from './merchant/settings.ts'
import { storePage } from './merchant/store.ts'
import { tillPage } from './merchant/till.ts'
import { tokenPage, tokensPage } from './merchant/tokens.ts'
import { webhookPage, webhooksPage, deliveryPage } from './merchant/webhooks.ts'
import { operatorConfiguration } from './operator/configuration.ts'
import { operatorHealth, operatorProviders } from './operator/providers.ts'
import { dashboardOperations } from './operator/jobs-dashboard.ts'
import { operatorJobs } from './operator/jobs.ts'
import { operatorOrders } from './operator/orders.ts'
import { OPERATOR_PAGES } from './operator/pages.ts'
import { operatorRoutes } from './operator/routes.ts'
import { operatorSession, operatorSessions } from './operator/sessions.ts'
import { Consoles, type ConsoleDependencies } from './operations.ts'
import type { ConsolePage } from './page.ts'
import { sessionsPage, passkeysPage } from './sessions.ts'

const MERCHANT_PAGES: readonly ConsolePage[] = [
  overviewPage,
  paymentsPage,
  searchPage,
  paymentPage,
  tillPage,
  customersPage,
  refundsPage,
  merchantSales,
  apisPage,
  apiPage,
  requestsPage,
  webhooksPage,
  deliveryPage,
  webhookPage,
  storePage,
  planPage,
  settingsPage,
  keysPage,
  tokensPage,
  tokenPage,
  membersPage,
  sessionsPage('merchant'),
  passkeysPage('merchant'),
  merchantChanges
]

const ALL_OPERATOR_PAGES: readonly ConsolePage[] = [
  ...OPERATOR_PAGES,
  operatorOrders,
  operatorProviders,
  operatorRoutes,
  operatorSessions,
  operatorSession,
  operatorJobs,
  operatorHealth,
  operatorConfiguration,
  sessionsPage('operator'),
  passkeysPage('operator'),
  operatorChanges
]

export function openConsole({
  jobs,
  ...dependencies
}: ConsoleDependencies & { readonly jobs: Pick<Jobs, 'queues' | 'list' | 'retry'> }) {
  const consoles = new Consoles(dependencies)
  return {
    operations: [
      ...MERCHANT_PAGES.flatMap(page => consoles.operationsOf('merchant', page)),
      ...ALL_OPERATOR_PAGES.flatMap(page => consoles.operationsOf('operator', page)),
      ...consoles.viewAs(MERCHANT_PAGES),
      ...dashboardOperations(jobs)
    ]
  }
}
