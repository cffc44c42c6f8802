import { t } from '../../../engine/formats/language.ts'
import type { ConfigurationView } from '../../admin/live.ts'
import { html } from '../../kit/document.ts'
import type { ConsolePage } from '../page.ts'
import { badge, facts, table } from '../parts.ts'
import { timeOf } from '../words.ts'

export const operatorConfiguration: ConsolePage = {
  id: 'getOperatorConfiguration',
  path: 'configuration',
  summary: 'The active configuration without secrets, its last reload, and changes that need a restart',
  async show({ api }) {
    const found = await api.get<ConfigurationView>('/api/admin/configuration')
    const { file, generation, reload, waitsForRestart, warnings, yaml } = found
    return {
      title: 'Configuration',
      content: html`
        ${facts([
          ['File', html`<code>${file}</code>`],
          ['In effect', t`generation ${generation}`]
        ])}
        ${
          waitsForRestart.length === 0
            ? null
            : html`<p class="notice wait">Restart required: ${waitsForRestart.map((part, at) => html`${at === 0 ? '' : ', '}<code>${part}</code>`)}. The file has changed; the gateway uses the previous values until it restarts.</p>`
        }
        ${warnings.length === 0 ? null : html`<section class="notice wait" aria-labelledby="warnings"><h2 id="warnings">Warnings</h2><ul>${warnings.map(words => html`<li>${words}</li>`)}</ul></section>`}
        <section aria-labelledby="reload"><h2 id="reload">Last reload</h2>
          ${reload === null ? html`<p>None since the start. The file is reloaded when it is saved and on SIGHUP.</p>` : reloadOf(reload)}
        </section>
        <section aria-labelledby="file"><h2 id="file">Active configuration</h2>
          <p>Includes all defaults; secrets are replaced with <code>(hidden)</code>. Run <code>boltgate routes --as-yaml</code> for the chains and routes of presets.</p>
          <div class="scroll" tabindex="0" role="region" aria-label="As YAML"><pre><code>${yaml}</code></pre></div>
        </section>`
    }
  }
}

function reloadOf({ at, changes, isUsed, problem }: NonNullable<ConfigurationView['reload']>) {
  return html`
    <p>${timeOf(at)} ${isUsed ? badge('in effect', 'good') : badge('rejected: invalid', 'bad')}</p>
    ${problem === null ? null : html`<div class="scroll" tabindex="0" role="region" aria-label="Errors"><pre>${problem}</pre></div>`}
    ${
      isUsed
        ? table(
            'Changes',
            [
              ['Setting', change => html`<code>${change.path}</code>`],
              ['Before', ({ before }) => before ?? '–'],
              ['Now', ({ after }) => after ?? '–']
            ],
            changes,
            html`<p>No effective changes.</p>`
          )
        : null
    }`
}
