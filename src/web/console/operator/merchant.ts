import type { AuditPage } from '../../../accounts/audit/operations.ts'
import type { MerchantDetail, RegeneratedKey } from '../../admin/schema.ts'
import { html } from '../../kit/document.ts'
import { expectUnchanged, queryOf, type PageApi } from '../api.ts'
import { earningsSection } from '../earnings.ts'
import type { ConsolePage, GoTo, PageContent } from '../page.ts'
import { action, badge, choice, copyable, danger, facts, field } from '../parts.ts'
import { timeOf } from '../words.ts'

/** Subscription states of the API; none selected without a subscription. */
const STATUSES = [
  ['', '–'],
  ...['active', 'trialing', 'past_due', 'canceled', 'unpaid', 'incomplete', 'incomplete_expired'].map(
    name => [name, name] as const
  )
] as const

/** For the optimistic lock of the subscription. */
function subscriptionOf({ subscriptionStatus, currentPeriodEnd }: MerchantDetail): string {
  return `${subscriptionStatus ?? 'none'}, until ${currentPeriodEnd ?? 'no end'}`
}

export const merchantPage: ConsolePage = {
  id: 'getOperatorMerchant',
  console: 'operator',
  path: 'merchants/:merchantId',
  summary: 'One account, and the operator actions on it',
  async show(asked) {
    const { api, form, params, problem } = asked
    const found = await api.get<MerchantDetail>(
      `/api/admin/merchants/${encodeURIComponent(params['merchantId'] ?? '')}`
    )
    const earned = await earningsSection(asked, '/api/admin/earnings', ['source', 'proxy', 'endpoint', 'scheme'], {
      merchantId: found.merchantId
    })
    const replaced = await lastReplaced(api, found.merchantId)
    return {
      title: found.name,
      content: html`
        ${facts([
          ['Email', found.email],
          ['Plan', found.planTier],
          ['State', found.isActive ? badge('active', 'good') : badge('deactivated', 'bad')],
          ['Subscription', found.subscriptionStatus ?? 'none'],
          ['Paid until', timeOf(found.currentPeriodEnd)],
          [
            'Keys of providers',
            [found.hasPrimaryKey ? 'primary' : null, found.hasAlternateKey ? 'alternate' : null]
              .filter(slot => slot !== null)
              .join(', ') || 'none'
          ],
          ['Webhooks', found.hasWebhookUrl ? 'set' : 'not set']
        ])}
        ${earned}
        <section aria-labelledby="can"><h2 id="can">Actions</h2>
          <form method="post" class="filter">
            <input type="hidden" name="do" value="plan" /><input type="hidden" name="was" value=${found.planTier} />
            ${choice(
              'planTier',
              'Plan',
              [
                ['free', 'free'],
                ['individual', 'individual'],
                ['l402', 'l402']
              ],
              found.planTier
            )}
            <button class="button small" type="submit">Set</button>
          </form>
          <form method="post" class="filter">
            <input type="hidden" name="do" value="subscription" /><input type="hidden" name="was" value=${subscriptionOf(found)} />
            ${choice('subscriptionStatus', 'Subscription', STATUSES, found.subscriptionStatus ?? '')}
            ${field({
              name: 'currentPeriodEnd',
              label: 'Paid until, such as 2026-12-31T23:59:59Z',
              value: form.get('currentPeriodEnd') ?? found.currentPeriodEnd ?? '',
              hint: 'Leave empty for no end. Both apply until the next billing update.',
              problem: problem?.fields['currentPeriodEnd'],
              attributes: { maxlength: 40, autocomplete: 'off', spellcheck: 'false' }
            })}
            <button class="button small" type="submit">Set</button>
          </form>
          ${found.isActive ? danger('Deactivate', 'Its keys and its APIs stop working until it is activated again.', action('Deactivate', { do: 'deactivate', was: 'active' }, { isDanger: true })) : action('Activate again', { do: 'reactivate', was: 'deactivated' })}
          ${danger('Replace API key', 'The old key stops working immediately. The new key is shown once.', action('Replace key', { do: 'key', was: replaced }, { isDanger: true }))}
          ${danger('Revoke all sales', 'Buyers can no longer use what they paid for and must pay again.', action('Revoke all', { do: 'revoke' }, { isDanger: true }))}
        </section>`
    }
  },
  async act({ api, form, params }): Promise<GoTo | PageContent> {
    const id = params['merchantId'] ?? ''
    const target = `/api/admin/merchants/${encodeURIComponent(id)}`
    const back: GoTo = { to: `merchants/${id}`, done: 'saved' }
    switch (form.get('do')) {
      case 'plan':
        expectUnchanged(form, (await api.get<MerchantDetail>(target)).planTier)
        await api.send({ method: 'PUT', target, body: { planTier: form.get('planTier') ?? '' } })
        return back
      case 'subscription': {
        expectUnchanged(form, subscriptionOf(await api.get<MerchantDetail>(target)))
        const [subscriptionStatus = '', end = ''] = ['subscriptionStatus', 'currentPeriodEnd'].map(name =>
          (form.get(name) ?? '').trim()
        )
        const body = {
          ...(subscriptionStatus === '' ? {} : { subscriptionStatus }),
          currentPeriodEnd: end === '' ? null : end
        }
        await api.send({ method: 'PUT', target, body })
        return back
      }
      case 'deactivate':
      case 'reactivate':
        expectUnchanged(form, (await api.get<MerchantDetail>(target)).isActive ? 'active' : 'deactivated')
        await api.send({ method: 'POST', target: `${target}/${form.get('do')}` })
        return back
      case 'revoke':
        await api.send({ method: 'DELETE', target: `${target}/tokens` })
        return { ...back, done: 'revoked' }
      case 'key':
        expectUnchanged(form, await lastReplaced(api, id), 'another key')
        return keyPage(
          (await api.send<RegeneratedKey>({ method: 'POST', target: `${target}/regenerate-key` })).apiKey,
          id
        )
      default:
        return back
    }
  }
}

/** Last key replacement in the audit log, for the optimistic lock; `none` without one. */
async function lastReplaced(api: PageApi, merchantId: number | string): Promise<string> {
  const { entries } = await api.get<AuditPage>(
    `/api/admin/audit${queryOf({ merchantId, text: 'regenerateKey', limit: 1 })}`
  )
  return entries[0]?.id ?? 'none'
}

/** Page that shows a key once. `to`: next page. */
export function keyPage(apiKey: string, to: string): PageContent {
  return {
    title: 'The API key',
    content: html`<p>This key is shown once. Send it to the merchant securely.</p>${copyable('key', 'API key', apiKey)}<p><a class="button" href=${to}>I have kept it</a></p>`
  }
}
