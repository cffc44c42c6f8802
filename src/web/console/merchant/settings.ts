import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { KeyVerdictView } from '../../../accounts/merchants/provider-operations.ts'
import type { SettingsView } from '../../../accounts/merchants/settings-operation.ts'
import type { AccountView } from '../../../accounts/merchants/account.ts'
import { isTest, type Role } from '../../../engine/operations/operation.ts'
import { html } from '../../kit/document.ts'
import { NOTICES, type NoticeSettings } from '../../mail/notices.ts'
import { expectUnchanged, type AsRead } from '../api.ts'
import type { PageRequest, ConsolePage, PageContent } from '../page.ts'
import { action, badge, danger, facts, fieldsOf, table, ticks, type InputOptions, input } from '../parts.ts'
import { forRole, timeOf } from '../words.ts'

const SLOTS = ['primary', 'alternate'] as const

const REASONS: Readonly<Record<string, string>> = {
  choice: 'you chose it, or saved its key first',
  'only-key': 'it is the only one with a key',
  default: 'it is the default'
}

export const settingsPage: ConsolePage = {
  id: 'getConsoleSettings',
  path: 'settings',
  summary: 'The providers with their keys and what each needs, and the colour of the pages',
  async show(request) {
    const { api, link } = request
    const [account, settings, notices] = await Promise.all([
      api.get<AccountView>('/api/merchant/me'),
      api.get<SettingsView>('/api/merchant/settings'),
      api.get<NoticeSettings>('/api/merchant/notices')
    ])
    return {
      title: 'Settings',
      content: html`
        <section aria-labelledby="account"><h2 id="account">Account</h2>
          ${facts([
            ...(isTest(account.merchantId) ? [] : ([['Email', account.email]] as const)),
            ['API keys', html`<a href=${link('keys')}>Manage API keys</a>`],
            ['Sign-in', html`<a href=${link('settings/passkeys')}>Manage passkeys</a>`]
          ])}
        </section>
        ${providersSection(request, settings)}
        ${TEXTS.filter(({ does }) => does !== 'email' || !isTest(account.merchantId)).map(one => textSection(request, one, one.now(account, settings)))}
        ${noticesSection(request, notices)}`
    }
  },
  async act({ api, form }) {
    const slot = SLOTS.find(name => name === form.get('slot')) ?? 'primary'
    switch (form.get('do')) {
      case 'provider':
        return await saveKey({ api, form }, slot)
      case 'test':
        return verdict(t('Key tested'), await api.post<KeyVerdictView>(`/api/merchant/validate-${slot}`))
      case 'remove':
        await expectSameKeys({ api, form })
        await api.delete(`/api/merchant/${slot}-key`)
        return { to: 'settings', done: 'removed' }
      case 'choose': {
        const { paymentProvider } = await api.get<SettingsView>('/api/merchant/settings')
        expectUnchanged(form, paymentProvider.slot)
        await api.put('/api/merchant/payment-provider', { provider: slot })
        return { to: 'settings', done: 'saved' }
      }
      case 'notices':
        await api.put('/api/merchant/notices', {
          off: Object.keys(NOTICES).filter(name => !form.getAll('notices').includes(name))
        })
        return { to: 'settings', done: 'saved' }
    }
    const setting = TEXTS.find(({ does }) => does === form.get('do'))
    if (setting === undefined) return { to: 'settings' }
    const { does, now, save } = setting
    const account = await api.get<AccountView>('/api/merchant/me')
    expectUnchanged(form, now(account, await api.get<SettingsView>('/api/merchant/settings')) ?? '')
    const [path, body] = save(form.text(does))
    await api.put(`/api/merchant/${path}`, body)
    return { to: 'settings', done: 'saved' }
  }
}

function providersSection(request: PageRequest, { paymentProvider, providers }: SettingsView): VNode {
  const { form, problem } = request
  return html`
    <section aria-labelledby="provider"><h2 id="provider">Payment provider</h2>
      <p>The gateway holds no funds. Invoices are created with your own key, and payments go directly to your account or node.</p>
      ${failingProvider(request, paymentProvider)}
      <p class=${`notice ${paymentProvider.isReady ? 'good' : 'wait'}`}>
        Active provider: ${paymentProvider.slot}, because ${t(REASONS[paymentProvider.chosenBy] ?? paymentProvider.chosenBy)}.${paymentProvider.isReady ? '' : ` ${t('No key is saved yet, so you cannot receive payments. Save one below.')}`}
      </p>
      ${table(
        'Providers',
        [
          ['Provider', one => html`${one.kind}<span class="soft"> ${one.slot}</span>`],
          ['Key', one => (one.hasKey ? badge('saved', 'good') : badge('none', 'quiet'))],
          ['Key format', one => t(one.keyHint)],
          ['Required scopes', scopes]
        ],
        providers,
        html`<p>The operator has not set up a provider yet.</p>`
      )}
      ${forRole(
        request,
        'owner',
        html`
          <form method="post" class="form">
            <input type="hidden" name="do" value="provider" />
            <input type="hidden" name="was" value=${keysMark(providers)} />
            ${input('slot', 'Provider', { options: slotNames(providers), value: form.get('slot') ?? paymentProvider.slot })}
            ${input('key', 'API key', { problem: problem?.fields['primaryApiKey'] ?? problem?.fields['alternateApiKey'], hint: 'Stored encrypted and never shown again.', type: 'password', autocomplete: 'off', required: true, maxlength: 8192 })}
            <button class="button" type="submit">Save and test</button>
          </form>
          ${SLOTS.map(slot => keyed(providers, paymentProvider.slot, slot))}`
      )}
    </section>`
}

/** Red notice while the last call with the provider's key failed. */
export function failingProvider(
  { link }: Pick<PageRequest, 'link'>,
  { slot, failing }: SettingsView['paymentProvider']
): VNode | null {
  return failing === null
    ? null
    : html`<p class="notice bad" role="alert">Cannot create invoices: calls to the ${slot} provider have failed (${t(failing.reason)}) since ${timeOf(failing.since)}. <a href=${link('settings#provider')}>Test or replace the key</a>.</p>`
}

function keyed(providers: readonly SettingsView['providers'][number][], used: string, slot: string): VNode | null {
  const hasKey = isKeyed(providers, slot)
  return html`
    ${hasKey ? action('Test', { do: 'test', slot }, { what: t`key of the ${slot} provider` }) : null}
    ${used === slot ? null : action(t`Use ${slot} provider`, { do: 'choose', slot, was: used })}
    ${hasKey ? danger(t`Remove key of the ${slot} provider`, 'Payments created with this key can then no longer be looked up or refunded.', action('Remove', { do: 'remove', slot, was: keysMark(providers) }, { isDanger: true, what: t`key of the ${slot} provider` })) : null}`
}

function slotNames(providers: readonly SettingsView['providers'][number][]): ReadonlyArray<readonly [string, string]> {
  return SLOTS.map(slot => {
    const kinds = providers.filter(one => one.slot === slot).map(({ kind }) => kind)
    return [slot, kinds.length === 0 ? slot : `${kinds.join(' or ')} (${slot})`]
  })
}

function scopes({ scopes: needed }: SettingsView['providers'][number]): VNode {
  return needed.length === 0
    ? html`<span class="soft">No scopes.</span>`
    : html`<ul>${needed.map(({ scope, purpose }) => html`<li><code>${scope}</code> ${t(purpose)}</li>`)}</ul>`
}

function noticesSection(request: PageRequest, { off }: AsRead<NoticeSettings>): VNode {
  const options = Object.entries(NOTICES).map(([name, { title }]) => [name, title] as const)
  const on = options.flatMap(([name]) => ((off as readonly string[]).includes(name) ? [] : [name]))
  return html`
    <section aria-labelledby="mails"><h2 id="mails">Email notifications</h2>
      ${forRole(
        request,
        'editor',
        html`<form method="post" class="form">
          <input type="hidden" name="do" value="notices" />
          ${ticks('notices', 'Send an email for', options, on, "Sent to the account's address, at most one of each kind per hour.")}
          <button class="button small" type="submit">Save</button>
        </form>`
      )}
    </section>`
}

interface TextSetting {
  /** Name of its form and field. */
  readonly does: string
  readonly title: string
  readonly words: string
  readonly role: Role
  readonly label: string
  readonly attributes: InputOptions
  /** Operation below /api/merchant/, and its body. */
  save(text: string): readonly [path: string, body: object]
  now(account: AccountView, settings: SettingsView): string | null
}

const TEXTS: readonly TextSetting[] = [
  {
    does: 'name',
    title: 'Account name',
    words: t('Customers see it on payment pages, receipts and invoices.'),
    role: 'owner',
    label: 'Name',
    attributes: { required: true, maxlength: 200 },
    save: name => ['name', { name }],
    now: ({ name }) => name
  },
  {
    does: 'email',
    title: 'Email address',
    words: t(
      'To change it, invite the new address as an owner under Members and sign in with it once. Saving signs everyone out and removes the previous address from the members.'
    ),
    role: 'owner',
    label: 'Email',
    attributes: { type: 'email', required: true, maxlength: 254 },
    save: email => ['email', { email }],
    now: ({ email }) => email
  },
  {
    does: 'receipt',
    title: 'Receipts',
    words: t('Printed on each receipt by email, such as your legal name, address and tax number.'),
    role: 'editor',
    label: 'Seller details',
    attributes: { maxlength: 500 },
    save: note => ['receipt-note', { note }],
    now: (_, { receiptNote }) => receiptNote
  },
  {
    does: 'colour',
    title: 'Brand color',
    words: t('Used on the payment page that people see in a browser.'),
    role: 'editor',
    label: 'Color, such as #c2410c (leave empty for the default)',
    attributes: { pattern: '#[0-9a-fA-F]{6}', maxlength: 7 },
    save: colour => ['colour', { colour: colour || null }],
    now: (_, { colour }) => colour
  }
]

function textSection(request: PageRequest, of: TextSetting, now: string | null): VNode {
  const { does, title, words, role, label, attributes } = of
  return html`
    <section aria-labelledby=${`of-${does}`}><h2 id=${`of-${does}`}>${t(title)}</h2>
      <p>${t(words)}</p>
      ${forRole(
        request,
        role,
        html`<form method="post" class="filter">
          <input type="hidden" name="do" value=${does} /><input type="hidden" name="was" value=${now ?? ''} />
          ${fieldsOf(request, does)(does, label, { value: now, ...attributes })}
          <button class="button small" type="submit">Save</button>
        </form>`
      )}
    </section>`
}

async function saveKey({ api, form }: Pick<PageRequest, 'api' | 'form'>, slot: string): Promise<PageContent> {
  await expectSameKeys({ api, form })
  const { message } = await api.put<{ readonly message: string }>(`/api/merchant/${slot}-key?test=true`, {
    [`${slot}ApiKey`]: form.text('key')
  })
  return verdict(t('Key saved'), { isValid: true, message })
}

/** @throws ApiRefusal after a concurrent change of either key */
async function expectSameKeys({ api, form }: Pick<PageRequest, 'api' | 'form'>): Promise<void> {
  const { providers } = await api.get<SettingsView>('/api/merchant/settings')
  const words = SLOTS.map(slot => `${isKeyed(providers, slot) ? 'with' : 'without'} a key of the ${slot} provider`)
  expectUnchanged(form, keysMark(providers), words.join(' and '))
}

/** Optimistic lock of the saved keys; changes with a replaced key. */
function keysMark(providers: readonly SettingsView['providers'][number][]): string {
  return SLOTS.map(slot => providers.find(one => one.slot === slot)?.keyVersion ?? '').join(' ')
}

function isKeyed(providers: readonly SettingsView['providers'][number][], slot: string): boolean {
  return providers.some(one => one.slot === slot && one.hasKey)
}

function verdict(title: string, { isValid, message }: KeyVerdictView): PageContent {
  return {
    title,
    content: html`<p class=${`notice ${isValid ? 'good' : 'bad'}`}>${message}</p><p><a class="button" href="settings">Continue</a></p>`
  }
}
