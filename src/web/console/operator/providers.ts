import { t } from '../../../engine/formats/language.ts'
import { html } from '../../kit/document.ts'
import type { ProviderState } from '../../admin/overview.ts'
import type { ConsolePage } from '../page.ts'
import { badge, table } from '../parts.ts'

export const operatorProviders: ConsolePage = {
  id: 'getOperatorProviders',
  console: 'operator',
  path: 'providers',
  summary: 'Provider status: call limits and hosts that do not respond',
  async show({ api, link }) {
    const providers = await api.get<readonly ProviderState[]>('/api/admin/providers')
    return {
      title: 'Providers',
      content: html`
        ${table(
          'Providers',
          [
            {
              title: 'Provider',
              cell: (one: ProviderState) => html`${one.kind}<span class="soft"> ${one.slot}</span>`
            },
            { title: 'Your own key', cell: one => (one.hasKey ? badge('set', 'good') : badge('none', 'quiet')) },
            { title: 'Call limits', cell: budgets },
            { title: 'Failing hosts', cell: hosts }
          ],
          providers,
          html`<p>No providers. Set <code>lightning</code> in gateway.yaml.</p>`
        )}
        <p>See also <a href=${link('health')}>Health</a>, <a href=${link('jobs')}>Jobs</a>.</p>`
    }
  }
}

function wait(seconds: number | null): string {
  return seconds === null ? '' : `, retry in ${seconds} s`
}

function budgets({ budgets: all }: ProviderState) {
  return all.length === 0
    ? badge('within limits', 'good')
    : html`<ul>${all.map(
        ({ limit, exhausted, retryAfter }) =>
          html`<li>${limit}: ${exhausted ? badge(`exhausted${wait(retryAfter)}`, 'bad') : badge('available', 'good')}</li>`
      )}</ul>`
}

function hosts({ hosts: all }: ProviderState) {
  return all.length === 0
    ? badge('none', 'good')
    : html`<ul>${all.map(
        ({ host, failures, isLeftAlone, retryAfter }) =>
          html`<li><bdi>${host ?? t('configured host')}</bdi>: ${badge(`${failures} failures${isLeftAlone ? `, paused${wait(retryAfter)}` : ''}`, isLeftAlone ? 'bad' : 'wait')}</li>`
      )}</ul>`
}
