import type { VNode } from 'preact'
import type { ProxyView } from '../../../../payments/proxies/schema.ts'
import { html } from '../../../kit/document.ts'
import { expectUnchanged, markOf } from '../../api.ts'
import type { PageRequest } from '../../page.ts'
import { fieldsOf, ticks } from '../../parts.ts'
import { forRole } from '../../words.ts'

/** Form of an API's settings. The secret is write-only. */
export function apiSettings(request: PageRequest, proxy: ProxyView): VNode {
  const field = fieldsOf(request, 'settings')
  return html`<section aria-labelledby="settings"><h2 id="settings">Settings</h2>${forRole(
    request,
    'editor',
    html`<form method="post" class="form">
      <input type="hidden" name="do" value="settings" /><input type="hidden" name="was" value=${settingsMark(proxy)} />
      ${field('name', 'Name', { value: proxy.name, hint: 'Shown to buyers on invoices.', required: true, maxlength: 100 })}
      ${field('targetBaseUrl', 'Address of your API', { value: proxy.targetBaseUrl, hint: 'Requests are forwarded to this address.', type: 'url', required: true, maxlength: 2048 })}
      ${field('tokenValiditySeconds', 'Token validity in seconds', { value: proxy.tokenValiditySeconds, hint: 'How long buyers can use what they paid for.', inputmode: 'numeric', required: true, maxlength: 8 })}
      ${field('authHeader', 'Authentication header', { value: proxy.authHeader, hint: 'For example, Authorization. Sent to your API with each request, never to buyers.', maxlength: 100, autocomplete: 'off' })}
      ${field('authValue', 'Header value', { hint: proxy.hasAuthValue ? 'A value is saved. Leave empty to keep it.' : 'For example, Bearer sk-…. Stored encrypted and never shown again.', type: 'password', maxlength: 4096, autocomplete: 'off' })}
      ${proxy.hasAuthValue ? ticks('forget', 'Authentication', [['value', 'Remove saved value']], [], 'Your API is then called without it.') : null}
      ${field('allowedPaths', 'Allowed paths', { value: proxy.allowedPaths.join('\n'), hint: 'One per line, such as /v1/*. Leave empty to allow all.', ...PATHS })}
      ${field('blockedPaths', 'Blocked paths', { value: proxy.blockedPaths.join('\n'), hint: 'One per line. Takes precedence over allowed paths.', ...PATHS })}
      <button class="button" type="submit">Save</button>
    </form>`
  )}</section>`
}

const PATHS = { rows: 3, maxlength: 50_000 }

/**
 * Saves the form and leaves an unchanged secret alone.
 * @throws ApiRefusal after a concurrent change, and for the API's refusals
 */
export async function changeSettings({ api, form }: PageRequest, target: string): Promise<void> {
  const now = await api.get<ProxyView>(target)
  expectUnchanged(form, settingsMark(now), 'different')
  const isForgotten = form.get('forget') === 'value'
  const [authHeader, authValue] = [form.text('authHeader'), isForgotten ? '' : form.text('authValue')]
  await api.put(target, {
    name: form.text('name'),
    targetBaseUrl: form.text('targetBaseUrl'),
    tokenValiditySeconds: form.number('tokenValiditySeconds'),
    allowedPaths: form.lines('allowedPaths'),
    blockedPaths: form.lines('blockedPaths'),
    ...(authHeader === '' ? {} : { authHeader }),
    ...(authValue === '' && !isForgotten ? {} : { authValue })
  })
}

function settingsMark(proxy: ProxyView): string {
  const { name, targetBaseUrl, tokenValiditySeconds, authHeader, hasAuthValue, allowedPaths, blockedPaths } = proxy
  return markOf([name, targetBaseUrl, tokenValiditySeconds, authHeader, hasAuthValue, allowedPaths, blockedPaths])
}
