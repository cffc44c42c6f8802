import { html } from '../../pages/document.ts'
import type { SubscriptionView } from '../../merchants/account.ts'
import type { ConsolePage } from '../page.ts'
import { facts } from '../parts.ts'
import { timeOf } from '../words.ts'

/** The plan of an account and how its subscription stands. */
export const planPage: ConsolePage = {
  id: 'getConsolePlan',
  console: 'merchant',
  path: 'plan',
  summary: 'The plan, and how its subscription stands',
  async show({ api }) {
    const plan = await api.get<SubscriptionView & Readonly<Record<string, unknown>>>('/api/merchant/subscription')
    const end = plan['currentPeriodEnd']
    const status = plan['subscriptionStatus'] ?? plan['status']
    return {
      title: 'Plan',
      content: html`
        ${facts([
          ['Plan', plan.planName],
          ['Status', typeof status === 'string' ? status : 'no subscription'],
          ['Paid until', timeOf(typeof end === 'string' ? end : null)]
        ])}`
    }
  }
}
