import { t } from '../../../engine/formats/language.ts'
import type { MemberView } from '../../sign-in/members.ts'
import { html } from '../../kit/document.ts'
import { expectUnchanged } from '../api.ts'
import type { ConsolePage, RedirectTo, PageContent } from '../page.ts'
import { action, choice, danger, field, table } from '../parts.ts'
import { forRole, timeOf } from '../words.ts'

const ROLES = [
  ['viewer', 'viewer: reads'],
  ['editor', 'editor: can also make changes and send refunds to any invoice'],
  ['owner', 'owner: can also manage keys, members and the plan']
] as const

export const membersPage: ConsolePage = {
  id: 'getConsoleMembers',
  console: 'merchant',
  path: 'members',
  summary: 'Who may work in the account, and who is invited to',
  async show(asked): Promise<PageContent> {
    const { api, form, problem } = asked
    const members = await api.get<readonly MemberView[]>('/api/merchant/members')
    return {
      title: 'Members',
      content: html`
        ${table(
          'Members',
          [
            { title: 'Address', cell: (member: MemberView) => html`<bdi>${member.email}</bdi>` },
            { title: 'Role', cell: member => member.role },
            { title: 'Since', cell: member => timeOf(member.createdAt) },
            {
              title: 'Joined',
              cell: member => (member.joinedAt === null ? t('not yet') : timeOf(member.joinedAt))
            }
          ],
          members,
          html`<p>No members yet. Invite people by email; they sign in without your key.</p>`
        )}
        ${forRole(
          asked,
          'owner',
          html`
            <section aria-labelledby="invite"><h2 id="invite">Invite member</h2>
              <form method="post" class="form">
                <input type="hidden" name="do" value="invite" />
                ${field({ name: 'email', label: 'Email', value: form.get('email') ?? '', problem: problem?.fields['email'], hint: 'They get an email with a link that works once, for three days.', attributes: { type: 'email', required: true, maxlength: 254 } })}
                ${choice('role', 'Role', ROLES, form.get('role') ?? 'viewer')}
                <button class="button" type="submit">Invite</button>
              </form>
            </section>
            <section aria-labelledby="change"><h2 id="change">Change</h2>${members.map(changeOf)}</section>`
        )}`
    }
  },
  async act({ api, form }): Promise<RedirectTo> {
    const memberId = form.get('memberId') ?? ''
    const target = `/api/merchant/members/${encodeURIComponent(memberId)}`
    if (form.get('do') === 'invite') {
      const body = { email: (form.get('email') ?? '').trim(), role: form.get('role') ?? '' }
      await api.send({ method: 'POST', target: '/api/merchant/members', body })
      return { to: 'members', done: 'sent' }
    }
    if (form.get('do') === 'remove') {
      await api.send({ method: 'DELETE', target })
      return { to: 'members', done: 'removed' }
    }
    const members = await api.get<readonly MemberView[]>('/api/merchant/members')
    expectUnchanged(form, members.find(member => String(member.memberId) === memberId)?.role ?? '')
    await api.send({ method: 'PUT', target, body: { role: form.get('role') ?? '' } })
    return { to: 'members', done: 'saved' }
  }
}

function changeOf({ memberId, email, role }: MemberView) {
  const id = `role-${memberId}`
  const member = String(memberId)
  return html`
    <form method="post" class="filter">
      <input type="hidden" name="do" value="role" /><input type="hidden" name="memberId" value=${member} /><input type="hidden" name="was" value=${role} />
      <div class="input"><label for=${id}>Role of <bdi>${email}</bdi></label><select id=${id} name="role">${ROLES.map(
        ([value, text]) => html`<option value=${value} selected=${value === role}>${text}</option>`
      )}</select></div>
      <button class="button small second" type="submit">Save<span class="unseen"> the role of ${email}</span></button>
    </form>
    ${danger(t`Remove ${email}`, 'They are signed out immediately and lose access to the account.', action('Remove', { do: 'remove', memberId: member }, { isDanger: true, what: email }))}`
}
