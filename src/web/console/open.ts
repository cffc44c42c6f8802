import { t } from '../../engine/formats/language.ts'
import type { MerchantPrincipal } from '../../accounts/merchants/principal.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Context, Principal } from '../../engine/message/context.ts'
import type { Trail } from '../../engine/operations/trail.ts'
import type { Quotes } from '../../lightning/money/prices.ts'
import type { Jobs } from '../../platform/jobs/jobs.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { readersWorth } from '../kit/reader-money.ts'
import type { AskApi } from './api.ts'
import { assetNames } from '../kit/assets.ts'
import { formToken } from '../sign-in/cookie.ts'
import type { Sessions } from '../sign-in/sessions.ts'
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
import { consoleOperations, viewAsOperations } from './operations.ts'
import type { ConsolePage } from './page.ts'
import { sessionsPage, passkeysPage } from './sessions.ts'

const PAGES: readonly ConsolePage[] = [
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
  merchantChanges,
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

export interface OpenConsoleDependencies {
  /** Calls the gateway's API in-process. */
  readonly ask: AskApi
  readonly clock: Clock
  readonly jobs: Pick<Jobs, 'queues' | 'list' | 'retry'>
  readonly prices: Pick<Quotes, 'quote'>
  readonly merchants: Pick<Merchants, 'byId'>
  readonly sessions: Pick<Sessions, 'impersonationCookie' | 'tokenOf'>
  readonly trail: Trail
  publicUrl(): string
}

/** Opens the consoles of merchants and the operator. All their data is from the API. */
export function openConsole(dependencies: OpenConsoleDependencies) {
  const signedIn = (ctx: Context) => {
    const token = dependencies.sessions.tokenOf(ctx)
    return {
      who: whoIs(ctx),
      form: token === null ? null : formToken(token),
      cookie: dependencies.sessions.impersonationCookie(ctx)
    }
  }
  const viewer = async (id: string, by: Principal | null): Promise<MerchantPrincipal | null> => {
    if (by?.kind !== 'admin' || !/^[1-9]\d{0,8}$/.test(id)) return null
    const merchant = await dependencies.merchants.byId(Number(id))
    return merchant === null
      ? null
      : { kind: 'merchant', id, merchant, role: 'viewer', by: { kind: 'member', email: by.id } }
  }
  const { consoleStyle: style, consoleScript: script } = assetNames()
  const known = {
    ask: dependencies.ask,
    worth: (satoshis: number, languages: string) => readersWorth(dependencies, satoshis, languages),
    publicUrl: () => dependencies.publicUrl(),
    signedIn,
    viewer,
    trail: dependencies.trail,
    assets: { style, script }
  }
  return {
    operations: [
      ...consoleOperations(known, PAGES),
      ...viewAsOperations(known, PAGES),
      ...dashboardOperations(dependencies.jobs)
    ],
    jobs: [],
    close: () => {}
  }
}

/** The account with its acting person; or the operator. */
function whoIs({ principal }: Context): string {
  if (principal?.kind === 'admin') return principal.id === 'admin' ? t('Operator') : principal.id
  if (principal?.kind !== 'merchant') return ''
  const { merchant, by, role } = principal
  return by.kind === 'member' ? `${merchant.name} · ${by.email} (${role})` : merchant.name
}
