import type { ConfigurationChange } from '../../../engine/config/effective.ts'
import type { ConfigurationView } from '../../admin/live.ts'
import { html } from '../../kit/document.ts'
import type { ConsolePage } from '../page.ts'
import { badge, facts, table } from '../parts.ts'
import { timeOf } from '../words.ts'

/** Current file, last reload and pending restart. */
export const operatorConfiguration: ConsolePage = {
  id: 'getOperatorConfiguration',
  console: 'operator',
  path: 'configuration',
  summary: 'The file in effect without its secrets, what its last change did, and what waits for a restart',
  async show({ api }) {
    const found = await api.get<ConfigurationView>('/api/admin/configuration')
    const { file, generation, reload, waitsForRestart, warnings, yaml } = found
    return {
      title: 'Configuration',
      content: html`
        ${facts([
          ['File', html`<code>${file}</code>`],
          ['In effect', `generation ${generation}`]
        ])}
        ${
          waitsForRestart.length === 0
            ? null
            : html`<p class="notice wait">Waits for a restart: ${waitsForRestart.map((part, at) => html`${at === 0 ? '' : ', '}<code>${part}</code>`)}. It has changed in the file, and the gateway goes on with what it began with.</p>`
        }
        ${warnings.length === 0 ? null : html`<section class="notice wait" aria-labelledby="warnings"><h2 id="warnings">Probably not meant</h2><ul>${warnings.map(words => html`<li>${words}</li>`)}</ul></section>`}
        <section aria-labelledby="reload"><h2 id="reload">The last change</h2>
          ${reload === null ? html`<p>None since the start. A saved file is read again at once, and so it is on SIGHUP.</p>` : reloadOf(reload)}
        </section>
        <section aria-labelledby="file"><h2 id="file">The file in effect</h2>
          <p>With every default spelled out; <code>(hidden)</code> stands in the place of secrets. The chains and routes of presets are at <code>boltgate routes --as-yaml</code>.</p>
          <div class="scroll" tabindex="0" role="region" aria-label="As YAML"><pre><code>${yaml}</code></pre></div>
        </section>`
    }
  }
}

function reloadOf({ at, changes, isUsed, problem }: NonNullable<ConfigurationView['reload']>) {
  return html`
    <p>${timeOf(at)} ${isUsed ? badge('in effect', 'good') : badge('not used: it has a mistake', 'bad')}</p>
    ${problem === null ? null : html`<div class="scroll" tabindex="0" role="region" aria-label="What is wrong with it"><pre>${problem}</pre></div>`}
    ${
      isUsed
        ? table(
            'What changed',
            [
              { title: 'Setting', cell: (change: ConfigurationChange) => html`<code>${change.path}</code>` },
              { title: 'Before', cell: ({ before }) => before ?? '–' },
              { title: 'Now', cell: ({ after }) => after ?? '–' }
            ],
            changes,
            html`<p>Nothing that counts: only how the file is written.</p>`
          )
        : null
    }`
}
