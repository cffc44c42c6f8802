import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { ApiKeyView } from '../../../accounts/merchants/key-operations.ts'
import { html } from '../../kit/document.ts'
import type { ConsolePage, PageContent } from '../page.ts'
import { action, badge, copyable, danger, fieldsOf, table, input } from '../parts.ts'
import { forRole, timeOf } from '../words.ts'

/** Overlap of a replaced key in seconds. */
const OVERLAPS = [
  ['0', t('expires immediately')],
  ['3600', t('expires in 1 hour')],
  ['86400', t('expires in 1 day')],
  ['604800', t('expires in 1 week')]
] as const

export const keysPage: ConsolePage = {
  id: 'getConsoleKeys',
  path: 'keys',
  summary: 'The API keys: making, replacing and removing them, and fetching the first',
  async show(request) {
    const { api, form } = request
    const field = fieldsOf(request, 'make')
    const keys = await api.get<readonly ApiKeyView[]>('/api/merchant/keys')
    return {
      title: 'API keys',
      content: html`
        ${table(
          'API keys',
          [
            ['Name', key => html`<bdi>${key.name}</bdi><span class="soft"> bg_${key.keyId}_…</span>`],
            ['Access', key => (key.isReadOnly ? badge('read-only', 'quiet') : badge('full', 'good'))],
            ['Created', key => timeOf(key.createdAt)],
            ['Last used', key => (key.lastUsedAt === null ? t('never') : timeOf(key.lastUsedAt))],
            ['Expires', key => (key.endsAt === null ? t('never') : timeOf(key.endsAt))]
          ],
          keys,
          html`<p>No keys yet. Programs send a key with each request.</p>`
        )}
        ${forRole(
          request,
          'owner',
          html`
            <section aria-labelledby="make"><h2 id="make">Create key</h2>
              <p>Use one key per program, so that you can replace each on its own.</p>
              <form method="post" class="form">
                <input type="hidden" name="do" value="make" />
                ${field('name', 'Program name', { required: true, maxlength: 100 })}
                ${input('may', 'Access', {
                  options: [
                    ['all', 'full'],
                    ['read', 'read-only']
                  ],
                  value: form.get('may')
                })}
                <button class="button" type="submit">Create key</button>
              </form>
            </section>
            <section aria-labelledby="change"><h2 id="change">Replace or remove</h2>${keys.map(changeOf)}
              ${danger('Get your first API key', 'You can fetch the first key of a new account once. It replaces the key created with the account.', action('Get key', { do: 'first' }))}
            </section>`
        )}`
    }
  },
  async act({ api, form }) {
    const target = `/api/merchant/keys/${encodeURIComponent(form.text('keyId'))}`
    switch (form.get('do')) {
      case 'make':
        return shown(
          await api.post('/api/merchant/keys', { name: form.text('name'), isReadOnly: form.get('may') === 'read' })
        )
      case 'rotate':
        return shown(await api.post(`${target}/rotate`, { overlapSeconds: form.number('overlap') }))
      case 'remove':
        await api.delete(target)
        return { to: 'keys', done: 'removed' }
      case 'first':
        return shown(await api.post('/api/merchant/first-key'))
      default:
        return { to: 'keys' }
    }
  }
}

function changeOf({ keyId, name, isFirst, endsAt }: ApiKeyView): VNode {
  return html`
    ${
      endsAt !== null
        ? null
        : html`<details class="danger-zone"><summary>Replace <bdi>${name}</bdi></summary>
      <form method="post" class="filter">
        <input type="hidden" name="do" value="rotate" /><input type="hidden" name="keyId" value=${keyId} />
        ${input('overlap', 'Old key', { options: OVERLAPS, id: `overlap-${keyId}` })}
        <button class="button small danger" type="submit">Replace<span class="unseen"> ${name}</span></button>
      </form></details>`
    }
    ${isFirst ? null : danger(t`Remove ${name}`, 'Programs that use it stop working immediately.', action('Remove', { do: 'remove', keyId }, { isDanger: true, what: name }))}`
}

function shown({ apiKey }: { readonly apiKey: string }): PageContent {
  return {
    title: 'Your new API key',
    content: html`<p>This key is shown once. Store it in your program's configuration, not in its source code.</p>${copyable('key', 'API key', apiKey)}<p><a class="button" href="keys">I have saved it</a></p>`
  }
}
