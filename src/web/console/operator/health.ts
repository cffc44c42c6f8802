import type { AdminHealth } from '../../admin/health.ts'
import { html } from '../../kit/document.ts'
import type { ConsolePage } from '../page.ts'
import { badge, type Tone } from '../parts.ts'
import { timeOf } from '../words.ts'

const NAMES: Readonly<Record<AdminHealth['checks'][number]['name'], string>> = {
  database: 'Database',
  state: 'Counters and idempotency',
  providers: 'Payment providers',
  makers: 'Your invoices',
  jobs: 'Background jobs',
  disk: 'Disk',
  clock: 'Clock',
  processes: 'Processes'
}

const STATES: Readonly<Record<AdminHealth['checks'][number]['state'], readonly [words: string, tone: Tone]>> = {
  good: ['good', 'good'],
  warning: ['warning', 'wait'],
  bad: ['failing', 'bad']
}

export const operatorHealth: ConsolePage = {
  id: 'getOperatorHealth',
  console: 'operator',
  path: 'health',
  summary: 'Health checks of the gateway and what it depends on, with fixes',
  async show({ api, link }) {
    const { at, checks, ready } = await api.get<AdminHealth>('/api/admin/health')
    return {
      title: 'Health',
      content: html`
        <p class=${`notice ${ready ? 'good' : 'bad'}`}>${ready ? 'Accepting traffic.' : 'Not accepting traffic: /ready tells load balancers to skip this process.'}</p>
        <dl class="facts">${checks.map(({ name, says, state, wayOut }) => {
          const [words, tone] = STATES[state]
          return html`<div><dt>${NAMES[name]}</dt><dd>${badge(words, tone)} ${says}${wayOut === null ? null : html` <strong>${wayOut}</strong>`}</dd></div>`
        })}</dl>
        <p class="soft">Seen by the process that served this page, ${timeOf(at)}. See also <a href=${link('jobs')}>Jobs</a>, <a href=${link('providers')}>Providers</a>.</p>`
    }
  }
}
