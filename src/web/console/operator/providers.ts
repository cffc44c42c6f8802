import { html } from '../../kit/document.ts'
import type { ProviderState } from '../../admin/overview.ts'
import type { ConsolePage } from '../page.ts'
import { badge, table } from '../parts.ts'

export const operatorProviders: ConsolePage = {
  id: 'getOperatorProviders',
  console: 'operator',
  path: 'providers',
  summary: 'How the providers stand: calls that are left, and hosts that do not answer',
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
            { title: 'Your own key', cell: one => (one.hasKey ? badge('there', 'good') : badge('none', 'quiet')) },
            { title: 'Calls that are left', cell: budgets },
            { title: 'Hosts that do not answer', cell: hosts }
          ],
          providers,
          html`<p>None. <code>lightning</code> of the file says who makes invoices.</p>`
        )}
        <p>How all else stands: <a href=${link('health')}>Health</a>. What runs behind it: <a href=${link('jobs')}>Jobs</a>.</p>`
    }
  }
}

function wait(seconds: number | null): string {
  return seconds === null ? '' : `, again in ${seconds} s`
}

function budgets({ budgets: all }: ProviderState) {
  return all.length === 0
    ? badge('no limit is near', 'good')
    : html`<ul>${all.map(
        ({ limit, exhausted, retryAfter }) =>
          html`<li>${limit}: ${exhausted ? badge(`used up${wait(retryAfter)}`, 'bad') : badge('some are left', 'good')}</li>`
      )}</ul>`
}

function hosts({ hosts: all }: ProviderState) {
  return all.length === 0
    ? badge('none', 'good')
    : html`<ul>${all.map(
        ({ host, failures, isLeftAlone, retryAfter }) =>
          html`<li><bdi>${host ?? 'as the file names it'}</bdi>: ${badge(`${failures} failures${isLeftAlone ? `, left alone${wait(retryAfter)}` : ''}`, isLeftAlone ? 'bad' : 'wait')}</li>`
      )}</ul>`
}
