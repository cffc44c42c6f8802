import { html } from '../../pages/document.ts'
import type { AccountView, KeyInfoView } from '../../merchants/account.ts'
import type { ConsolePage, GoTo, PageContent } from '../page.ts'
import { action, choice, copyable, danger, facts, field } from '../parts.ts'

const SLOTS = ['primary', 'alternate'] as const

/** The keys of an account and of its providers. */
export const settingsPage: ConsolePage = {
  id: 'getConsoleSettings',
  console: 'merchant',
  path: 'settings',
  summary: 'The API key, and the keys of providers with their test',
  async show(asked): Promise<PageContent> {
    const { api, problem, form } = asked
    const [account, key] = await Promise.all([
      api.get<AccountView>('/api/merchant/me'),
      api.get<KeyInfoView>('/api/merchant/api-key-info')
    ])
    return {
      title: 'Settings',
      content: html`
        <section aria-labelledby="account"><h2 id="account">Account</h2>
          ${facts([
            ['Name', html`<bdi>${account.name}</bdi>`],
            ['Email', account.email],
            ['API key', html`<code>${key.keyHint}</code>`]
          ])}
          ${danger('Replace the API key', 'The old key stops working at once. The new one is shown once.', action('Replace it', { do: 'key' }, { isDanger: true }))}
        </section>
        <section aria-labelledby="provider"><h2 id="provider">Who makes your invoices</h2>
          <p>The gateway holds no money: invoices are made with your own key, and what is paid goes to your own account or node.</p>
          <form method="post" class="form">
            <input type="hidden" name="do" value="provider" />
            ${choice(
              'slot',
              'Provider',
              SLOTS.map(name => [name, name] as const),
              form.get('slot') ?? 'primary'
            )}
            ${field({ name: 'key', label: 'Its key', problem: problem?.fields['primaryApiKey'] ?? problem?.fields['alternateApiKey'], hint: 'Stored encrypted, and never shown again.', attributes: { type: 'password', autocomplete: 'off', required: true, maxlength: 8192 } })}
            <button class="button" type="submit">Save and test</button>
          </form>
        </section>`
    }
  },
  async act({ api, form }): Promise<GoTo | PageContent> {
    if (form.get('do') === 'key') {
      const { apiKey } = await api.send<{ readonly apiKey: string }>({
        method: 'POST',
        target: '/api/merchant/regenerate-key'
      })
      return {
        title: 'Your new API key',
        content: html`<p>It is shown this once. The old one does not work any more.</p>${copyable('key', 'API key', apiKey)}<p><a class="button" href="settings">I have kept it</a></p>`
      }
    }
    const slot = SLOTS.find(name => name === form.get('slot')) ?? 'primary'
    await api.send({
      method: 'PUT',
      target: `/api/merchant/${slot}-key`,
      body: { [`${slot}ApiKey`]: (form.get('key') ?? '').trim() }
    })
    const tried = await api.send<{ readonly valid?: boolean; readonly isValid?: boolean; readonly message?: string }>({
      method: 'POST',
      target: `/api/merchant/validate-${slot}`
    })
    return {
      title: 'The key was saved',
      content: html`<p class="notice">${tried.message ?? 'It was tried.'}</p><p><a class="button" href="settings">Go on</a></p>`
    }
  }
}
