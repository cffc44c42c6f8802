import type { AdminHealth } from '../../admin/health.ts'
import { html } from '../../kit/document.ts'
import type { ConsolePage } from '../page.ts'
import { badge, type Tone } from '../parts.ts'
import { timeOf } from '../words.ts'

const NAMES: Readonly<Record<AdminHealth['checks'][number]['name'], string>> = {
  database: 'Database',
  state: 'Counters and replays',
  providers: 'Payment providers',
  makers: 'Your invoices',
  jobs: 'Background jobs',
  disk: 'Disk',
  clock: 'Clock',
  processes: 'Processes'
}

const STATES: Readonly<Record<AdminHealth['checks'][number]['state'], readonly [words: string, tone: Tone]>> = {
  good: ['good', 'good'],
  warning: ['look at it', 'wait'],
  bad: ['does not work', 'bad']
}

export const operatorHealth: ConsolePage = {
  id: 'getOperatorHealth',
  console: 'operator',
  path: 'health',
  summary: 'How everything stands that the gateway needs, and the way out where something does not work',
  async show({ api, link }) {
    const { at, checks, ready } = await api.get<AdminHealth>('/api/admin/health')
    return {
      title: 'Health',
      content: html`
        <p class=${`notice ${ready ? 'good' : 'bad'}`}>${ready ? 'The gateway takes traffic.' : 'The gateway takes no traffic: load balancers are told by /ready.'}</p>
        <dl class="facts">${checks.map(({ name, says, state, wayOut }) => {
          const [words, tone] = STATES[state]
          return html`<div><dt>${NAMES[name]}</dt><dd>${badge(words, tone)} ${says}${wayOut === null ? null : html` <strong>${wayOut}</strong>`}</dd></div>`
        })}</dl>
        <p class="soft">As the process sees it that answered this, ${timeOf(at)}. More: <a href=${link('jobs')}>Jobs</a>, <a href=${link('providers')}>Providers</a>.</p>`
    }
  }
}
