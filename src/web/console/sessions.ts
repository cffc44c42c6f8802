import { t } from '../../engine/formats/language.ts'
import type { SessionView } from '../sign-in/schema.ts'
import type { ListedSessionView } from '../sign-in/session-operations.ts'
import { html } from '../kit/document.ts'
import type { Console, ConsolePage, PageRequest } from './page.ts'
import { action, badge, table, danger, input } from './parts.ts'
import { timeOf } from './words.ts'
import type { VNode } from 'preact'
import type { PasskeyList } from '../sign-in/passkeys/schema.ts'
import { ApiRefusal } from './api.ts'

export function sessionsPage(console: Console): ConsolePage {
  return {
    id: console === 'merchant' ? 'getConsoleSignedIn' : 'getOperatorSignedIn',
    path: 'signed-in',
    summary: 'Where else you are signed in, and signing out there',
    async show({ api, link, root }) {
      const [sessions, { accounts }] = await Promise.all([
        api.get<readonly ListedSessionView[]>('/api/auth/sessions'),
        api.get<SessionView>('/api/auth/session')
      ])
      return {
        title: 'Sessions',
        content: html`
          <p>These browsers are signed in as you. Sign out any that you do not recognize or no longer use. <a href=${`${root}sign-in/account`}>Your account</a>, <a href=${link(console === 'merchant' ? 'settings/passkeys' : 'passkeys')}>your passkeys</a></p>
          ${accounts.length < 2 ? null : html`<p>You are a member of ${accounts.length} accounts. <a class="button small second" href=${`${root}sign-in/account`}>Switch account</a></p>`}
          ${table(
            'Sessions',
            [
              ['Browser', one => html`<bdi>${one.browser === '' ? t('unknown') : one.browser}</bdi>`],
              ['Since', one => timeOf(one.createdAt)],
              ['Last used', one => timeOf(one.seenAt)],
              ['Expires', one => timeOf(one.expiresAt)],
              [
                'Sign out',
                one =>
                  one.isCurrent
                    ? badge('this browser', 'good')
                    : action('Sign out', { sessionId: one.sessionId }, { what: one.browser, isDanger: true })
              ]
            ],
            sessions,
            html`<p>No active sessions.</p>`
          )}`
      }
    },
    async act({ api, form }) {
      await api.delete(`/api/auth/sessions/${encodeURIComponent(form.text('sessionId'))}`)
      return { to: 'signed-in', done: 'removed' }
    }
  }
}

function pathIn(console: Console): string {
  return console === 'merchant' ? 'settings/passkeys' : 'passkeys'
}

/** Offer of a passkey after a sign-in by mail without one; else null. */
export async function passkeyOffer(
  { api, link, query }: Pick<PageRequest, 'api' | 'link' | 'query'>,
  console: Console
): Promise<VNode | null> {
  if (!query.has('welcome')) return null
  try {
    const { canAdd, passkeys } = await api.get<PasskeyList>('/api/auth/passkeys')
    if (!canAdd || passkeys.length > 0) return null
  } catch (error) {
    // The offer is optional: show the page anyway.
    if (error instanceof ApiRefusal) return null
    throw error
  }
  return html`<p class="notice wait">Sign in faster next time, with a fingerprint, your face or a PIN: <a href=${link(pathIn(console))}>add a passkey</a>.</p>`
}

export function passkeysPage(console: Console): ConsolePage {
  const path = pathIn(console)
  return {
    id: console === 'merchant' ? 'getConsolePasskeys' : 'getOperatorPasskeys',
    path,
    summary: 'The passkeys that you sign in with: adding and removing them',
    async show({ api, root }) {
      const { canAdd, passkeys } = await api.get<PasskeyList>('/api/auth/passkeys')
      return {
        title: 'Passkeys',
        content: html`
          <p>With a passkey, you sign in with a fingerprint, your face or a PIN instead of waiting for an email. The email link still works.</p>
          ${
            canAdd
              ? html`<section aria-labelledby="add"><h2 id="add">Add passkey</h2>
              <div class="form" data-passkey="add" data-root=${root} hidden>
                ${input('passkey', 'Name, such as Phone', { maxlength: 100 })}
                <button class="button" type="button">Add passkey</button>
                <p class="error" role="alert" hidden></p>
              </div>
              <noscript><p class="soft">JavaScript is required to add a passkey.</p></noscript>
            </section>`
              : html`<p class="notice wait">You cannot add a passkey here. Sign in with an email link at the https address of this service.</p>`
          }
          ${table(
            'Passkeys',
            [
              [
                'Name',
                one => html`<bdi>${one.name}</bdi>${one.isCurrent ? html` ${badge('current sign-in', 'good')}` : null}`
              ],
              ['Stored', one => (one.isSynced ? t('on several devices') : t('on one device'))],
              ['Added', one => timeOf(one.createdAt)],
              ['Last used', one => (one.usedAt === null ? t('never') : timeOf(one.usedAt))]
            ],
            passkeys,
            html`<p>No passkeys yet. A passkey is stored on your phone, computer or security key.</p>`
          )}
          ${passkeys.length === 0 ? null : html`<section aria-labelledby="change"><h2 id="change">Remove</h2>${passkeys.map(removalOf)}</section>`}`
      }
    },
    async act({ api, form }) {
      await api.delete(`/api/auth/passkeys/${encodeURIComponent(form.text('passkeyId'))}`)
      return { to: path, done: 'removed' }
    }
  }
}

function removalOf({ passkeyId, name, isCurrent }: PasskeyList['passkeys'][number]) {
  return danger(
    t`Remove ${name}`,
    isCurrent
      ? 'You are signed in with this passkey. Removing it signs you out here and everywhere it was used.'
      : 'It can no longer be used to sign in, and its sessions end.',
    action('Remove', { passkeyId }, { isDanger: true, what: name })
  )
}
