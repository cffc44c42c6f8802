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
        title: 'Signed in',
        content: html`
          <p>These browsers act in your name. Sign out those that you do not know, or no longer use. <a href=${`${root}sign-in/account`}>Your account</a>, <a href=${link(console === 'merchant' ? 'settings/passkeys' : 'passkeys')}>your passkeys</a></p>
          ${accounts.length < 2 ? null : html`<p>You are a member of ${accounts.length} accounts. <a class="button small second" href=${`${root}sign-in/account`}>Go to another</a></p>`}
          ${table(
            'Sessions',
            [
              {
                title: 'Browser',
                cell: (one: ListedSessionView) => html`<bdi>${one.browser === '' ? 'unknown' : one.browser}</bdi>`
              },
              { title: 'Since', cell: one => timeOf(one.createdAt) },
              { title: 'Last used', cell: one => timeOf(one.seenAt) },
              { title: 'Until', cell: one => timeOf(one.expiresAt) },
              {
                title: 'Sign out',
                cell: one =>
                  one.isCurrent
                    ? badge('this one', 'good')
                    : action('Sign out', { sessionId: one.sessionId }, { what: one.browser, isDanger: true })
              }
            ],
            sessions,
            html`<p>No session is yours any more.</p>`
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
