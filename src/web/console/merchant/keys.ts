import type { VNode } from 'preact'
import type { ApiKeyView } from '../../../accounts/merchants/key-operations.ts'
import { html } from '../../kit/document.ts'
import type { ConsolePage, RedirectTo, PageContent } from '../page.ts'
import { action, badge, choice, copyable, danger, field, table } from '../parts.ts'
import { forRole } from '../status.ts'
import { timeOf } from '../words.ts'

/** Overlap of a replaced key in seconds. */
const OVERLAPS = [
  ['0', 'stops at once'],
  ['3600', 'for an hour more'],
  ['86400', 'for a day more'],
  ['604800', 'for a week more']
] as const

export const keysPage: ConsolePage = {
  id: 'getConsoleKeys',
  console: 'merchant',
  path: 'keys',
  summary: 'The API keys: making, replacing and removing them, and fetching the first',
  async show(asked): Promise<PageContent> {
    const { api, form, problem } = asked
    const keys = await api.get<readonly ApiKeyView[]>('/api/merchant/keys')
    return {
      title: 'API keys',
      content: html`
        ${table(
          'API keys',
          [
            {
              title: 'Name',
              cell: (key: ApiKeyView) => html`<bdi>${key.name}</bdi><span class="soft"> bg_${key.keyId}_…</span>`
            },
            { title: 'May', cell: key => (key.isReadOnly ? badge('only read', 'quiet') : badge('do all', 'good')) },
            { title: 'Made', cell: key => timeOf(key.createdAt) },
            { title: 'Last used', cell: key => (key.lastUsedAt === null ? 'never' : timeOf(key.lastUsedAt)) },
            { title: 'Ends', cell: key => (key.endsAt === null ? 'does not' : timeOf(key.endsAt)) }
          ],
          keys,
          html`<p>None yet. A program shows a key with every request.</p>`
        )}
        ${forRole(
          asked,
          'owner',
          html`
            <section aria-labelledby="make"><h2 id="make">Make another key</h2>
              <p>One for each program, so that one can be replaced without the others.</p>
              <form method="post" class="form">
                <input type="hidden" name="do" value="make" />
                ${field({ name: 'name', label: 'Name of the program', value: form.get('name') ?? '', problem: problem?.fields['name'], attributes: { required: true, maxlength: 100 } })}
                ${choice(
                  'may',
                  'It may',
                  [
                    ['all', 'do all'],
                    ['read', 'only read']
                  ],
                  form.get('may') ?? 'all'
                )}
                <button class="button" type="submit">Make it</button>
              </form>
            </section>
            <section aria-labelledby="change"><h2 id="change">Replace or remove</h2>${keys.map(changeOf)}
              ${danger('You bought a plan and never saw a key', 'The first key of a new account can be fetched once. It takes the place of the one that was made with the account.', action('Fetch the first key', { do: 'first' }))}
            </section>`
        )}`
    }
  },
  async act({ api, form }): Promise<RedirectTo | PageContent> {
    const target = `/api/merchant/keys/${encodeURIComponent(form.get('keyId') ?? '')}`
    switch (form.get('do')) {
      case 'make':
        return shown(
          await api.send({
            method: 'POST',
            target: '/api/merchant/keys',
            body: { name: (form.get('name') ?? '').trim(), isReadOnly: form.get('may') === 'read' }
          })
        )
      case 'rotate':
        return shown(
          await api.send({
            method: 'POST',
            target: `${target}/rotate`,
            body: { overlapSeconds: Number(OVERLAPS.find(([seconds]) => seconds === form.get('overlap'))?.[0] ?? 0) }
          })
        )
      case 'remove':
        await api.send({ method: 'DELETE', target })
        return { to: 'keys', done: 'removed' }
      case 'first':
        return shown(await api.send({ method: 'POST', target: '/api/merchant/first-key' }))
      default:
        return { to: 'keys' }
    }
  }
}

function changeOf({ keyId, name, isFirst, endsAt }: ApiKeyView): VNode {
  const id = `overlap-${keyId}`
  return html`
    ${
      endsAt !== null
        ? null
        : html`<details class="danger-zone"><summary>Replace ${html`<bdi>${name}</bdi>`}</summary>
      <form method="post" class="filter">
        <input type="hidden" name="do" value="rotate" /><input type="hidden" name="keyId" value=${keyId} />
        <div class="input"><label for=${id}>The old key</label><select id=${id} name="overlap">${OVERLAPS.map(
          ([value, text]) => html`<option value=${value}>${text}</option>`
        )}</select></div>
        <button class="button small danger" type="submit">Replace<span class="unseen"> ${name}</span></button>
      </form></details>`
    }
    ${isFirst ? null : danger(`Remove ${name}`, 'Programs that use it are refused at once.', action('Remove it', { do: 'remove', keyId }, { isDanger: true, what: name }))}`
}

function shown({ apiKey }: { readonly apiKey: string }): PageContent {
  return {
    title: 'Your new API key',
    content: html`<p>It is shown this once. Put it where your program finds it, and not into its source.</p>${copyable('key', 'API key', apiKey)}<p><a class="button" href="keys">I have kept it</a></p>`
  }
}
