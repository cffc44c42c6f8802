import { t } from '../../engine/formats/language.ts'
import type { SessionView } from '../sign-in/schema.ts'
import type { ListedSessionView } from '../sign-in/session-operations.ts'
import { html } from '../kit/document.ts'
import type { Console, ConsolePage } from './page.ts'
import { action, badge, table } from './parts.ts'
import { timeOf } from './words.ts'

export function sessionsPage(console: Console): ConsolePage {
  return {
    id: console === 'merchant' ? 'getConsoleSignedIn' : 'getOperatorSignedIn',
    console,
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
              {
                title: 'Browser',
                cell: (one: ListedSessionView) => html`<bdi>${one.browser === '' ? t('unknown') : one.browser}</bdi>`
              },
              { title: 'Since', cell: one => timeOf(one.createdAt) },
              { title: 'Last used', cell: one => timeOf(one.seenAt) },
              { title: 'Expires', cell: one => timeOf(one.expiresAt) },
              {
                title: 'Sign out',
                cell: one =>
                  one.isCurrent
                    ? badge('this browser', 'good')
                    : action('Sign out', { sessionId: one.sessionId }, { what: one.browser, isDanger: true })
              }
            ],
            sessions,
            html`<p>No active sessions.</p>`
          )}`
      }
    },
    async act({ api, form }) {
      await api.send({
        method: 'DELETE',
        target: `/api/auth/sessions/${encodeURIComponent(form.get('sessionId') ?? '')}`
      })
      return { to: 'signed-in', done: 'removed' }
    }
  }
}
